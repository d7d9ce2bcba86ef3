"""What both rivals compare: percentages by resource, and the QoS classes of pods."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.model.resources import CPU, MEMORY, PODS
from trimtab.core.model.setting import ArgumentError, check_ranges, setting


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Percent of allocatable by resource."""

    cpu: float | None = setting(None, "none unless set: percent of CPU", between=(0, 100))
    memory: float | None = setting(None, "none unless set: percent of memory", between=(0, 100))
    pods: float | None = setting(None, "none unless set: percent of the number of pods", between=(0, 100))

    def __post_init__(self) -> None:
        check_ranges(self)

    def percents(self) -> dict[str, float]:
        by_name = {CPU: self.cpu, MEMORY: self.memory, PODS: self.pods}
        return {name: percent for name, percent in by_name.items() if percent is not None}


def check_order(key: str, low: Thresholds, other: str, high: Thresholds, deviation: bool) -> None:
    """Raises ArgumentError if a low threshold is above the high one of the same resource."""
    below, above = low.percents(), high.percents()
    for name in below.keys() & above.keys():
        if below[name] > above[name] and not deviation:
            raise ArgumentError(key, f"{name} at {below[name]:g} is above the {above[name]:g} of {other}: lower it")
