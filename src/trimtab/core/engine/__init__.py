"""Decides when each pod is placed and what the shell is told; leaves where it goes to placing."""
