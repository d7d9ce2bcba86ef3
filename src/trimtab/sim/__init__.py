"""The simulator: a simulated cluster on a virtual clock, scheduled by the real engine."""
