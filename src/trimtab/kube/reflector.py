"""Lists and watches one kind of object, and keeps its Store true.

              ┌───────────────── 410 as a response or ERROR event, relist(), refresh() ◀──────────────────────┐
              ▼                                                                                               │
    start ─▶ LIST ──(complete; the first time: Synced)──▶ WATCH ──(lines)──▶ events, version rises ─▶ WATCH ──┤
              ▲ │                                          ▲ ▲                                                │
              │ └─(failed)─▶ back off 0.8→30 s ─▶ LIST     │ └──(idle for 45 s: quiet or half-open)───────────┤
              │                                            └────(end of stream; broken or refused: back off)──┘
              └─(404 of an optional kind, 403 of a dispensable one)─▶ as an empty list; 3 min later, or at refresh(): LIST

Every list is consistent, in pages of one version; an expired continue token (410) means another list. After an idle timeout,
or where the watch probe finds the watch behind, the next watches are short: before it ends a watch the server sends a
bookmark if it knows of anything newer, and the probe's consistent list makes it know. So an idle kind and a dead connection
can be told apart (`watch_probe.py`), and what the watch does not tell is found by comparing (`cache_comparison.py`).
refresh() ends a back-off, but not a Retry-After. A kind that only some pods need is reported when listing it is forbidden
(`KindForbidden`); the next complete list ends that with another Synced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Generic

from trimtab.core.model.events import Event, KindForbidden, Synced
from trimtab.kube.cache_comparison import CacheComparison
from trimtab.kube.kinds import IfForbidden, T, WatchedKind
from trimtab.kube.listing import GONE, ListError, list_pages, refusal
from trimtab.kube.store import Store
from trimtab.kube.transport import IdleTimeout, Stream, Transport, Unreachable
from trimtab.kube.watch_probe import WatchProbe
from trimtab.wire.requests import watch_request
from trimtab.wire.watch import ListPage, decode_watch_event

log = logging.getLogger(__name__)
IDLE_TIMEOUT = 45.0
WATCH_SECONDS = (300, 600)
IDLE_WATCH_SECONDS = 10
NOT_SERVED_RETRY = 180.0
MIN_WATCH_SECONDS = 1.0
INITIAL_DELAY = 0.8
MAX_DELAY = 30.0
RESET_AFTER = 120.0
BATCH = 8  # events handled before other tasks run: one event may cost milliseconds


@dataclass
class Counts:
    """Counts of list/watch incidents; the names are label values of a metric."""

    lists: int = 0
    watches: int = 0
    expired_answers: int = 0
    expired_lines: int = 0
    silences: int = 0
    setbacks: int = 0
    stalls: int = 0  # differences found, and the watch did not even reach the version of the list
    comparisons: int = 0
    missing: int = 0  # differences found by comparisons: events that the watch did not bring
    outdated: int = 0
    leftover: int = 0


class ListWatchError(Exception):
    """The server answered a list or watch with an error."""

    def __init__(self, message: str, relist: bool = False, retry_after: float = 0.0, forbidden: bool = False) -> None:
        super().__init__(message)
        self.relist, self.retry_after, self.forbidden = relist, retry_after, forbidden


class TreatedAsEmpty(Exception):
    """The kind has no object as far as we know: the server does not serve it, or listing a dispensable one is forbidden."""


class Backoff:
    """Exponential back-off with jitter; starts again after two minutes without a failure."""

    def __init__(self, random: Random, max_delay: float = MAX_DELAY) -> None:
        self._random, self._max_delay = random, max_delay
        self._delay = INITIAL_DELAY
        self._last = float("-inf")

    def next(self, now: float) -> float:
        """The delay after a failure at `now`."""
        if now - self._last > RESET_AFTER:
            self._delay = INITIAL_DELAY
        delay = self._delay * self._random.uniform(0.75, 1.0)
        self._delay = min(self._max_delay, 2 * self._delay)
        self._last = now + delay
        return delay


class Reflector(Generic[T]):
    """Keeps the Store of one kind, and sends every change to the sink as an event."""

    def __init__(
        self,
        transport: Transport,
        kind: WatchedKind[T],
        sink: Callable[[Event], None],
        clock: Callable[[], float],
        random: Random,
        comparison_lock: asyncio.Lock | None = None,  # held while a kind is compared, to compare one at a time
    ) -> None:
        self.counts = Counts()
        self.kind, self.sink, self.clock = kind, sink, clock
        self.store = Store(kind)
        self.last_heard = float("-inf")
        self.last_error = ""
        self.served = True
        self.forbidden = ""  # why the kind may not be listed, once that was reported
        self._transport, self._random = transport, random
        self._probe = WatchProbe(transport, self, random)
        self._comparison = CacheComparison(transport, self, comparison_lock or asyncio.Lock(), random)
        self._backoff = Backoff(random)
        # A request is done when a list that began after it is complete.
        self._lists_requested, self._lists_done, self._lists_refused = 1, 0, 0
        self._idle = False
        self._interrupted = False
        self._wake = asyncio.Event()
        self._stream: Stream | None = None
        self._listed = asyncio.Condition()

    async def run(self) -> None:
        """List and watch until cancelled, or until ResourceVersionRegressed (in an ExceptionGroup)."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._list_and_watch())
            group.create_task(self._probe.run())
            group.create_task(self._comparison.run())

    async def refresh(self) -> None:
        """List once more, and return when that is done or forbidden: a new leader must not act on a lagging watch."""
        async with self._listed:
            self.relist()
            requested = self._lists_requested
            await self._listed.wait_for(lambda: max(self._lists_done, self._lists_refused) >= requested)

    @property
    def _must_list(self) -> bool:
        return self._lists_done < self._lists_requested

    @property
    def watching(self) -> bool:
        """Whether the store is meant to follow the cluster: the kind is served and listed, and no other list is due."""
        return self.served and not self.forbidden and not self._must_list

    def suspect(self, reason: str) -> None:
        """Compare the store with the cluster soon, because the watch may have lost events."""
        self._comparison.suspect(reason)

    def relist(self) -> None:
        """List as soon as possible, whatever is under way."""
        self._lists_requested += 1
        self._wake.set()
        self.reopen()

    def watch_briefly(self) -> None:
        """Open the watch again, for a short time: its end brings a bookmark."""
        if not self._idle:
            self._idle = True
            self.reopen()

    def reopen(self) -> None:
        """End the watch, so that the next one begins where it is."""
        if self._stream is not None:
            self._interrupted = True
            self._stream.close()

    async def _list_and_watch(self) -> None:
        while True:
            try:
                await (self._list() if self._must_list else self._watch())
            except IdleTimeout as error:
                self._on_idle(error)
            except (Unreachable, ListWatchError) as error:
                await self._back_off(error)

    async def _list(self) -> None:
        requested, self._interrupted = self._lists_requested, False
        self._wake.clear()
        was_served, self.served, reason = self.served, True, ""
        try:
            listed = await self._pages()
        except TreatedAsEmpty as error:
            listed, self.served, reason = ListPage(self.store.version, "", ()), False, str(error)
        except ListWatchError as error:
            if error.forbidden and self.kind.if_forbidden is IfForbidden.REPORT:
                await self._report_forbidden(str(error), requested)
            raise
        for count, event in enumerate(self.store.replace(listed, self.clock())):
            self.sink(event)
            if count % BATCH == BATCH - 1:
                await asyncio.sleep(0)
        await self._list_done(requested)
        if self.served != was_served or self.counts.lists == 1:
            self._log_served(reason)
        if not self.served:
            await self._wait_until_served()

    async def _report_forbidden(self, error: str, requested: int) -> None:
        self._lists_refused = requested
        if error != self.forbidden:
            self.forbidden = error
            self.sink(KindForbidden(self.kind.name, error, self.clock()))
        async with self._listed:
            self._listed.notify_all()

    async def _wait_until_served(self) -> None:
        """A CustomResourceDefinition may be installed at any time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(NOT_SERVED_RETRY):
                await self._wake.wait()
        self._lists_requested += not self._must_list

    def _log_served(self, reason: str) -> None:
        """Of a kind with two API groups, the legacy one is logged only where it is in use."""
        kind = self.kind
        named = kind.name, NOT_SERVED_RETRY
        if reason:
            log.warning("forbidden, treated as empty: kind=%s retry_seconds=%d error=%s", *named, reason)
        elif self.served and kind.deprecation:
            log.warning("deprecated: kind=%s note=%s", kind.name, kind.deprecation)
        elif not self.served and not kind.deprecation:
            log.info("not served, treated as empty: kind=%s retry_seconds=%d path=%s", *named, kind.path)

    async def _pages(self) -> ListPage[T]:
        try:
            return await list_pages(self._transport, self.kind.path, self.kind.reader)
        except ListError as error:
            if error.not_served and self.kind.optional:
                raise TreatedAsEmpty from None
            described = self._error("list", error)
            may_do_without = error.forbidden and self.kind.if_forbidden is IfForbidden.EMPTY
            raise TreatedAsEmpty(str(described)) if may_do_without else described from None

    async def _list_done(self, requested: int) -> None:
        self._lists_done = requested
        self.counts.lists += 1
        self.last_heard, self.last_error = self.clock(), ""
        was_forbidden, self.forbidden = self.forbidden, ""
        if self.counts.lists == 1 or was_forbidden:
            self.sink(Synced(self.kind.name, self.last_heard))
        if self.served:
            log.info("listed: kind=%s objects=%d version=%d", self.kind.name, len(self.store), self.store.version)
        async with self._listed:
            self._listed.notify_all()

    async def _watch(self) -> None:
        self._interrupted = False
        seconds = IDLE_WATCH_SECONDS if self._idle else self._random.randint(*WATCH_SECONDS)
        request = watch_request(self.kind.path, self.store.version, seconds)
        loop = asyncio.get_running_loop()
        started, lines = loop.time(), 0
        self.counts.watches += 1
        async with self._transport.stream(request, IDLE_TIMEOUT) as stream:
            if stream.status != 200:
                self.counts.expired_answers += stream.status == GONE
                raise self._error("watch", refusal(stream.status, stream.headers, await stream.body()))
            self.last_heard, self.last_error = self.clock(), ""
            if self._must_list:
                return
            self._stream = stream
            try:
                async for batch in stream.lines():
                    lines += len(batch)
                    await self._consume(batch)
            finally:
                self._stream = None
        self.last_heard = self.clock()
        if not lines and loop.time() - started < MIN_WATCH_SECONDS:
            raise ListWatchError("watch: the server ended it at once")

    async def _consume(self, batch: list[bytes]) -> None:
        """A batch may hold thousands of lines, so other tasks run in between."""
        for first in range(0, len(batch), BATCH):
            self._apply(batch[first : first + BATCH])
            await asyncio.sleep(0)

    def _apply(self, batch: list[bytes]) -> None:
        self.last_heard = self.clock()
        for raw in batch:
            change = decode_watch_event(raw, self.kind.reader)
            if change.type == "ERROR":
                self.counts.expired_lines += change.code == GONE
                raise ListWatchError(f"watch: {change.code} {change.message}", relist=True)
            self._idle = self._idle and change.type == "BOOKMARK"
            event = self.store.apply(change, self.last_heard)
            if event is not None:
                self.sink(event)

    def _on_idle(self, error: IdleTimeout) -> None:
        self.counts.silences += 1
        self._idle = True
        log.debug("watch idle, watching again: kind=%s error=%s", self.kind.name, error)

    async def _back_off(self, error: Unreachable | ListWatchError) -> None:
        if self._interrupted:
            self._interrupted = False
            return
        self.counts.setbacks += 1
        delay, retry_after = self._backoff.next(asyncio.get_running_loop().time()), 0.0
        if isinstance(error, ListWatchError):
            self._lists_requested += error.relist
            retry_after = error.retry_after
        self.last_error = str(error)
        log.warning(
            "list/watch failed, retrying: kind=%s seconds=%.1f error=%s",
            self.kind.name,
            max(delay, retry_after),
            error,
        )
        await asyncio.sleep(retry_after)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(delay - retry_after, 0.0)):
                await self._wake.wait()

    def _error(self, what: str, error: ListError) -> ListWatchError:
        remedy = f"; {self.kind.remedy(str(error))}" if error.forbidden and self.kind.role else ""
        revoked = error.forbidden and self.kind.if_forbidden is not IfForbidden.WAIT
        relist = error.status == GONE or revoked or (error.not_served and self.kind.optional)
        return ListWatchError(f"{what}: {error}{remedy}", relist, error.retry_after, error.forbidden)
