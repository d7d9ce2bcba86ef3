"""What both rivals compare: percentages by resource, and the QoS classes of pods."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY, PODS
from trimtab.core.model.setting import check_ranges, setting

BEST_EFFORT, BURSTABLE, GUARANTEED = 0, 1, 2


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


def qos_class(pod: Pod) -> int:
    """By the sums of all containers, which is exact for pods with one."""
    requests, limits = dict(pod.requests.amounts), dict(pod.requests.limits)
    asked = {name: requests.get(name, 0) for name in (CPU, MEMORY)}
    limited = {name: limits.get(name, 0) for name in (CPU, MEMORY)}
    if not any(asked.values()) and not any(limited.values()):
        return BEST_EFFORT
    return GUARANTEED if all(limited.values()) and limited == asked else BURSTABLE
