"""Prometheus, and whatever speaks its HTTP API: how it is asked, and what its answers say."""
