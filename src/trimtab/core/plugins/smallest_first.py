"""SmallestFirst: higher priority first, then small pods before large ones, within a bound.

A pod's position is fixed when it is queued: its time plus a penalty that grows with its size, up to `longest_penalty`.
So a pod never goes after one of the same priority that was queued more than `longest_penalty` seconds later: no stream
of small pods can starve a large one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, GIB, MEMORY
from trimtab.core.model.setting import INT32, check_ranges, setting

MILLIS = 1000


@dataclass(frozen=True, slots=True)
class SmallestFirst:
    """Penalty in seconds; a pod of `large_cpu` cores or `large_memory` GiB gets all of it, smaller ones less."""

    name: ClassVar[str] = "SmallestFirst"
    requeue_on: ClassVar[Change] = Change.NOTHING

    longest_penalty: float = setting(
        60.0, "60 unless set: by how many seconds the largest pods are delayed", between=(0, INT32)
    )
    large_cpu: float = setting(
        8.0, "8 unless set: the cores from which a pod has the full penalty", above=0, between=(0, INT32)
    )
    large_memory: float = setting(32.0, "32 unless set: the same in GiB of memory", above=0, between=(0, INT32))

    def __post_init__(self) -> None:
        check_ranges(self)

    def queue_sort_key(self, pod: Pod, queued_at: float) -> tuple[float, ...]:
        return (-pod.priority, queued_at + self.longest_penalty * self._size(pod))

    def _size(self, pod: Pod) -> float:
        """0 for a pod without requests, 1 for a large one; the larger of CPU and memory counts."""
        cpu = pod.requests.of(CPU) / (self.large_cpu * MILLIS)
        memory = pod.requests.of(MEMORY) / (self.large_memory * GIB)
        return min(1.0, max(cpu, memory))
