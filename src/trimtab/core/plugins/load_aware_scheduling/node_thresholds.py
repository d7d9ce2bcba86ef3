"""Usage limits by node, where a node's annotation may override the plugin's arguments.

Usually no node has the annotation, and one limit holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Rows
from trimtab.core.model.change import Change
from trimtab.core.model.node import UsageThresholds
from trimtab.core.plugins.load_aware_scheduling.change_cursor import ChangeCursor
from trimtab.core.tables import Floats

CpuAndMemory = tuple[int, int]  # percent, 0 for no limit


class UsageMetric(NamedTuple):
    """What is compared: usage of prod pods, a percentile (`aggregation` over `seconds`), or else the current usage."""

    prod: bool = False
    aggregation: str = ""
    seconds: float = 0.0


LimitsOf = Callable[[UsageThresholds], tuple[UsageMetric, CpuAndMemory]]
NO_THRESHOLDS = UsageThresholds()


def limits_by_metric(view: View, rows: Rows, key: Hashable, limits_of: LimitsOf) -> Mapping[UsageMetric, Floats]:
    """By metric, the limits of CPU and memory, a line each; infinite where there is none, or another metric applies.

    Limits from annotations are cached under `key`, which must stand for `limits_of`.
    """
    if not view.node_table.with_thresholds:
        metric, pair = limits_of(NO_THRESHOLDS)
        return {metric: np.array([[each or np.inf] for each in pair])}
    cached = _CachedLimits() if view.delta is not None else view.load.plugin_cache.setdefault(key, _CachedLimits())
    cached.update(view, limits_of)
    return {metric: lines[:, rows] for metric, lines in cached.limits.items()}


class _CachedLimits:
    """The limits of all rows."""

    __slots__ = ("cursor", "limits")

    def __init__(self) -> None:
        self.cursor = ChangeCursor(Change.ALLOCATABLE)
        self.limits: dict[UsageMetric, Floats] = {}

    def update(self, view: View, limits_of: LimitsOf) -> None:
        rows = self.cursor.rows(view)
        if rows is None:
            metric, pair = limits_of(NO_THRESHOLDS)
            each_row = np.array([[float(each or np.inf)] for each in pair])
            self.limits = {metric: np.repeat(each_row, view.count, axis=1)}
            rows = [row for row, node in enumerate(view.nodes) if node.thresholds is not None]
        for row in rows:
            for lines in self.limits.values():
                lines[:, row] = np.inf
            metric, pair = limits_of(view.nodes[row].thresholds or NO_THRESHOLDS)
            if metric not in self.limits:
                self.limits[metric] = np.full((len(pair), view.count), np.inf)
            self.limits[metric][:, row] = [each or np.inf for each in pair]
