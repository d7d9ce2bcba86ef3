"""Marks of pressed nodes: what rules want to see on nodes, and the wishes that bring it about."""
