"""PrioritySort: higher priority first, then the pod queued longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod


@dataclass(frozen=True, slots=True)
class PrioritySort:
    """The default order of the queue."""

    name: ClassVar[str] = "PrioritySort"
    requeue_on: ClassVar[Change] = Change.NOTHING

    def queue_sort_key(self, pod: Pod, queued_at: float) -> tuple[float, ...]:
        return (-pod.priority, queued_at)
