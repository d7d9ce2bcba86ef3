"""Notices that pods of a node are not started: its deletion, or the end of its kubelet, may be an event that was lost.

A kubelet sets a pod's start time as soon as it sees the pod, before images are pulled. A pod that has had a node for a minute
without that, or is deleted before, makes the nodes suspect.
"""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.model.events import Event, PodDeleted, PodUpserted
from trimtab.core.model.pod import Pod

START_SECONDS = 60.0
MAX_PODS = 10_000


class UnstartedPods:
    """Pods with a node that no kubelet has started, by UID, oldest first."""

    def __init__(self, suspect: Callable[[str], None]) -> None:
        self._suspect = suspect
        self._waiting: dict[str, tuple[str, float]] = {}

    def take(self, event: Event) -> None:
        """Take in an event of a watch."""
        if isinstance(event, PodUpserted):
            self._upserted(event.pod, event.at)
            self._check(event.at)
        elif isinstance(event, PodDeleted) and (found := self._waiting.pop(event.uid, None)) is not None:
            self._suspect(f"a pod of {found[0]} was deleted before it was started")

    def _upserted(self, pod: Pod, now: float) -> None:
        if not pod.node or pod.started is not None or pod.finished or pod.terminating:
            self._waiting.pop(pod.uid, None)
        elif len(self._waiting) < MAX_PODS:
            self._waiting.setdefault(pod.uid, (pod.node, now))

    def _check(self, now: float) -> None:
        """One pod at a time: each is reported once."""
        uid = next(iter(self._waiting), None)
        if uid is not None and now - self._waiting[uid][1] > START_SECONDS:
            node, since = self._waiting.pop(uid)
            self._suspect(f"a pod of {node} has not been started for {now - since:.0f} s")
