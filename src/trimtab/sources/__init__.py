"""Sources of metrics: what a source must implement, the poller, and the built-in sources."""
