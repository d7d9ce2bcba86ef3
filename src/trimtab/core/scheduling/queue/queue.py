"""The scheduling queue: active, backoff, unschedulable and gated pods, as in kube-scheduler.

                  add                     pop
    (unknown) ──────────▶ active ────────────────────▶ popped: in its scheduling or binding cycle
                            ▲  ▲                          │              │
            back-off over   │  │ woken                    │ no node      │ a bind failed
                    ┌───────┘  └──────────┐               ▼              ▼
                 backoff ◀──────── unschedulable ◀────────┘           backoff
          woken too early, or waited too long  (with what may wake it)

The order of the active queue is the profile's QueueSort key (priority, then time), then the UID. Back-off starts at 1 s
and doubles to 10 s with each attempt that failed; when the active queue is empty, pods are popped before it is over
(`backoff`). An unschedulable pod is tried again after `max_unschedulable_wait` in any case, for hints can be wrong: when
nothing else is to be done, at the latest 10 s after that, so that thousands of such pods delay no others. The attempt does
not lengthen its back-off. Of equivalent pods only the first is woken by a change (`unschedulable`). If it is
scheduled, or leaves the queue otherwise than by being unschedulable again, the next of them is woken. A pod that is held
(its preemption is under way) stays unschedulable, whatever happens.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Set
from itertools import islice

from msgspec.structs import replace

from trimtab.core.model.change import Change
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.queue import queue_events
from trimtab.core.scheduling.queue.backoff import BackoffQueue
from trimtab.core.scheduling.queue.queued_pod import QueuedPod, QueueState
from trimtab.core.scheduling.queue.unschedulable import Equivalence, Key, MayHelp, UnschedulablePods
from trimtab.core.settings import INITIAL_BACKOFF, MAX_BACKOFF, MAX_UNSCHEDULABLE_WAIT

MAX_FINISHED = 10_000  # pods that left the queue
MAX_OVERDUE = 20  # unschedulable pods that are requeued at once; the next of them half a second or a turn later


class SchedulingQueue:
    """Heaps with lazy removal: an entry counts only while its stamp is the pod's newest."""

    def __init__(
        self,
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
        max_unschedulable_wait: float = MAX_UNSCHEDULABLE_WAIT,
        recorder: MetricsRecorder | None = None,
    ) -> None:
        self.recorder = recorder if recorder is not None else MetricsRecorder()
        self.initial_backoff, self.max_backoff = initial_backoff, max_backoff
        self.max_unschedulable_wait = max_unschedulable_wait
        self.pods: dict[str, QueuedPod] = {}
        self._active: list[tuple[Key, str, int]] = []
        self._backoff = BackoffQueue()
        self._unschedulable = UnschedulablePods()
        self._stamps = 0
        self.finished: OrderedDict[str, QueuedPod] = OrderedDict()  # the newest that left the queue, for explanations

    def __len__(self) -> int:
        return len(self.pods)

    def add(self, uid: str, key: Key, now: float) -> None:
        """Add a pod that is new to the queue, or whose gates were removed."""
        entry, cause, event = self.pods.get(uid), "the gates were removed", queue_events.POD_UPDATE
        if entry is None:
            entry, cause, event = QueuedPod(uid, key, now), "the pod was seen", queue_events.POD_ADD
            self.pods[uid] = entry
        self._leave(entry)
        self._wake_next(entry, now)
        entry.key = key
        self._to_active(entry)
        self._entered(entry, now, cause, event)

    def gate(self, uid: str, key: Key, now: float, cause: str = "") -> None:
        """Add a gated pod, which is not attempted."""
        event = queue_events.POD_UPDATE if uid in self.pods else queue_events.POD_ADD
        entry = self.pods.setdefault(uid, QueuedPod(uid, key, now))
        if entry.state is QueueState.GATED:
            return
        self._leave(entry)
        self._wake_next(entry, now)
        entry.state = QueueState.GATED
        self._entered(entry, now, cause, event)

    def pop(self, now: float) -> QueuedPod | None:
        """Pop the next pod, one that backs off if no other is ready; counts as an attempt."""
        if self.has_active():
            entry = self.pods[heapq.heappop(self._active)[1]]
        elif (uid := self._backoff.first(self._backs_off)) is not None:
            entry = self.pods[uid]
            self.recorder.queued(QueueState.ACTIVE, queue_events.POP_FROM_BACKOFF)
        else:
            return None
        self._popped(entry, now)
        return entry

    def take(self, uid: str, now: float) -> None:
        """Pop this pod, whatever its state, to be scheduled together with another; counts as an attempt."""
        entry = self.pods[uid]
        self._leave(entry)
        self._wake_next(entry, now)
        self._popped(entry, now)

    def add_unschedulable(
        self,
        uid: str,
        requeue_on: Change,
        plugins: tuple[str, ...],
        now: float,
        equivalence: Equivalence | None = None,
        backoff: float = 0.0,
    ) -> None:
        """No node is feasible for it, nor for equivalent pods (None: it is unique); it backs off for at least `backoff`."""
        entry = self.pods[uid]
        self._leave(entry)
        entry.equivalence = equivalence or Equivalence(uid, uid)
        entry.requeue_on, entry.plugins = int(requeue_on), plugins
        if entry.wakes_next == entry.equivalence.pods:
            entry.wakes_next = None  # they would all be rejected alike
        self._wake_next(entry, now)
        entry.errors, entry.sits_out = 0, backoff > 0.0
        entry.failures += not entry.timed_out
        entry.backoff_until = now + max(self.backoff_of(entry.failures), backoff)
        self._stamp(entry, QueueState.UNSCHEDULABLE)
        self._unschedulable.add(entry, plugins, now)
        by = f", rejected by {', '.join(plugins)}" if plugins else ""
        self._entered(entry, now, f"attempt {entry.attempts} failed{by}", queue_events.SCHEDULE_ATTEMPT_FAILURE)

    def add_backoff(self, uid: str, now: float, until: float = 0.0) -> None:
        """An attempt failed for another reason than the nodes: try again after a back-off, not before `until`."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._leave(entry)
            self._wake_next(entry, now)
            entry.errors, entry.sits_out = entry.errors + 1, True
            entry.backoff_until = max(now + self.backoff_of(entry.errors), until)
            self._to_backoff(entry, now)
            cause = f"attempt {entry.attempts} failed, back-off of {entry.backoff_until - now:.1f} s"
            self._entered(entry, now, cause, queue_events.SCHEDULE_ATTEMPT_FAILURE)

    def backoff_of(self, failures: int) -> float:
        return min(self.initial_backoff * 2.0 ** min(max(failures - 1, 0), 32), self.max_backoff)

    def hold(self, uid: str, until: float) -> None:
        """Until then, or until it is released, the pod is not requeued."""
        entry = self.pods.get(uid)
        if entry is not None:
            entry.held_until = until

    def release(self, uid: str) -> None:
        self.hold(uid, -math.inf)

    def wake(
        self,
        change: Change,
        now: float,
        may_help: MayHelp = lambda uid, plugins: True,
        pods: Set[str] | None = None,
        event: str = "",
        may_wake: Callable[[str], bool] = lambda uid: True,
    ) -> list[str]:
        """Requeue the unschedulable pods (of these, if any are named) that the change may help; returns their UIDs.

        `may_help` is asked about one for all that get the same answer, `may_wake` about each. `event` is the name of what
        happened, if it is known better than from the change.
        """
        if pods is None:
            woken = self._unschedulable.wake_candidates(int(change), now, may_help)
        else:
            named = [self.pods[uid] for uid in sorted(pods) if uid in self.pods]
            woken = self._unschedulable.wake_candidates_of(
                [each for each in named if each.state is QueueState.UNSCHEDULABLE], int(change), now, may_help
            )
        event = event or queue_events.cluster_event(change)
        return [uid for uid in woken if may_wake(uid) and self._wake_leader(self.pods[uid], now, change, event)]

    def wake_all(self, now: float) -> None:
        """Requeue every unschedulable pod: the settings, or what can be read, changed."""
        for uid in list(self._unschedulable.since):
            self._requeue(self.pods[uid], now, "settings or permissions changed", queue_events.FORCE_ACTIVATE)

    def wake_equivalent(self, equivalents: Hashable, now: float) -> None:
        """Requeue the first of these equivalent pods."""
        uid = self._unschedulable.first(equivalents, now)
        if uid is not None:
            cause = "an equivalent pod was scheduled, or its group changed"
            self._wake_leader(self.pods[uid], now, cause, queue_events.FORCE_ACTIVATE)

    def wake_one(self, uid: str, now: float, event: str = queue_events.POD_UPDATE) -> None:
        """Requeue this pod: it was updated, or its nomination is void."""
        entry = self.pods.get(uid)
        if entry is not None and entry.state is QueueState.UNSCHEDULABLE:
            self._requeue(entry, now, "the pod was updated, or lost its nomination", event)
        elif entry is not None:
            self._wake_next(entry, now)

    def scheduled(self, uid: str, now: float) -> None:
        """The pod has a node: what helped it may help the next equivalent one."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._wake_next(entry, now)

    def rekey(self, uid: str, key: Key) -> None:
        """Change the pod's sort key."""
        entry = self.pods.get(uid)
        if entry is None or entry.key == key:
            return
        entry.key = key
        if entry.state is QueueState.ACTIVE:
            self._to_active(entry)
        elif entry.state is QueueState.UNSCHEDULABLE:
            self._stamp(entry, QueueState.UNSCHEDULABLE)
            self._unschedulable.rekey(entry)

    def tick(self, now: float) -> None:
        """Time has passed: back-offs end, and no pod stays unschedulable for ever."""
        for uid in self._backoff.completed(now, self._backs_off):
            self._to_active(self.pods[uid])
            self._entered(self.pods[uid], now, "the back-off is over", queue_events.BACKOFF_COMPLETE)
        for uid in list(islice(self._unschedulable.overdue(now - self.max_unschedulable_wait), MAX_OVERDUE)):
            cause = f"{self.max_unschedulable_wait:g} s have passed"
            self._requeue(self.pods[uid], now, cause, queue_events.UNSCHEDULABLE_TIMEOUT)

    def delete(self, uid: str, now: float) -> QueuedPod | None:
        """Remove a pod that is bound, deleted, or names another scheduler."""
        entry = self.pods.get(uid)
        if entry is not None:
            self._leave(entry)
            del self.pods[uid]
            self._wake_next(entry, now)
            self._remember(entry, now)
        return entry

    def _remember(self, entry: QueuedPod, now: float) -> None:
        entry.note(now, QueueState.POPPED, "the pod left the queue")
        self.finished.pop(entry.uid, None)
        self.finished[entry.uid] = entry
        if len(self.finished) > MAX_FINISHED:
            self.finished.popitem(last=False)

    def counts(self) -> dict[QueueState, int]:
        counts = dict.fromkeys(QueueState, 0)
        for entry in self.pods.values():
            counts[entry.state] += 1
        return counts

    def has_ready(self) -> bool:
        """Whether a pod can be popped now."""
        return self.has_active() or self._backoff.first(self._backs_off) is not None

    def has_active(self) -> bool:
        """Whether the next pod to be popped is of the active queue, not one that backs off."""
        while self._active:
            _, uid, stamp = self._active[0]
            entry = self.pods.get(uid)
            if entry is not None and entry.stamp == stamp and entry.state is QueueState.ACTIVE:
                return True
            heapq.heappop(self._active)
        return False

    def unschedulable(self) -> Iterator[QueuedPod]:
        return (entry for entry in self.pods.values() if entry.state is QueueState.UNSCHEDULABLE)

    def copy(self, recorder: MetricsRecorder | None = None) -> SchedulingQueue:
        copied = SchedulingQueue(self.initial_backoff, self.max_backoff, self.max_unschedulable_wait, recorder)
        copied.pods = {uid: replace(entry, history=entry.history.copy()) for uid, entry in self.pods.items()}
        copied._active, copied._backoff, copied._stamps = self._active.copy(), self._backoff.copy(), self._stamps
        copied._unschedulable = self._unschedulable.copy()
        return copied

    def _requeue(self, entry: QueuedPod, now: float, cause: str | Change, event: str) -> bool:
        """To the active queue, or to the back-off queue if it is too early; False for a pod that is held."""
        if entry.held_until > now:
            return False
        self._leave(entry)
        entry.timed_out = event == queue_events.UNSCHEDULABLE_TIMEOUT
        if entry.timed_out:
            entry.backoff_until, entry.sits_out = now + self.max_backoff, False
        if entry.backoff_until > now:
            self._to_backoff(entry, now)
        else:
            self._to_active(entry)
        self._entered(entry, now, cause, event)
        return True

    def _entered(self, entry: QueuedPod, now: float, cause: str | Change, event: str) -> None:
        entry.note(now, entry.state, cause)
        self.recorder.queued(entry.state, event)

    def _popped(self, entry: QueuedPod, now: float) -> None:
        entry.state, entry.attempted_at, entry.held_until = QueueState.POPPED, now, -math.inf
        entry.attempts += 1
        if entry.attempts == 1:
            entry.first_attempt_at = now

    def _to_active(self, entry: QueuedPod) -> None:
        self._stamp(entry, QueueState.ACTIVE)
        heapq.heappush(self._active, (entry.key, entry.uid, entry.stamp))

    def _to_backoff(self, entry: QueuedPod, now: float) -> None:
        self._stamp(entry, QueueState.BACKOFF)
        if entry.sits_out:
            self._backoff.add(entry.uid, entry.stamp, entry.backoff_until)
        else:
            self._backoff.add_poppable(entry.uid, entry.stamp, entry.key, entry.backoff_until, entry.attempted_at, now)

    def _backs_off(self, uid: str, stamp: int) -> bool:
        entry = self.pods.get(uid)
        return entry is not None and entry.stamp == stamp and entry.state is QueueState.BACKOFF

    def _stamp(self, entry: QueuedPod, state: QueueState) -> None:
        self._stamps += 1
        entry.stamp, entry.state = self._stamps, state

    def _wake_leader(self, entry: QueuedPod, now: float, cause: str | Change, event: str) -> bool:
        requeued = self._requeue(entry, now, cause, event)
        if requeued:
            entry.wakes_next = entry.equivalence.pods
        return requeued

    def _wake_next(self, entry: QueuedPod, now: float) -> None:
        equivalents, entry.wakes_next = entry.wakes_next, None
        if equivalents is not None:
            self.wake_equivalent(equivalents, now)

    def _leave(self, entry: QueuedPod) -> None:
        if entry.state is QueueState.UNSCHEDULABLE:
            self._unschedulable.remove(entry)
        entry.state = QueueState.POPPED
