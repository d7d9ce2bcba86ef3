"""Decides when to list and when to watch one kind of object; leaves which facts follow to the mirror.

              ┌───────────────────────── 410 in either shape, ERROR line, stalled, refresh() ◀────────────────┐
              ▼                                                                                               │
    start ─▶ LIST ──(complete; the first time: Synced)──▶ WATCH ──(lines)──▶ facts, version rises ─▶ WATCH ───┤
              ▲ │                                          ▲ ▲                                                │
              │ └─(failed)─▶ back off 0.8→30 s ─▶ LIST     │ └──(silent for 45 s: quiet or half-open)─────────┤
              │                                            └────(end of stream; broken or refused: back off)──┘
              └─(404 of a kind that need not be installed)─▶ as an empty list; 3 min later, or at refresh(): LIST
    every 2 min a consistent list of one object says how far the cluster is:
              ├─ the watch was behind that two minutes later ─▶ stalled, LIST
              └─ the cluster is behind us ─▶ Rewound: run() ends

Every list is a consistent one, in pages of one version; a page that is no longer to be had (410) means another list.
After silence the next watches are short ones, which the server ends within the silence that we allow: so even where
nothing ever happens, health and death can be told apart. Just before it ends one it sends a bookmark, if it knows of
anything newer; the consistent list every two minutes makes it know. A refresh() ends a back-off, but not a wait that
the server has asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Generic

from trimtab.core.model.event import Event, Synced
from trimtab.kube.backoff import Backoff
from trimtab.kube.kinds import Kind, T
from trimtab.kube.mirror import Mirror, Rewound
from trimtab.kube.transport import Silent, Stream, Transport, Unreachable
from trimtab.wire.fault import Malformed
from trimtab.wire.outcome import Throttled, throttle
from trimtab.wire.request import list_request, watch_request
from trimtab.wire.status import read_status
from trimtab.wire.watch import Listed, read_line, read_list

log = logging.getLogger(__name__)
SILENCE = 45.0
WATCH_SECONDS = (300, 600)
QUIET_WATCH_SECONDS = 30
LIST_PATIENCE = 75.0  # the server itself gives up after 60 s
PAGE = 1_000
LARGEST_PAGE = 2 << 30
PROBE_EVERY = 120.0
LOOK_AGAIN = 180.0
PROBE_PATIENCE = 20.0
AT_ONCE = 1.0
A_BREATH = 8  # facts taken in at a time: what one of them stirs may cost milliseconds
FORBIDDEN, NOT_FOUND, GONE = 403, 404, 410


@dataclass
class Counts:
    """What happened so far; a fault that is not counted here did not happen."""

    lists: int = 0
    watches: int = 0
    expired_answers: int = 0
    expired_lines: int = 0
    silences: int = 0
    setbacks: int = 0
    stalls: int = 0


class Setback(Exception):
    """The server answered, but not with what was asked for."""

    def __init__(self, message: str, relist: bool = False, wait: float = 0.0) -> None:
        super().__init__(message)
        self.relist, self.wait = relist, wait


class NotServed(Exception):
    """The server knows no such kind, and need not: none of it exists."""


class Reflector(Generic[T]):
    """Keeps a mirror of one kind and hands every change to the sink as a fact."""

    def __init__(
        self,
        transport: Transport,
        kind: Kind[T],
        sink: Callable[[Event], None],
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self.counts = Counts()
        self.mirror = Mirror(kind)
        self.heard = float("-inf")
        self.problem = ""
        self.served = True
        self._transport, self._kind, self._sink, self._clock, self._random = transport, kind, sink, clock, random
        self._backoff = Backoff(random)
        self._wanted, self._met = 1, 0  # lists asked for, and how many of these wishes a list begun later has met
        self._quiet = False
        self._interrupted = False
        self._hurry = asyncio.Event()
        self._stream: Stream | None = None
        self._listed = asyncio.Condition()

    async def run(self) -> None:
        """Follow for ever; ends only by being cancelled, or with Rewound (in an ExceptionGroup)."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._watch_over())

    async def refresh(self) -> None:
        """List once more and return when that is done: whoever starts to lead must not act on a lagging watch."""
        async with self._listed:
            self._list_again()
            wanted = self._wanted
            await self._listed.wait_for(lambda: self._met >= wanted)

    @property
    def _must_list(self) -> bool:
        return self._met < self._wanted

    def _list_again(self) -> None:
        self._wanted += 1
        self._hurry.set()
        if self._stream is not None:
            self._interrupted = True
            self._stream.close()

    async def _follow(self) -> None:
        while True:
            try:
                await (self._list() if self._must_list else self._watch())
            except Silent as error:
                self._note_silence(error)
            except (Unreachable, Setback) as error:
                await self._recover(error)

    async def _list(self) -> None:
        wanted, self._interrupted = self._wanted, False
        self._hurry.clear()
        before, self.served = self.served, True
        try:
            listed = await self._pages()
        except NotServed:
            listed, self.served = Listed(self.mirror.version, "", ()), False
        for count, event in enumerate(self.mirror.replace(listed, self._clock())):
            self._sink(event)
            if count % A_BREATH == A_BREATH - 1:
                await asyncio.sleep(0)
        await self._note_list(wanted)
        if self.served != before or self.counts.lists == 1:
            self._tell_service()
        if not self.served:
            await self._look_again()

    async def _look_again(self) -> None:
        """A definition may be installed at any time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), LOOK_AGAIN)
        self._wanted += not self._must_list

    def _tell_service(self) -> None:
        """Where a kind may have two homes, the older one is worth a word only where it is in use."""
        kind = self._kind
        if self.served and kind.note:
            log.warning("deprecated: kind=%s note=%s", kind.name, kind.note)
        elif not self.served and not kind.note:
            log.info("not served: kind=%s path=%s; none exist, asked again in %d s", kind.name, kind.path, LOOK_AGAIN)

    async def _pages(self) -> Listed[T]:
        """The whole list, page by page: to decode it in one go would keep the lease and the binds waiting."""
        first = page = await self._page("")
        items = [*first.items]
        while page.continue_token:
            page = await self._page(page.continue_token)
            if page.version != first.version:
                raise Setback(f"list: begun at version {first.version}, but continued at {page.version}")
            items += page.items
        return Listed(first.version, "", tuple(items))

    async def _page(self, continue_token: str) -> Listed[T]:
        request = list_request(self._kind.path, limit=PAGE, continue_token=continue_token)
        response = await self._transport.send(request, LIST_PATIENCE, LARGEST_PAGE)
        if response.status == NOT_FOUND and self._kind.optional:
            raise NotServed
        if response.status != 200:
            raise self._refusal("list", response.status, response.headers, response.body)
        page = read_list(response.body, self._kind.reader)
        if isinstance(page, Malformed):
            raise Setback(f"list: {page.problem}")
        return page

    async def _note_list(self, wanted: int) -> None:
        self._met = wanted
        self.counts.lists += 1
        self.heard, self.problem = self._clock(), ""
        if self.counts.lists == 1:
            self._sink(Synced(self._kind.name, self.heard))
        if self.served:
            log.info("listed: kind=%s objects=%d version=%d", self._kind.name, len(self.mirror), self.mirror.version)
        async with self._listed:
            self._listed.notify_all()

    async def _watch(self) -> None:
        seconds = QUIET_WATCH_SECONDS if self._quiet else self._random.randint(*WATCH_SECONDS)
        request = watch_request(self._kind.path, self.mirror.version, seconds)
        loop = asyncio.get_running_loop()
        begun, lines = loop.time(), 0
        self.counts.watches += 1
        async with self._transport.stream(request, SILENCE) as stream:
            if stream.status != 200:
                self.counts.expired_answers += stream.status == GONE
                raise self._refusal("watch", stream.status, stream.headers, await stream.body())
            self.heard = self._clock()
            if self._must_list:
                return
            self._stream = stream
            try:
                async for batch in stream.lines():
                    lines += len(batch)
                    await self._take_in(batch)
            finally:
                self._stream = None
        self.heard = self._clock()
        if not lines and loop.time() - begun < AT_ONCE:
            raise Setback("watch ended as soon as it had begun")

    async def _take_in(self, batch: list[bytes]) -> None:
        """A batch may hold thousands of lines."""
        for first in range(0, len(batch), A_BREATH):
            self._take(batch[first : first + A_BREATH])
            await asyncio.sleep(0)

    def _take(self, batch: list[bytes]) -> None:
        self.heard = self._clock()
        for raw in batch:
            line = read_line(raw, self._kind.reader)
            if line.kind == "ERROR":
                self.counts.expired_lines += line.code == GONE
                raise Setback(f"watch: {line.code} {line.message}", relist=True)
            self._quiet = self._quiet and line.kind == "BOOKMARK"
            event = self.mirror.change(line, self.heard)
            if event is not None:
                self._sink(event)

    def _note_silence(self, error: Silent) -> None:
        self.counts.silences += 1
        self._quiet = True
        log.debug("silent, watching again: kind=%s problem=%s", self._kind.name, error)

    async def _recover(self, error: Unreachable | Setback) -> None:
        if self._interrupted:
            self._interrupted = False
            return
        self.counts.setbacks += 1
        wait, told = self._backoff.next(asyncio.get_running_loop().time()), 0.0
        if isinstance(error, Setback):
            self._wanted += error.relist
            told = error.wait
        self.problem = str(error)
        log.warning("waiting: kind=%s seconds=%.1f problem=%s", self._kind.name, max(wait, told), error)
        await asyncio.sleep(told)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), max(wait - told, 0.0))

    async def _watch_over(self) -> None:
        mark = 0
        while True:
            await asyncio.sleep(PROBE_EVERY)
            mark = 0 if self._must_list else await self._probe(mark)

    async def _probe(self, mark: int) -> int:
        """Compare the watch with the cluster's own version; the new mark that it must have passed by the next time."""
        before = self.mirror.version
        now = await self._cluster_version()
        if now == 0:
            return 0
        if now < before:
            raise Rewound(f"{self._kind.name}: the cluster is at version {now}, but {before} was seen before")
        if self.mirror.version < mark and not self._must_list:
            self.counts.stalls += 1
            log.warning("stalled, listing again: kind=%s at=%d behind=%d", self._kind.name, self.mirror.version, mark)
            self._list_again()
        return now

    async def _cluster_version(self) -> int:
        """The version of a consistent list of one object; 0 when there is none to be had."""
        try:
            response = await self._transport.send(list_request(self._kind.path, limit=1), PROBE_PATIENCE)
        except Unreachable:
            return 0
        listed = read_list(response.body, self._kind.reader) if response.status == 200 else None
        return listed.version if isinstance(listed, Listed) else 0

    def _refusal(self, what: str, status: int, headers: Mapping[str, str], body: bytes) -> Setback:
        throttled = throttle(status, headers, body)
        wait = float(throttled.seconds) if isinstance(throttled, Throttled) else 0.0
        remedy = f"; {self._kind.remedy}" if status == FORBIDDEN and self._kind.remedy else ""
        relist = status == GONE or (status == NOT_FOUND and self._kind.optional)
        return Setback(f"{what}: {status} {read_status(body).message}{remedy}", relist, wait)
