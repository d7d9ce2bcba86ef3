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
Helps = Callable[[str, tuple[str, ...]], bool]  # a pod's UID, and the plugins that refused it last
SLACK = 16  # entries that may be stale in a group's heaps, beyond as many as it has pods


class Kind(NamedTuple):
    """Pods of one `alike` get equal answers from every plugin; of one `judged`, from those that judge node by node."""

    alike: Hashable
    judged: Hashable


class Entry(Protocol):
    """What is looked at of a waiting pod."""

    uid: str
    key: Key
    not_before: float
    stamp: int
    woken_by: int
    kind: Kind


class Cause(NamedTuple):
    """What a bucket has in common."""

    woken_by: int
    plugins: tuple[str, ...]
    judged: Hashable


class Group:
    """Equal pods. Heaps with lazy removal: an entry counts only while its stamp is the one in `members`."""

    def __init__(self, cause: Cause) -> None:
        self.cause = cause
        self.members: dict[str, int] = {}
        self.rested: list[tuple[Key, str, int]] = []
        self.resting: list[tuple[float, str, int, Key]] = []

    def add(self, entry: Entry) -> None:
        self.members[entry.uid] = entry.stamp
        heapq.heappush(self.resting, (entry.not_before, entry.uid, entry.stamp, entry.key))
        if len(self.rested) + len(self.resting) > 2 * len(self.members) + SLACK:
            self._sweep()

    def first(self, at: float) -> str | None:
        while self.resting and self.resting[0][0] <= at:
            _, uid, stamp, key = heapq.heappop(self.resting)
            heapq.heappush(self.rested, (key, uid, stamp))
        return self._top(self.rested) or self._top(self.resting)

    def _top(self, heap: list[Any]) -> str | None:
        while heap and not self._counts(heap[0]):
            heapq.heappop(heap)
        uid: str | None = heap[0][1] if heap else None
        return uid

    def _counts(self, item: tuple[Any, ...]) -> bool:
        return bool(self.members.get(item[1]) == item[2])

    def _sweep(self) -> None:
        self.rested = [item for item in self.rested if self._counts(item)]
        self.resting = [item for item in self.resting if self._counts(item)]
        heapq.heapify(self.rested)
        heapq.heapify(self.resting)

    def copy(self) -> Group:
        twin = Group(self.cause)
        twin.members, twin.rested, twin.resting = self.members.copy(), self.rested.copy(), self.resting.copy()
        return twin


class Parked:
    """All groups, the buckets that they are in, and all pods in the order in which they were parked."""

    def __init__(self) -> None:
        self.groups: dict[Hashable, Group] = {}
        self.buckets: dict[Cause, dict[Hashable, None]] = {}
        self.since: OrderedDict[str, float] = OrderedDict()

    def add(self, entry: Entry, plugins: tuple[str, ...], at: float) -> None:
        cause, alike = Cause(entry.woken_by, plugins, entry.kind.judged), entry.kind.alike
        group = self.groups.get(alike)
        if group is None:
            group = self.groups[alike] = Group(cause)
        elif group.cause != cause:
            self._leave_bucket(group.cause, alike)
            group.cause = cause
        self.buckets.setdefault(cause, {})[alike] = None
        group.add(entry)
        self.since[entry.uid] = at

    def remove(self, entry: Entry) -> None:
        alike = entry.kind.alike
        group = self.groups[alike]
        del group.members[entry.uid], self.since[entry.uid]
        if not group.members:
            del self.groups[alike]
            self._leave_bucket(group.cause, alike)

    def rekey(self, entry: Entry) -> None:
        """Its place in the order is another one now, and so is its stamp."""
        self.groups[entry.kind.alike].add(entry)

    def first(self, alike: Hashable, at: float) -> str | None:
        """Who of the group goes next."""
        group = self.groups.get(alike)
        return group.first(at) if group is not None else None

    def firsts(self, change: int, at: float, helps: Helps) -> list[str]:
        """The first of every group that this change may help; `helps` is asked about one pod of each bucket."""
        found: list[str | None] = []
        for cause, alikes in self.buckets.items():
            if not cause.woken_by & change:
                continue
            one = self.groups[next(iter(alikes))].first(at)
            if one is not None and helps(one, cause.plugins):
                found += [self.groups[alike].first(at) for alike in alikes]
        return [uid for uid in found if uid is not None]

    def firsts_of(self, entries: Iterable[Entry], change: int, at: float, helps: Helps) -> list[str]:
        """The same for the groups of these pods alone; `helps` is asked about each of them."""
        found: dict[Hashable, str | None] = {}
        for entry in entries:
            group = self.groups[entry.kind.alike]
            if group.cause.woken_by & change and helps(entry.uid, group.cause.plugins):
                found[entry.kind.alike] = group.first(at)
        return [uid for uid in found.values() if uid is not None]

    def late(self, since: float) -> Iterator[str]:
        """Those who have been here since then, or longer."""
        return (uid for uid, _ in takewhile(lambda item: item[1] <= since, self.since.items()))

    def copy(self) -> Parked:
        twin = Parked()
        twin.groups = {alike: group.copy() for alike, group in self.groups.items()}
        twin.buckets = {cause: alikes.copy() for cause, alikes in self.buckets.items()}
        twin.since = self.since.copy()
        return twin

    def _leave_bucket(self, cause: Cause, alike: Hashable) -> None:
        bucket = self.buckets[cause]
        del bucket[alike]
        if not bucket:
            del self.buckets[cause]
