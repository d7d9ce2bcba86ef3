"""Decides which settings, profiles and plugins a file asks for; leaves reading the file to its callers."""
