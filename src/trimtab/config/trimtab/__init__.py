"""The `TrimtabConfiguration` document, and what a labeller runs with."""
