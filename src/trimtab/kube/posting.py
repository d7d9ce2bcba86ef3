"""Decides which Events are written, when, and when a repeat is only counted; leaves their words to the engine.

    told ──▶ queued ──▶ written ──(the same again within 6 min)──▶ counted ──(the 2nd, then each 5 min)──▶ series patched
       └─(queue full)─▶ dropped and counted: people lose a line, pods lose nothing
    written or counted ──(6 min without a repeat)──▶ forgotten: the next one is a new Event

What was counted after the last patch of a series is not written when the repeats stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.core.model.instruction import Tell
from trimtab.kube.lull import Lull
from trimtab.kube.stamps import to_the_microsecond
from trimtab.kube.transport import Unreachable
from trimtab.kube.writing import Writer
from trimtab.wire.request import Request, event_name, event_request, series_request
from trimtab.wire.status import read_status

log = logging.getLogger(__name__)
QUEUE = 10_000
REMEMBERED = 10_000
WRITERS = 4
SERIES_ENDS = 360.0
SERIES_EVERY = 300.0
PATIENCE = 10.0
CREATED = (200, 201, 409)  # 409: an answer was lost, the Event was not
NOT_FOUND = 404

Key = tuple[str, str, str]


@dataclass
class Series:
    """One thing told, once or again and again."""

    tell: Tell
    first: float
    name: str
    count: int = 1
    last: float = 0.0
    patched: float = float("-inf")
    queued: bool = False
    written: bool = False


class Posting:
    """Writes Events behind a bounded queue; telling never waits and never fails."""

    def __init__(
        self, writer: Writer, clock: Callable[[], float], lull: Lull, instance: str, capacity: int = QUEUE
    ) -> None:
        self.written = self.dropped = self.failed = 0
        self._writer, self._clock, self._lull, self._instance = writer, clock, lull, instance
        self._queue: asyncio.Queue[Series] = asyncio.Queue(capacity)
        self._known: dict[Key, Series] = {}
        self._stamp = 0

    def tell(self, tell: Tell) -> None:
        """Write it soon, count it with what was told before, or drop it."""
        now = asyncio.get_running_loop().time()
        key = (tell.uid, tell.reason, tell.note)
        series = self._known.get(key)
        if series is None or now - series.last > SERIES_ENDS:
            series = self._begin(key, tell)
        else:
            series.count += 1
        series.last = now
        if not series.queued and (not series.written or now - series.patched >= SERIES_EVERY):
            self._enqueue(key, series)

    async def run(self) -> None:
        """Write for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write())

    async def drained(self) -> None:
        """Returns when nothing is left to write."""
        await self._queue.join()

    def _begin(self, key: Key, tell: Tell) -> Series:
        at = self._clock()
        self._stamp = max(self._stamp + 1, int(at * 1e9))
        self._known.pop(key, None)
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        series = self._known[key] = Series(tell, at, event_name(tell, self._stamp))
        return series

    def _enqueue(self, key: Key, series: Series) -> None:
        try:
            self._queue.put_nowait(series)
        except asyncio.QueueFull:
            self.dropped += 1
            if not series.written:
                del self._known[key]
        else:
            series.queued = True

    async def _write(self) -> None:
        while True:
            series = await self._queue.get()
            try:
                await self._lull.wait()
                await self._post(series)
            finally:
                series.queued = False
                self._queue.task_done()

    async def _post(self, series: Series) -> None:
        if not series.written:
            series.written = await self._deliver(self._new(series)) in CREATED
        if series.written and series.count > 1:
            status = await self._deliver(self._repeated(series))
            if status in CREATED:  # else the next repeat tries again, rather than one five minutes later
                series.patched = asyncio.get_running_loop().time()
            # The server keeps Events for an hour only: one that is gone begins anew with the next repeat.
            series.written = status != NOT_FOUND

    def _new(self, series: Series) -> Request:
        return event_request(series.tell, to_the_microsecond(series.first), series.name, self._instance)

    def _repeated(self, series: Series) -> Request:
        now = to_the_microsecond(self._clock())
        return series_request(series.tell.namespace, series.name, series.count, now)

    async def _deliver(self, request: Request) -> int:
        """The status of the answer, 0 for none; whatever is not accepted is counted."""
        status, said = 0, ""
        try:
            response = await self._writer.send(request, PATIENCE)
            status = response.status
        except Unreachable as error:
            said = str(error)
        if status in CREATED:
            self.written += 1
        else:
            self.failed += 1
            said = said or read_status(response.body).message
            log.debug("event not written: path=%s status=%d problem=%s", request.path, status, said)
        return status
