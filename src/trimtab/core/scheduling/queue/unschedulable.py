"""Pods for which no node will do, by what might help them; says who wakes first, and leaves whether it helps to others.

    pods that get equal answers ──▶ a group: one is woken, and the next when that one was placed
    groups with one cause and one hint ──▶ a bucket: whether a change helps is asked once for all of them

The newest refusal of one pod of a group holds for the whole group, for they would all be refused alike. Of a group goes
first who is next in the queue's order among those whose back-off is over, else whose back-off is over first.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

Key = tuple[float, ...]
MayHelp = Callable[[str, tuple[str, ...]], bool]  # a pod's UID, and the plugins that refused it last
MAX_STALE = 16  # entries that may be stale in a group's heaps, beyond as many as it has pods


class Equivalence(NamedTuple):
    """Pods of one `alike` get equal answers from every plugin; of one `judged`, from those that judge node by node."""

    pods: Hashable
    hints: Hashable


class Entry(Protocol):
    """What is looked at of a waiting pod."""

    uid: str
    key: Key
    backoff_until: float
    stamp: int
    requeue_on: int
    equivalence: Equivalence


class WakeCondition(NamedTuple):
    """What a bucket has in common."""

    requeue_on: int
    plugins: tuple[str, ...]
    hints: Hashable


class EquivalentPods:
    """Equal pods. Heaps with lazy removal: an entry counts only while its stamp is the one in `members`."""

    def __init__(self, cause: WakeCondition) -> None:
        self.condition = cause
        self.members: dict[str, int] = {}
        self.ready: list[tuple[Key, str, int]] = []
        self.backing_off: list[tuple[float, str, int, Key]] = []

    def add(self, entry: Entry) -> None:
        self.members[entry.uid] = entry.stamp
        heapq.heappush(self.backing_off, (entry.backoff_until, entry.uid, entry.stamp, entry.key))
        if len(self.ready) + len(self.backing_off) > 2 * len(self.members) + MAX_STALE:
            self._sweep()

    def first(self, at: float) -> str | None:
        while self.backing_off and self.backing_off[0][0] <= at:
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
        twin = EquivalentPods(self.condition)
        twin.members, twin.ready, twin.backing_off = self.members.copy(), self.ready.copy(), self.backing_off.copy()
        return twin


class UnschedulablePods:
    """All groups, the buckets that they are in, and all pods in the order in which they were parked."""

    def __init__(self) -> None:
        self.groups: dict[Hashable, EquivalentPods] = {}
        self.buckets: dict[WakeCondition, dict[Hashable, None]] = {}
        self.since: OrderedDict[str, float] = OrderedDict()

    def add(self, entry: Entry, plugins: tuple[str, ...], at: float) -> None:
        cause, alike = WakeCondition(entry.requeue_on, plugins, entry.equivalence.hints), entry.equivalence.pods
        group = self.groups.get(alike)
        if group is None:
            group = self.groups[alike] = EquivalentPods(cause)
        elif group.condition != cause:
            self._leave_bucket(group.condition, alike)
            group.condition = cause
        self.buckets.setdefault(cause, {})[alike] = None
        group.add(entry)
        self.since[entry.uid] = at

    def remove(self, entry: Entry) -> None:
        alike = entry.equivalence.pods
        group = self.groups[alike]
        del group.members[entry.uid], self.since[entry.uid]
        if not group.members:
            del self.groups[alike]
            self._leave_bucket(group.condition, alike)

    def rekey(self, entry: Entry) -> None:
        """Its place in the order is another one now, and so is its stamp."""
        self.groups[entry.equivalence.pods].add(entry)

    def first(self, alike: Hashable, at: float) -> str | None:
        """Who of the group goes next."""
        group = self.groups.get(alike)
        return group.first(at) if group is not None else None

    def wake_candidates(self, change: int, at: float, helps: MayHelp) -> list[str]:
        """The first of every group that this change may help; `helps` is asked about one pod of each bucket."""
        found: list[str | None] = []
        for cause, alikes in self.buckets.items():
            if not cause.requeue_on & change:
                continue
            one = self.groups[next(iter(alikes))].first(at)
            if one is not None and helps(one, cause.plugins):
                found += [self.groups[alike].first(at) for alike in alikes]
        return [uid for uid in found if uid is not None]

    def wake_candidates_of(self, entries: Iterable[Entry], change: int, at: float, helps: MayHelp) -> list[str]:
        """The same for the groups of these pods alone; `helps` is asked about each of them."""
        found: dict[Hashable, str | None] = {}
        for entry in entries:
            group = self.groups[entry.equivalence.pods]
            if group.condition.requeue_on & change and helps(entry.uid, group.condition.plugins):
                found[entry.equivalence.pods] = group.first(at)
        return [uid for uid in found.values() if uid is not None]

    def overdue(self, since: float) -> Iterator[str]:
        """Those who have been here since then, or longer."""
        return (uid for uid, _ in takewhile(lambda item: item[1] <= since, self.since.items()))

    def copy(self) -> UnschedulablePods:
        twin = UnschedulablePods()
        twin.groups = {alike: group.copy() for alike, group in self.groups.items()}
        twin.buckets = {cause: alikes.copy() for cause, alikes in self.buckets.items()}
        twin.since = self.since.copy()
        return twin

    def _leave_bucket(self, cause: WakeCondition, alike: Hashable) -> None:
        bucket = self.buckets[cause]
        del bucket[alike]
        if not bucket:
            del self.buckets[cause]
