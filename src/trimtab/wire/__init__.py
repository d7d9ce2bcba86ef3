"""Decides how Kubernetes JSON becomes model values and back; leaves sending and receiving to kube and serve."""
