"""Decides how to speak to the API server; leaves what to say to the core."""
