"""The objects of one kind, by UID, and the events that lists and watch events amount to.

Versions of one kind only rise along a watch, so a watch event that is not newer than the last one is a repeat.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Generic

from trimtab.core.model.events import Event
from trimtab.kube.kinds import T, WatchedKind
from trimtab.wire.decoding import Malformed
from trimtab.wire.watch import ListPage, WatchEvent

log = logging.getLogger(__name__)
MAX_LOGGED_UIDS = 1_000


class ResourceVersionRegressed(Exception):
    """The cluster is at an older resourceVersion than we have seen: etcd was restored, so the process must start again."""


class Store(Generic[T]):
    """The objects of one kind, by UID; they are the engine's own values, so keeping them costs little."""

    def __init__(self, kind: WatchedKind[T]) -> None:
        self.version = 0
        self.malformed = 0
        self._kind = kind
        self._items: dict[str, T] = {}
        self._logged: set[str] = set()

    def __len__(self) -> int:
        return len(self._items)

    def objects(self) -> dict[str, T]:
        """A copy of all objects, by UID."""
        return dict(self._items)

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
        self.version = page.version

    def _deleted(self, listed: dict[str, T], page: ListPage[T], now: float) -> Iterator[Event]:
        """Malformed objects in the list are not deleted."""
        kept: set[str] = set()
        for item in page.items:
            if isinstance(item, Malformed):
                self._log_malformed(item)
                kept.update((item.uid, item.key))
        for uid in [uid for uid in self._items if uid not in listed]:
            if uid not in kept and self._kind.key(self._items[uid]) not in kept:
                yield self._kind.deleted(self._items.pop(uid), page.version, now)

    def apply(self, event: WatchEvent[T], now: float) -> Event | None:
        """Apply a watch event; the resulting event, if any."""
        if 0 < event.version <= self.version:
            return None
        self.version = max(self.version, event.version)
        if event.object is None:
            return None
        if isinstance(event.object, Malformed):
            return self._apply_malformed(event.object, event, now)
        if event.type == "DELETED":
            self._items.pop(event.object.uid, None)
            return self._kind.deleted(event.object, event.version, now)
        return self._upserted(event.object, now)

    def _upserted(self, item: T, now: float) -> Event:
        self._items[item.uid] = item
        if self._kind.error is not None and (error := self._kind.error(item)) and self._is_news(item.uid):
            log.warning(
                "object has an invalid field: kind=%s key=%s error=%s", self._kind.name, self._kind.key(item), error
            )
        return self._kind.upserted(item, now)

    def _apply_malformed(self, item: Malformed, event: WatchEvent[T], now: float) -> Event | None:
        self._log_malformed(item)
        if event.type == "DELETED" and item.uid in self._items:
            return self._kind.deleted(self._items.pop(item.uid), event.version, now)
        return None

    def _log_malformed(self, item: Malformed) -> None:
        """Count each, log each UID once: a malformed object is sent again with every change of it."""
        self.malformed += 1
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
