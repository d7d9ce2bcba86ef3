"""Holds one file per plugin, each of which judges nodes for one reason; leaves their choice and weights to config."""
