"""SchedulingGates: keeps a pod out of the queue while it has scheduling gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod


@dataclass(frozen=True, slots=True)
class SchedulingGates:
    """A gated pod is not scheduled, and no Event is written about it."""

    name: ClassVar[str] = "SchedulingGates"
    requeue_on: ClassVar[Change] = Change.OWN_POD_UPDATED

    def pre_enqueue(self, pod: Pod) -> str | None:
        return f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]" if pod.scheduling_gates else None
