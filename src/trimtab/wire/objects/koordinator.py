"""Decides how Koordinator's annotation of a node's own thresholds is read; leaves what they are compared with to plugins.

No other annotation of a node is kept. One that cannot be read is named, and the node has no thresholds of its own then.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from trimtab.core.model.duration import parse_duration
from trimtab.core.model.node import UsageThresholds
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.wire.decode_errors import UNREADABLE, format_error, summarize

KEY = "scheduling.koordinator.sh/usage-thresholds"
PATH = f"metadata.annotations[{KEY}]"
AGGREGATIONS = ("avg", "p50", "p90", "p95", "p99")
DURATIONS = (0.0, 300.0, 600.0, 1800.0)  # 0 is the longest that there is

Percents = dict[str, int]
ParsedThresholds = tuple[UsageThresholds | None, str]


class AnnotationsShape(Struct, frozen=True, gc=False):
    """All that is read of a node's annotations; the others are never made into texts."""

    thresholds: str | None = msgspec.field(default=None, name=KEY)


class AggregatedShape(Struct, frozen=True, rename="camel"):
    usage_thresholds: Percents | None = None
    usage_aggregation_type: str = ""
    usage_aggregated_duration: str = "0s"


class ThresholdsShape(Struct, frozen=True, rename="camel"):
    usage_thresholds: Percents | None = None
    prod_usage_thresholds: Percents | None = None
    aggregated_usage: AggregatedShape | None = None


def parse_thresholds(text: str | None) -> ParsedThresholds:
    """What the annotation says, and what is wrong with it; as in Koordinator, an empty map says nothing."""
    if not text:
        return None, ""
    try:
        shape = msgspec.json.decode(text, type=ThresholdsShape)
        return _validated(shape), ""
    except UNREADABLE as error:
        return None, summarize([format_error(PATH, error)])


def _validated(shape: ThresholdsShape) -> UsageThresholds | None:
    usage, prod = _cpu_and_memory(shape.usage_thresholds), _cpu_and_memory(shape.prod_usage_thresholds)
    aggregated, kind, seconds = _aggregated(shape.aggregated_usage or AggregatedShape())
    if usage is None and prod is None and aggregated is None:
        return None
    return UsageThresholds(usage, prod, aggregated, kind, seconds)


def _aggregated(shape: AggregatedShape) -> tuple[tuple[int, int] | None, str, float]:
    percents, kind, seconds = _cpu_and_memory(shape.usage_thresholds), shape.usage_aggregation_type, 0.0
    if percents is None or not kind:  # Koordinator goes by neither alone
        return None, "", 0.0
    if kind not in AGGREGATIONS:
        raise ValueError(f"usageAggregationType {kind[:20]!r} is not one of {', '.join(AGGREGATIONS)}")
    seconds = parse_duration(shape.usage_aggregated_duration) or 0.0
    if seconds not in DURATIONS:
        raise ValueError(f"usageAggregatedDuration {shape.usage_aggregated_duration[:20]!r} is not 5m, 10m or 30m")
    return percents, kind, seconds


def _cpu_and_memory(percents: Percents | None) -> tuple[int, int] | None:
    if not percents:
        return None
    for name, percent in percents.items():
        if not 0 <= percent <= 100:
            raise ValueError(f"{name[:40]} is {percent}, and must be from 0 to 100")
    return percents.get(CPU, 0), percents.get(MEMORY, 0)
