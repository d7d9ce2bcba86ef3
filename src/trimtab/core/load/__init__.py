"""Decides what is known about load from measurements; leaves their fetching to the sources."""
