"""What was measured of nodes: the newest values, and how they went."""
