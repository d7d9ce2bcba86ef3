"""Measurements as columns: what each node really uses, and whether that can still be believed."""
