"""Unschedulable pods, grouped by what may help them.

    equivalent pods ──▶ a group: one is woken, and the next when that one was scheduled
    groups with one wake condition ──▶ a bucket: whether a change helps is asked once for all of them

The newest rejection of one pod of a group holds for the whole group, for they would all be rejected alike. The first of a
group is the next in the queue's order among those whose back-off is over, else the one whose back-off ends first.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

Key = tuple[float, ...]
MayHelp = Callable[[str, tuple[str, ...]], bool]  # a pod's UID, and the plugins that rejected it last
MAX_STALE = 16  # entries that may be stale in a group's heaps, beyond as many as it has pods


class Equivalence(Struct, frozen=True, gc=False):
    """Pods of equal `pods` get equal answers from every plugin; of equal `hints`, from those that filter node by node."""

    pods: Hashable
    hints: Hashable


class Entry(Protocol):
    """What is used of a `QueuedPod`."""

    uid: str
    key: Key
    backoff_until: float
    stamp: int
    requeue_on: int
    equivalence: Equivalence


class WakeCondition(NamedTuple):
    """The changes that may help a bucket of groups, the plugins that rejected them, and what hints depend on."""

    requeue_on: int
    plugins: tuple[str, ...]
    hints: Hashable


class EquivalentPods:
    """A group. Heaps with lazy removal: an entry counts only while its stamp is the one in `members`."""

    def __init__(self, condition: WakeCondition, equivalence: Equivalence) -> None:
        self.condition, self.equivalence = condition, equivalence
        self.members: dict[str, int] = {}
        self.ready: list[tuple[Key, str, int]] = []
        self.backing_off: list[tuple[float, str, int, Key]] = []

    def add(self, entry: Entry) -> None:
        self.members[entry.uid] = entry.stamp
        heapq.heappush(self.backing_off, (entry.backoff_until, entry.uid, entry.stamp, entry.key))
        if len(self.ready) + len(self.backing_off) > 2 * len(self.members) + MAX_STALE:
            self._sweep()

    def first(self, now: float) -> str | None:
        while self.backing_off and self.backing_off[0][0] <= now:
            _, uid, stamp, key = heapq.heappop(self.backing_off)
            heapq.heappush(self.ready, (key, uid, stamp))
        return self._top(self.ready) or self._top(self.backing_off)

    def _top(self, heap: list[Any]) -> str | None:
        while heap and not self._counts(heap[0]):
            heapq.heappop(heap)
        uid: str | None = heap[0][1] if heap else None
        return uid

    def _counts(self, item: tuple[Any, ...]) -> bool:
        return bool(self.members.get(item[1]) == item[2])

    def _sweep(self) -> None:
        self.ready = [item for item in self.ready if self._counts(item)]
        self.backing_off = [item for item in self.backing_off if self._counts(item)]
        heapq.heapify(self.ready)
        heapq.heapify(self.backing_off)

    def copy(self) -> EquivalentPods:
        copied = EquivalentPods(self.condition, self.equivalence)
        copied.members, copied.ready, copied.backing_off = (
            self.members.copy(),
            self.ready.copy(),
            self.backing_off.copy(),
        )
        return copied


class UnschedulablePods:
    """All groups, the buckets that they are in, and all pods by how long they have been unschedulable."""

    def __init__(self) -> None:
        self.groups: dict[Hashable, EquivalentPods] = {}
        self.buckets: dict[WakeCondition, dict[Hashable, None]] = {}
        self.since: OrderedDict[str, float] = OrderedDict()

    def add(self, entry: Entry, plugins: tuple[str, ...], now: float) -> None:
        condition, equivalents = (
            WakeCondition(entry.requeue_on, plugins, entry.equivalence.hints),
            entry.equivalence.pods,
        )
        group = self.groups.get(equivalents)
        if group is None:
            group = self.groups[equivalents] = EquivalentPods(condition, entry.equivalence)
        elif group.condition != condition:
            self._leave_bucket(group.condition, equivalents)
            group.condition, group.equivalence = condition, entry.equivalence
        entry.equivalence = group.equivalence  # they are equal, and one takes less memory
        self.buckets.setdefault(condition, {})[equivalents] = None
        group.add(entry)
        self.since[entry.uid] = now

    def remove(self, entry: Entry) -> None:
        equivalents = entry.equivalence.pods
        group = self.groups[equivalents]
        del group.members[entry.uid], self.since[entry.uid]
        if not group.members:
            del self.groups[equivalents]
            self._leave_bucket(group.condition, equivalents)

    def rekey(self, entry: Entry) -> None:
        """Its sort key and its stamp have changed."""
        self.groups[entry.equivalence.pods].add(entry)

    def first(self, equivalents: Hashable, now: float) -> str | None:
        """The pod of the group that is woken next."""
        group = self.groups.get(equivalents)
        return group.first(now) if group is not None else None

    def wake_candidates(self, change: int, now: float, may_help: MayHelp) -> list[str]:
        """The first of every group that this change may help; `may_help` is asked about one pod of each bucket."""
        found: list[str | None] = []
        for condition, groups in self.buckets.items():
            if not condition.requeue_on & change:
                continue
            one = self.groups[next(iter(groups))].first(now)
            if one is not None and may_help(one, condition.plugins):
                found += [self.groups[equivalents].first(now) for equivalents in groups]
        return [uid for uid in found if uid is not None]

    def wake_candidates_of(self, entries: Iterable[Entry], change: int, now: float, may_help: MayHelp) -> list[str]:
        """The same for the groups of these pods alone; `may_help` is asked about each of them."""
        found: dict[Hashable, str | None] = {}
        for entry in entries:
            group = self.groups[entry.equivalence.pods]
            if group.condition.requeue_on & change and may_help(entry.uid, group.condition.plugins):
                found[entry.equivalence.pods] = group.first(now)
        return [uid for uid in found.values() if uid is not None]

    def overdue(self, since: float) -> Iterator[str]:
        """Pods that have been unschedulable since then, or longer."""
        return (uid for uid, _ in takewhile(lambda item: item[1] <= since, self.since.items()))

    def copy(self) -> UnschedulablePods:
        copied = UnschedulablePods()
        copied.groups = {key: group.copy() for key, group in self.groups.items()}
        copied.buckets = {condition: groups.copy() for condition, groups in self.buckets.items()}
        copied.since = self.since.copy()
        return copied

    def _leave_bucket(self, condition: WakeCondition, equivalents: Hashable) -> None:
        bucket = self.buckets[condition]
        del bucket[equivalents]
        if not bucket:
            del self.buckets[condition]
