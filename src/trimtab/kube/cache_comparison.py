"""Compares the Store of one kind with a consistent list, and repairs what the watch has not told.

    every 10 min, or soon after suspect() ─▶ metadata of all objects, at version L ─▶ the same: done
                                                         └─▶ different: wait until the watch has passed L, 10 s at most
                                                                  ├─▶ the same: the watch was only later
                                                                  └─▶ different: a few are read again, many mean another list

The list is of metadata alone, in pages, and is compared in a thread, so it costs the event loop little; of all kinds one is
compared at a time. A suspicion that turns out wrong makes the next ones wait, twice as long each time, unless the watch was
found silent and has brought nothing since; one that could not be checked, because the list failed, is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from trimtab.core.model.events import Event
from trimtab.kube.listing import LIST_TIMEOUT, MAX_PAGE_BYTES, ListError, list_pages
from trimtab.kube.transport import Transport, Unreachable
from trimtab.wire.decoding import Malformed
from trimtab.wire.metadata import MetadataReader, ObjectMetadata
from trimtab.wire.requests import METADATA_LIST, find_request
from trimtab.wire.watch import ListPage, decode_list

if TYPE_CHECKING:
    from trimtab.kube.reflector import Reflector

log = logging.getLogger(__name__)
INTERVAL = 600.0
JITTER = (0.75, 1.25)
SETTLE_SECONDS = 10.0
POLL_SECONDS = 0.2
RETRY_SECONDS = 10.0  # after a suspicion that could not be checked
FIRST_HOLD = 60.0  # after a suspicion that turned out wrong
MAX_READS = 20  # with more differences than that, listing the kind is cheaper
OBJECTS_LOGGED = 5


class Differences(NamedTuple):
    """What a list and a cache disagree about; `leftover` are UIDs that the list does not have."""

    missing: list[ObjectMetadata]
    outdated: list[ObjectMetadata]
    leftover: list[str]

    @property
    def number(self) -> int:
        return len(self.missing) + len(self.outdated) + len(self.leftover)


def find_differences(
    listed: Iterable[ObjectMetadata], version: int, held: Mapping[str, int], deleted: Collection[str] = ()
) -> Differences:
    """A list at this version against versions by UID that were read later; `deleted` were held since, and are gone."""
    unseen, found = dict(held), Differences([], [], [])
    for each in listed:
        known = unseen.pop(each.uid, None)
        if known is None:
            if each.uid not in deleted:
                found.missing.append(each)
        elif known < each.version:
            found.outdated.append(each)
    found.leftover.extend(uid for uid, known in unseen.items() if known <= version)
    return found


class CacheComparison:
    """Compares one reflector's store now and then; `lock` is held while it does."""

    def __init__(self, transport: Transport, reflector: Reflector[Any], lock: asyncio.Lock, random: Random) -> None:
        self._transport, self._reflector, self._lock, self._random = transport, reflector, lock, random
        self._suspected = asyncio.Event()
        self._not_before, self._hold = float("-inf"), FIRST_HOLD
        self._silent_at = 0  # the version at which the watch was found silent, until it brings something

    def suspect(self, reason: str) -> None:
        """Compare soon."""
        if not self._suspected.is_set():
            log.debug("comparing the cache soon: kind=%s reason=%s", self._reflector.kind.name, reason)
        self._suspected.set()

    async def run(self) -> None:
        """Compare until cancelled."""
        while True:
            suspected = await self._wait()
            async with self._lock:
                found = await self._compare() if self._reflector.watching else None
            self._schedule(suspected, found)

    async def _wait(self) -> bool:
        """Until it is time; whether that is because of a suspicion."""
        try:
            async with asyncio.timeout(INTERVAL * self._random.uniform(*JITTER)):
                await self._suspected.wait()
                await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())
        except TimeoutError:
            return False
        finally:
            self._suspected.clear()
        return True

    def _schedule(self, suspected: bool, found: int | None) -> None:
        """`found` is None if nothing was compared; where another list is due, that one answers the suspicion."""
        if suspected and found is None and self._reflector.watching:
            self._not_before = asyncio.get_running_loop().time() + RETRY_SECONDS
            self._suspected.set()
        elif found or self._silent_at == self._reflector.store.version:
            self._hold = FIRST_HOLD
        elif suspected and found == 0:
            self._not_before = asyncio.get_running_loop().time() + self._hold
            self._hold = min(2 * self._hold, INTERVAL)

    async def _compare(self) -> int | None:
        """The number of differences repaired; None if the kind could not be listed."""
        reflector = self._reflector
        with reflector.store.noting_deletions() as deleted:
            try:
                listed = await list_pages(self._transport, reflector.kind.path, MetadataReader(), METADATA_LIST)
            except (ListError, Unreachable) as error:
                log.debug("cache not compared: kind=%s error=%s", reflector.kind.name, error)
                return None
            reflector.counts.comparisons += 1
            compared_at = reflector.store.version
            found = await self._find(listed, deleted)
            if found.number and await self._passed(listed.version, compared_at):
                found = await self._find(listed, deleted)
            return await self._repair(found, listed, deleted) if found.number else 0

    async def _find(self, listed: ListPage[ObjectMetadata], deleted: set[str]) -> Differences:
        """Objects without a readable UID count as present: none is deleted for that."""
        items = [each for each in listed.items if not isinstance(each, Malformed)]
        held = self._reflector.store.versions()
        found = await asyncio.to_thread(find_differences, items, listed.version, held, deleted)
        return found if len(items) == len(listed.items) else found._replace(leftover=[])

    async def _passed(self, version: int, compared_at: int) -> bool:
        """Whether the watch brought anything since the store was compared; it has SETTLE_SECONDS to pass the version."""
        reflector = self._reflector
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while reflector.store.version < version and reflector.watching:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
        return reflector.store.version > compared_at

    async def _repair(self, found: Differences, listed: ListPage[ObjectMetadata], deleted: Collection[str]) -> int:
        """The number of differences, counted and repaired, or left to a list."""
        reflector = self._reflector
        if not reflector.watching:
            return 0  # a list has begun meanwhile, and repairs everything
        silent = reflector.store.version < listed.version
        self._report(found, listed, silent)
        if len(found.missing) + len(found.outdated) > MAX_READS:
            reflector.relist()
            return found.number
        for uid in found.leftover:
            self._emit(reflector.store.delete(uid, listed.version, reflector.clock()))
        for each in (*found.missing, *found.outdated):
            await self._read(each, deleted)
        if silent:
            self._silent_at = reflector.store.version
            reflector.reopen()
        return found.number

    async def _read(self, wanted: ObjectMetadata, deleted: Collection[str]) -> None:
        """Read an object again and take it in; one that is gone, or unreadable, is left to the next comparison."""
        reflector = self._reflector
        request = find_request(reflector.kind.path, wanted.namespace, wanted.name)
        try:
            response = await self._transport.send(request, LIST_TIMEOUT, MAX_PAGE_BYTES)
        except Unreachable:
            return
        if not reflector.watching:
            return  # a list that has begun meanwhile may be older than the answer, and would delete what it does not have
        page = decode_list(response.body, reflector.kind.reader) if response.status == 200 else None
        for item in page.items if isinstance(page, ListPage) else ():
            if not isinstance(item, Malformed) and item.uid not in deleted:
                self._emit(reflector.store.upsert(item, reflector.clock()))

    def _emit(self, event: Event | None) -> None:
        if event is not None:
            self._reflector.sink(event)

    def _report(self, found: Differences, listed: ListPage[ObjectMetadata], silent: bool) -> None:
        counts = self._reflector.counts
        counts.missing += len(found.missing)
        counts.outdated += len(found.outdated)
        counts.leftover += len(found.leftover)
        counts.stalls += silent
        self._log(found, listed, silent)

    def _log(self, found: Differences, listed: ListPage[ObjectMetadata], silent: bool) -> None:
        kind, store = self._reflector.kind, self._reflector.store
        objects = store.objects()
        keys = [each.key for each in (*found.missing, *found.outdated)]
        keys += [kind.key(objects[uid]) for uid in found.leftover if uid in objects]
        log.warning(
            "the watch lost events, repairing the cache: kind=%s missing=%d outdated=%d leftover=%d silent=%s "
            "version=%d listed=%d objects=%s",
            *(kind.name, len(found.missing), len(found.outdated), len(found.leftover), silent),
            *(store.version, listed.version),
            ", ".join(keys[:OBJECTS_LOGGED]) + (" ..." if len(keys) > OBJECTS_LOGGED else ""),
        )
