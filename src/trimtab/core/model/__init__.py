"""Frozen values that the whole program uses: pods, nodes, other objects, events and instructions."""
