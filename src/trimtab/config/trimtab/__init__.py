"""The `TrimtabConfiguration` document: sources of measurements, how far they are trusted, labels, logs, metrics."""
