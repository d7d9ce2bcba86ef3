"""Decides how kube-scheduler is set up as the rival: stock, and looking at every node as Trimtab does."""

from __future__ import annotations

Config = dict[str, object]

NO_RATE_LIMIT = {"qps": 5000, "burst": 5000}


def stock() -> Config:
    """As it comes, but for the limit on requests."""
    return {"clientConnection": NO_RATE_LIMIT}


def all_nodes() -> Config:
    """With the same breadth of search: by itself it looks at a tenth of so many nodes."""
    return {"clientConnection": NO_RATE_LIMIT, "percentageOfNodesToScore": 100}
