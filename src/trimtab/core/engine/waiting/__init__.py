"""Pods that wait: the order in which they are tried, and what wakes those that no node will have."""
