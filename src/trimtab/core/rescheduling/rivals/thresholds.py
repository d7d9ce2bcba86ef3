"""Percentages by resource, and what both rivals ask of a pod before they evict it."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY, PODS
from trimtab.core.model.setting import check_ranges, setting
from trimtab.core.rescheduling.strategies.interface import replaceable

SYSTEM_CRITICAL = 2_000_000_000  # the priority of system-cluster-critical


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


def evictable(pod: Pod) -> bool:
    """As the default evictor has it: a controller replaces the pod elsewhere, and the system does not depend on it."""
    return replaceable(pod) and not pod.terminating and not pod.finished and pod.priority < SYSTEM_CRITICAL
