"""Usage limits by node, where a node's annotation may override the plugin's arguments.

Usually no node has the annotation, and one limit holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Rows
from trimtab.core.model.change import Change
from trimtab.core.model.duration import parse_duration
from trimtab.core.model.node import Node
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.plugins.load_aware_scheduling.arguments import AGGREGATION_TYPES, AGGREGATION_WINDOWS, CpuAndMemory
from trimtab.core.plugins.load_aware_scheduling.change_cursor import ChangeCursor
from trimtab.core.tables import Floats

Percents = dict[str, int]

ANNOTATION = "scheduling.koordinator.sh/usage-thresholds"


class UsageThresholds(Struct, frozen=True, gc=False):
    """A node's annotation: percent of CPU and memory, None where it is not set.

    `usage` limits total usage, `prod` that of prod pods, `aggregated` a percentile (`kind`) over `seconds`.
    """

    usage: CpuAndMemory | None = None
    prod: CpuAndMemory | None = None
    aggregated: CpuAndMemory | None = None
    kind: str = ""
    seconds: float = 0.0


class UsageMetric(NamedTuple):
    """What is compared: usage of prod pods, a percentile (`aggregation` over `seconds`), or else the current usage."""

    prod: bool = False
    aggregation: str = ""
    seconds: float = 0.0


LimitsOf = Callable[[UsageThresholds], tuple[UsageMetric, CpuAndMemory]]
NO_THRESHOLDS = UsageThresholds()


class AggregatedShape(Struct, frozen=True, rename="camel"):
    usage_thresholds: Percents | None = None
    usage_aggregation_type: str = ""
    usage_aggregated_duration: str = "0s"


class ThresholdsShape(Struct, frozen=True, rename="camel"):
    usage_thresholds: Percents | None = None
    prod_usage_thresholds: Percents | None = None
    aggregated_usage: AggregatedShape | None = None


def thresholds_of(node: Node) -> UsageThresholds:
    """The thresholds in the node's annotation."""
    text = node.annotations.get(ANNOTATION)
    return (parse_thresholds(text) if text else None) or NO_THRESHOLDS


@lru_cache(maxsize=4096)
def parse_thresholds(text: str) -> UsageThresholds | None:
    """The thresholds in the annotation, or a ValueError; as in Koordinator, an empty map sets none."""
    shape = msgspec.json.decode(text, type=ThresholdsShape)
    usage, prod = _cpu_and_memory(shape.usage_thresholds), _cpu_and_memory(shape.prod_usage_thresholds)
    aggregated, kind, seconds = _aggregated(shape.aggregated_usage or AggregatedShape())
    if usage is None and prod is None and aggregated is None:
        return None
    return UsageThresholds(usage, prod, aggregated, kind, seconds)


def _aggregated(shape: AggregatedShape) -> tuple[CpuAndMemory | None, str, float]:
    percents, kind = _cpu_and_memory(shape.usage_thresholds), shape.usage_aggregation_type
    if percents is None or not kind:  # Koordinator ignores one without the other
        return None, "", 0.0
    if kind not in AGGREGATION_TYPES:
        raise ValueError(f"usageAggregationType {kind[:20]!r} is not one of {', '.join(AGGREGATION_TYPES)}")
    seconds = parse_duration(shape.usage_aggregated_duration) or 0.0
    if seconds and seconds not in AGGREGATION_WINDOWS:  # 0 means the longest available
        raise ValueError(f"usageAggregatedDuration {shape.usage_aggregated_duration[:20]!r} is not 5m, 10m or 30m")
    return percents, kind, seconds


def _cpu_and_memory(percents: Percents | None) -> CpuAndMemory | None:
    if not percents:
        return None
    for name, percent in percents.items():
        if not 0 <= percent <= 100:
            raise ValueError(f"{name[:40]} is {percent}, and must be from 0 to 100")
    return percents.get(CPU, 0), percents.get(MEMORY, 0)


def limits_by_metric(view: View, rows: Rows, key: Hashable, limits_of: LimitsOf) -> Mapping[UsageMetric, Floats]:
    """By metric, the limits of CPU and memory, a line each; infinite where there is none, or another metric applies.

    Limits from annotations are cached under `key`, which must stand for `limits_of`.
    """
    if not view.node_table.annotated:
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
            rows = [row for row, node in enumerate(view.nodes) if ANNOTATION in node.annotations]
        for row in rows:
            for lines in self.limits.values():
                lines[:, row] = np.inf
            metric, pair = limits_of(thresholds_of(view.nodes[row]))
            if metric not in self.limits:
                self.limits[metric] = np.full((len(pair), view.count), np.inf)
            self.limits[metric][:, row] = [each or np.inf for each in pair]
