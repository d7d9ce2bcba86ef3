"""Measured load: what nodes and pods use, how far that is trusted, and what they are expected to use."""
