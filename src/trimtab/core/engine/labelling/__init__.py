"""Pressure labels as a turn of the engine: what rules want to see on nodes, and the wishes that bring it about."""
