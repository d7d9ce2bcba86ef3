"""Parses configuration files into settings, profiles and plugins; pure, so callers read the files."""
