"""Above which percentage each node is refused, and of which figure, where nodes may say so themselves.

What a node's own word means beside the plugin's arguments is left to the plugin, and so is what is measured. Usually no node
says anything, and then one line holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.framework.interface import Rows
from trimtab.core.framework.load_scoring.change_cursor import ChangeCursor
from trimtab.core.model.change import Change
from trimtab.core.model.node import UsageThresholds

CpuAndMemory = tuple[int, int]  # percent of CPU and memory, 0 for no limit


class UsageMetric(NamedTuple):
    """What is compared: what prod pods use, a percentile (`kind`, over `seconds`), or else what is used now."""

    prod: bool = False
    aggregation: str = ""
    seconds: float = 0.0


LimitsOf = Callable[[UsageThresholds], tuple[UsageMetric, CpuAndMemory]]
NO_THRESHOLDS = UsageThresholds()


def limits_by_metric(view: View, rows: Rows, key: Hashable, limits_of: LimitsOf) -> Mapping[UsageMetric, Floats]:
    """By figure, the limits of CPU and memory, a line each; infinite where there is none, or another figure counts.

    What is worked out from nodes' own words is kept under the key, which must stand for the judge.
    """
    if not view.node_table.with_thresholds:
        figure, both = limits_of(NO_THRESHOLDS)
        return {figure: np.array([[each or np.inf] for each in both])}
    held = _CachedLimits() if view.delta is not None else view.load.plugin_cache.setdefault(key, _CachedLimits())
    held.update(view, limits_of)
    return {figure: lines[:, rows] for figure, lines in held.limits.items()}


class _CachedLimits:
    """The limits of all rows."""

    __slots__ = ("cursor", "limits")

    def __init__(self) -> None:
        self.cursor = ChangeCursor(Change.ALLOCATABLE)
        self.limits: dict[UsageMetric, Floats] = {}

    def update(self, view: View, limits_of: LimitsOf) -> None:
        rows = self.cursor.rows(view)
        if rows is None:
            figure, both = limits_of(NO_THRESHOLDS)
            each_row = np.array([[float(each or np.inf)] for each in both])
            self.limits = {figure: np.repeat(each_row, view.count, axis=1)}
            rows = [row for row, node in enumerate(view.nodes) if node.thresholds is not None]
        for row in rows:
            for lines in self.limits.values():
                lines[:, row] = np.inf
            figure, both = limits_of(view.nodes[row].thresholds or NO_THRESHOLDS)
            if figure not in self.limits:
                self.limits[figure] = np.full((len(both), view.count), np.inf)
            self.limits[figure][:, row] = [each or np.inf for each in both]
