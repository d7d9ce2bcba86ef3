"""Takes snapshots of a live cluster: its objects, what they use, and what they have used."""
