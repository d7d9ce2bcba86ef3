"""What a rival knows of nodes: usage and capacity by resource and row, and the loop that evicts until it suffices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from trimtab.core.model.pod import Pod
from trimtab.core.tables import Floats, Index


class NodeUsage(NamedTuple):
    """By resource and row; `high` is the amount above which a row is too full."""

    resources: tuple[str, ...]
    usage: Floats
    high: Floats

    def headroom(self, rows: Index) -> Floats:
        """By resource: what all these rows together have left below `high`."""
        return np.asarray((self.high - self.usage)[:, rows].sum(axis=1))

    def too_full(self, row: int) -> bool:
        return bool((self.usage[:, row] > self.high[:, row]).any())


PodUsage = Callable[[Pod], Floats | None]  # by resource; None if it is unknown


def evict_until_enough(
    nodes: NodeUsage, row: int, headroom: Floats, pods: Iterable[Pod], usage_of: PodUsage, limit: float
) -> list[Pod]:
    """One pod after the other, while the row is too full and the targets together have headroom left in every resource.

    Both are changed in place. A pod whose usage is unknown is passed over.
    """
    evicted: list[Pod] = []
    for pod in pods:
        if len(evicted) >= limit or not nodes.too_full(row) or (headroom <= 0).any():
            break
        usage = usage_of(pod)
        if usage is not None:
            nodes.usage[:, row] -= usage
            headroom -= usage
            evicted.append(pod)
    return evicted
