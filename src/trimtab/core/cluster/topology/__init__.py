"""Pods per topology domain: selectors, affinity terms and counts."""
