"""Kubernetes JSON to model values and back."""
