"""PrioritySort: higher priority first, then whoever has waited longer; gives a key and leaves the queue to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod


@dataclass(frozen=True, slots=True)
class PrioritySort:
    """The default order of the queue."""

    name: ClassVar[str] = "PrioritySort"
    woken_by: ClassVar[Change] = Change.NOTHING

    def order(self, pod: Pod, since: float) -> tuple[float, ...]:
        return (-pod.priority, since)
