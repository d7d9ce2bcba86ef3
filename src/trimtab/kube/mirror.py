"""Decides which facts follow from a list or a line of a watch, given what is known; leaves fetching them to the reflector.

Versions of one kind only rise along a watch, so a line that is not newer than the last one is a repeat and says nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Generic

from trimtab.core.model.event import Event
from trimtab.kube.kinds import Kind, T
from trimtab.wire.fault import Malformed
from trimtab.wire.watch import Listed, WatchLine

log = logging.getLogger(__name__)
TOLD_AT_MOST = 1_000


class Rewound(Exception):
    """The cluster's history is behind what we have seen (etcd was restored): all we know is in doubt, so start afresh."""


class Mirror(Generic[T]):
    """The objects of one kind as last told, by UID; they are the core's own values, so keeping them costs little."""

    def __init__(self, kind: Kind[T]) -> None:
        self.version = 0
        self.malformed = 0
        self._kind = kind
        self._held: dict[str, T] = {}
        self._told: set[str] = set()

    def __len__(self) -> int:
        return len(self._held)

    def objects(self) -> dict[str, T]:
        """A copy of what is held, by UID."""
        return dict(self._held)

    def replace(self, listed: Listed[T], at: float) -> Iterator[Event]:
        """Facts that lead from what is held to the list: first what vanished unseen, then what is new or changed."""
        if listed.version < self.version:
            raise Rewound(f"{self._kind.name}: listed at version {listed.version}, but {self.version} was seen before")
        good = {item.uid: item for item in listed.items if not isinstance(item, Malformed)}
        yield from self._vanished(good, listed, at)
        for uid, item in good.items():
            held = self._held.get(uid)
            if held is None or item.version > held.version:
                self._held[uid] = item
                yield self._kind.seen(item, at)
        self.version = listed.version

    def _vanished(self, good: dict[str, T], listed: Listed[T], at: float) -> Iterator[Event]:
        """What is in the list but unreadable has not vanished."""
        spared: set[str] = set()
        for item in listed.items:
            if isinstance(item, Malformed):
                self._tell(item)
                spared.update((item.uid, item.key))
        for uid in [uid for uid in self._held if uid not in good]:
            if uid not in spared and self._kind.key(self._held[uid]) not in spared:
                yield self._kind.gone(self._held.pop(uid), listed.version, at)

    def change(self, line: WatchLine[T], at: float) -> Event | None:
        """The fact in one line of a watch, if there is one."""
        if 0 < line.version <= self.version:
            return None
        self.version = max(self.version, line.version)
        if line.object is None:
            return None
        if isinstance(line.object, Malformed):
            return self._unreadable(line.object, line, at)
        if line.kind == "DELETED":
            self._held.pop(line.object.uid, None)
            return self._kind.gone(line.object, line.version, at)
        self._held[line.object.uid] = line.object
        return self._kind.seen(line.object, at)

    def _unreadable(self, item: Malformed, line: WatchLine[T], at: float) -> Event | None:
        self._tell(item)
        if line.kind == "DELETED" and item.uid in self._held:
            return self._kind.gone(self._held.pop(item.uid), line.version, at)
        return None

    def _tell(self, item: Malformed) -> None:
        """Count each, name each UID once: a bad object is sent again with every change of it."""
        self.malformed += 1
        if item.uid not in self._told and len(self._told) < TOLD_AT_MOST:
            self._told.add(item.uid)
            log.warning("skipped: kind=%s key=%s uid=%s problem=%s", item.kind, item.key, item.uid, item.problem)
