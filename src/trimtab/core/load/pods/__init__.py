"""What was measured of pods: who stands where, how each went, and what it counts for."""
