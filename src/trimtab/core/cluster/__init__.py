"""Decides what the state of the cluster is after each event; leaves what to do about it to placing and the engine."""
