"""The HTML report of a comparison: one file without scripts, fonts or pictures from elsewhere."""
