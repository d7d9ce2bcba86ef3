"""The objects of one kind, by UID, and the events that lists and watch events amount to.

Versions of one kind only rise along a watch, so a watch event that is not newer than the last one is a repeat. How many
objects there were at the last few thousand versions is kept: a list of one object says how many the cluster has.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic

from trimtab.core.model.events import Event
from trimtab.kube.kinds import T, WatchedKind
from trimtab.wire.decoding import Malformed
from trimtab.wire.watch import ListPage, WatchEvent

log = logging.getLogger(__name__)
MAX_LOGGED_UIDS = 1_000
SIZES_KEPT = 4_096


class ResourceVersionRegressed(Exception):
    """The cluster is at an older resourceVersion than we have seen: etcd was restored, so the process must start again."""


class Store(Generic[T]):
    """The objects of one kind, by UID; they are the engine's own values, so keeping them costs little."""

    def __init__(self, kind: WatchedKind[T]) -> None:
        self.version = 0
        self.malformed = 0
        self._kind = kind
        self._items: dict[str, T] = {}
        # Versions of malformed objects, by UID: of those that are held as they were before, and of the others.
        self._stale: dict[str, int] = {}
        self._unreadable: dict[str, int] = {}
        self._logged: set[str] = set()
        self._sizes: deque[tuple[int, int]] = deque(maxlen=SIZES_KEPT)
        self._deletions: set[str] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def objects(self) -> dict[str, T]:
        """A copy of all objects, by UID."""
        return dict(self._items)

    def versions(self) -> dict[str, int]:
        """The newest version seen of each object that exists, also of malformed ones, by UID."""
        found = {uid: item.version for uid, item in self._items.items()}
        found.update(self._stale)
        found.update(self._unreadable)
        return found

    @property
    def size(self) -> int:
        """How many objects exist, with malformed ones."""
        return len(self._items) + len(self._unreadable)

    def size_at(self, version: int) -> int | None:
        """The size when the watch passed this version; None if it has not yet, or too long ago."""
        if version > self.version:
            return None
        return next((size for at, size in reversed(self._sizes) if at <= version), None)

    @contextmanager
    def noting_deletions(self) -> Iterator[set[str]]:
        """The UIDs that are deleted while the block runs; one block at a time."""
        self._deletions = set()
        try:
            yield self._deletions
        finally:
            self._deletions = None

    def replace(self, page: ListPage[T], now: float) -> Iterator[Event]:
        """Replace the content by a list; the events for what was deleted, then for what is new or changed."""
        if page.version < self.version:
            raise ResourceVersionRegressed(
                f"{self._kind.name}: listed at version {page.version}, but {self.version} was seen before"
            )
        listed = {item.uid: item for item in page.items if not isinstance(item, Malformed)}
        yield from self._deleted(listed, page, now)
        for uid, item in listed.items():
            held = self._items.get(uid)
            if held is None or item.version > held.version:
                yield self._upserted(item, now)
        self._set_version(page.version)

    def _deleted(self, listed: dict[str, T], page: ListPage[T], now: float) -> Iterator[Event]:
        """Malformed objects in the list are not deleted."""
        kept: set[str] = set()
        self._unreadable.clear()
        for item in page.items:
            if isinstance(item, Malformed):
                self._note_malformed(item, page.version)
                kept.update((item.uid, item.key))
        for uid in [uid for uid in self._items if uid not in listed]:
            if uid not in kept and self._kind.key(self._items[uid]) not in kept:
                event = self.delete(uid, page.version, now)
                assert event is not None
                yield event

    def apply(self, event: WatchEvent[T], now: float) -> Event | None:
        """Apply a watch event; the resulting event, if any."""
        if 0 < event.version <= self.version:
            return None
        changed = self._change(event, now) if event.object is not None else None
        self._set_version(max(self.version, event.version))
        return changed

    def _change(self, event: WatchEvent[T], now: float) -> Event | None:
        if isinstance(event.object, Malformed):
            return self._apply_malformed(event.object, event, now)
        assert event.object is not None
        if event.type == "DELETED":
            self._items[event.object.uid] = event.object
            return self.delete(event.object.uid, event.version, now)
        return self._upserted(event.object, now)

    def delete(self, uid: str, version: int, now: float) -> Event | None:
        """Take an object out that does not exist any more at this version."""
        if self._deletions is not None:
            self._deletions.add(uid)
        self._unreadable.pop(uid, None)
        self._stale.pop(uid, None)
        held = self._items.pop(uid, None)
        return self._kind.deleted(held, version, now) if held is not None else None

    def upsert(self, item: T, now: float) -> Event | None:
        """Take in an object that was read beside the watch, if it is news."""
        held = self._items.get(item.uid)
        return self._upserted(item, now) if held is None or item.version > held.version else None

    def _set_version(self, version: int) -> None:
        self.version = version
        self._sizes.append((version, self.size))

    def _upserted(self, item: T, now: float) -> Event:
        self._items[item.uid] = item
        self._unreadable.pop(item.uid, None)
        self._stale.pop(item.uid, None)
        if self._kind.error is not None and (error := self._kind.error(item)) and self._is_news(item.uid):
            log.warning(
                "object has an invalid field: kind=%s key=%s error=%s", self._kind.name, self._kind.key(item), error
            )
        return self._kind.upserted(item, now)

    def _apply_malformed(self, item: Malformed, event: WatchEvent[T], now: float) -> Event | None:
        self._note_malformed(item, event.version)
        return self.delete(item.uid, event.version, now) if event.type == "DELETED" else None

    def _note_malformed(self, item: Malformed, version: int) -> None:
        """Count each, log each UID once: a malformed object is sent again with every change of it."""
        self.malformed += 1
        (self._stale if item.uid in self._items else self._unreadable)[item.uid] = version
        if self._is_news(item.uid):
            log.warning(
                "skipped malformed object: kind=%s key=%s uid=%s error=%s", item.kind, item.key, item.uid, item.error
            )

    def _is_news(self, uid: str) -> bool:
        """Whether nothing has been logged about this object yet."""
        if uid in self._logged or len(self._logged) >= MAX_LOGGED_UIDS:
            return False
        self._logged.add(uid)
        return True
