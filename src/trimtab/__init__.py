"""Trimtab: a load-aware Kubernetes scheduler; the package itself decides nothing and leaves all to its parts."""
