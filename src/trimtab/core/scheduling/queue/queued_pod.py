"""One pod in the scheduling queue: in which of the queues it is, its attempts and back-off, and how it came there.

There may be ten thousand: `gc=False`, for Python's garbage collector would stop the process to look at each.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from enum import StrEnum

from msgspec import Struct

from trimtab.core.model.change import Change
from trimtab.core.scheduling.queue.unschedulable import Equivalence, Key

MAX_STEPS = 40  # kept of a pod's history


class QueueState(StrEnum):
    """Where a pending pod is. The values but the last are kube-scheduler's names for its queues."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    POPPED = "out"


class QueueStep(Struct, frozen=True, gc=False):
    """A pod entered one of the queues, or left them all; the cause is a phrase, or the changes that woke it."""

    at: float
    queue: str
    cause: str | Change


class QueuedPod(Struct, gc=False):
    """One pod in the queue."""

    uid: str
    key: Key
    since: float
    first_attempt_at: float = 0.0  # when it was first popped
    state: QueueState = QueueState.POPPED
    attempts: int = 0
    attempted_at: float = -math.inf  # when it was last popped
    failures: int = 0  # attempts that found no node, but those that only time had brought about
    errors: int = 0  # attempts in a row that failed for another reason
    timed_out: bool = False  # the next attempt, or the one under way, is one that only time has brought about
    backoff_until: float = 0.0  # end of the back-off after the last attempt
    sits_out: bool = False  # it is not popped before its back-off is over
    held_until: float = -math.inf
    requeue_on: int = 0
    plugins: tuple[str, ...] = ()
    stamp: int = 0
    equivalence: Equivalence = Equivalence("", "")
    wakes_next: Hashable | None = None  # the equivalent pods to wake once this one is scheduled
    history: list[QueueStep] = []  # the first step, and the newest ones

    def note(self, at: float, queue: str, cause: str | Change) -> None:
        self.history.append(QueueStep(at, queue, cause))
        if len(self.history) > MAX_STEPS:
            del self.history[1]
