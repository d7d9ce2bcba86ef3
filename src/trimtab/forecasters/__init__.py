"""Forecasters that need more than the core may import; `apps/plugins.py` offers them to the configuration."""
