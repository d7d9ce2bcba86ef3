"""HTTP endpoints: health, metrics, explain, labeller status."""
