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

from trimtab.core.model.instructions import EmitEvent
from trimtab.kube.low_priority_gate import LowPriorityGate
from trimtab.kube.timestamps import rfc3339_micro
from trimtab.kube.transport import Unreachable
from trimtab.kube.writer import Writer
from trimtab.wire.requests import Request, event_name, event_request, series_request
from trimtab.wire.status import read_status

log = logging.getLogger(__name__)
QUEUE_SIZE = 10_000
MAX_SERIES = 10_000
WORKERS = 4
SERIES_TIMEOUT = 360.0
SERIES_PATCH_INTERVAL = 300.0
TIMEOUT = 10.0
ACCEPTED = (200, 201, 409)  # 409: an answer was lost, the Event was not
NOT_FOUND = 404

Key = tuple[str, str, str]


@dataclass
class EventSeries:
    """One thing told, once or again and again."""

    event: EmitEvent
    first: float
    name: str
    count: int = 1
    last: float = 0.0
    patched: float = float("-inf")
    queued: bool = False
    written: bool = False


class EventRecorder:
    """Writes Events behind a bounded queue; telling never waits and never fails."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], float],
        low_priority: LowPriorityGate,
        instance: str,
        capacity: int = QUEUE_SIZE,
    ) -> None:
        self.written = self.dropped = self.failed = 0
        self._writer, self._clock, self._low_priority, self._instance = writer, clock, low_priority, instance
        self._queue: asyncio.Queue[EventSeries] = asyncio.Queue(capacity)
        self._series: dict[Key, EventSeries] = {}
        self._last_suffix = 0

    def record(self, event: EmitEvent) -> None:
        """Write it soon, count it with what was told before, or drop it."""
        now = asyncio.get_running_loop().time()
        key = (event.uid, event.reason, event.note)
        series = self._series.get(key)
        if series is None or now - series.last > SERIES_TIMEOUT:
            series = self._new_series(key, event)
        else:
            series.count += 1
        series.last = now
        if not series.queued and (not series.written or now - series.patched >= SERIES_PATCH_INTERVAL):
            self._enqueue(key, series)

    async def run(self) -> None:
        """Write for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._worker())

    async def wait_drained(self) -> None:
        """Returns when nothing is left to write."""
        await self._queue.join()

    def _new_series(self, key: Key, event: EmitEvent) -> EventSeries:
        at = self._clock()
        self._last_suffix = max(self._last_suffix + 1, int(at * 1e9))
        self._series.pop(key, None)
        if len(self._series) >= MAX_SERIES:
            del self._series[next(iter(self._series))]
        series = self._series[key] = EventSeries(event, at, event_name(event, self._last_suffix))
        return series

    def _enqueue(self, key: Key, series: EventSeries) -> None:
        try:
            self._queue.put_nowait(series)
        except asyncio.QueueFull:
            self.dropped += 1
            if not series.written:
                del self._series[key]
        else:
            series.queued = True

    async def _worker(self) -> None:
        while True:
            series = await self._queue.get()
            try:
                await self._low_priority.wait()
                await self._write_series(series)
            finally:
                series.queued = False
                self._queue.task_done()

    async def _write_series(self, series: EventSeries) -> None:
        if not series.written:
            series.written = await self._send(self._create_request(series)) in ACCEPTED
        if series.written and series.count > 1:
            status = await self._send(self._patch_request(series))
            if status in ACCEPTED:  # else the next repeat tries again, rather than one five minutes later
                series.patched = asyncio.get_running_loop().time()
            # The server keeps Events for an hour only: one that is gone begins anew with the next repeat.
            series.written = status != NOT_FOUND

    def _create_request(self, series: EventSeries) -> Request:
        return event_request(series.event, rfc3339_micro(series.first), series.name, self._instance)

    def _patch_request(self, series: EventSeries) -> Request:
        now = rfc3339_micro(self._clock())
        return series_request(series.event.namespace, series.name, series.count, now)

    async def _send(self, request: Request) -> int:
        """The status of the answer, 0 for none; whatever is not accepted is counted."""
        status, said = 0, ""
        try:
            response = await self._writer.send(request, TIMEOUT)
            status = response.status
        except Unreachable as error:
            said = str(error)
        if status in ACCEPTED:
            self.written += 1
        else:
            self.failed += 1
            said = said or read_status(response.body).message
            log.debug("event not written: path=%s status=%d problem=%s", request.path, status, said)
        return status
