"""Structured arguments of LoadAwareScheduling, as in Koordinator's LoadAwareSchedulingArgs."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.model.duration import Duration
from trimtab.core.model.resources import CPU
from trimtab.core.model.setting import check_ranges, setting

CpuAndMemory = tuple[int, int]  # percent, 0 for no limit

AGGREGATION_TYPES = {"avg": 0, "p50": 50, "p90": 90, "p95": 95, "p99": 99}
AGGREGATION_WINDOWS = (300.0, 600.0, 1800.0)


@dataclass(frozen=True, slots=True)
class ByResource:
    """A whole number for each resource, 0 to 100; 0 stands for unset.

    As in Koordinator, an empty map in a file is the same as none; one with zeros removes the limits.
    """

    cpu: int = setting(0, between=(0, 100))
    memory: int = setting(0, between=(0, 100))

    def __post_init__(self) -> None:
        check_ranges(self)

    def of(self, resource: str) -> int:
        return self.cpu if resource == CPU else self.memory

    @property
    def pair(self) -> CpuAndMemory:
        return self.cpu, self.memory

    def __bool__(self) -> bool:
        return bool(self.cpu or self.memory)


NO_LIMITS = ByResource()
DEFAULT_THRESHOLDS = ByResource(65, 95)
EQUAL_WEIGHTS = ByResource(1, 1)
DEFAULT_FACTORS = ByResource(85, 70)
UNSET = Duration(0)


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Percentiles in place of the latest value: for the filter with thresholds of their own, and for the score."""

    usage_thresholds: ByResource = NO_LIMITS
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Duration = UNSET
    score_aggregation_type: str = ""
    score_aggregated_duration: Duration = UNSET

    def __post_init__(self) -> None:
        for name, kind in (
            ("usageAggregationType", self.usage_aggregation_type),
            ("scoreAggregationType", self.score_aggregation_type),
        ):
            if kind and kind not in AGGREGATION_TYPES:
                raise ValueError(f"{name}: {kind!r} is not one of {', '.join(AGGREGATION_TYPES)}")
        for name, span in (
            ("usageAggregatedDuration", self.usage_aggregated_duration),
            ("scoreAggregatedDuration", self.score_aggregated_duration),
        ):
            if span and span not in AGGREGATION_WINDOWS:
                raise ValueError(f"{name} is {span:g}s: it must be 5m, 10m or 30m")
        if self.usage_thresholds and not self.usage_aggregation_type:
            raise ValueError(f"usageThresholds need a usageAggregationType: {', '.join(AGGREGATION_TYPES)}")
