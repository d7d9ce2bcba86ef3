"""Writes Kubernetes Events, and counts repeats in the series of the first one.

    record ──▶ queued ──▶ written ──(the same again within 6 min)──▶ counted ──(the 2nd, then every 5 min)──▶ series patched
       └─(queue full)─▶ dropped and counted
    written or counted ──(6 min without a repeat)──▶ forgotten: the next one is a new Event

Repeats after the last patch of a series are not written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.core.model.instructions import EmitEvent
from trimtab.kube.transport import Unreachable
from trimtab.kube.writer import LowPriorityGate, Writer
from trimtab.wire.decoding import read_status
from trimtab.wire.requests import Request, event_name, event_request, rfc3339_micro, series_request

log = logging.getLogger(__name__)
QUEUE_SIZE = 10_000
MAX_SERIES = 10_000
WORKERS = 4
SERIES_TIMEOUT = 360.0
SERIES_PATCH_INTERVAL = 300.0
TIMEOUT = 10.0
ACCEPTED = (200, 201, 409)  # 409: the response was lost, but the Event was written
NOT_FOUND = 404

Key = tuple[str, str, str]


@dataclass
class EventSeries:
    """One Event and its repeats."""

    event: EmitEvent
    first: float
    name: str
    count: int = 1
    last: float = 0.0
    patched: float = float("-inf")
    queued: bool = False
    written: bool = False


class EventRecorder:
    """Writes Events from a bounded queue; `record` never waits and never fails."""

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
        """Queue the Event, count it in its series, or drop it."""
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
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._worker())

    async def wait_drained(self) -> None:
        """Wait until nothing is left to write."""
        await self._queue.join()

    def _new_series(self, key: Key, event: EmitEvent) -> EventSeries:
        now = self._clock()
        self._last_suffix = max(self._last_suffix + 1, int(now * 1e9))
        self._series.pop(key, None)
        if len(self._series) >= MAX_SERIES:
            del self._series[next(iter(self._series))]
        series = self._series[key] = EventSeries(event, now, event_name(event, self._last_suffix))
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
            if status in ACCEPTED:  # else the next repeat tries again, instead of one five minutes later
                series.patched = asyncio.get_running_loop().time()
            # The server deletes Events after an hour: the next repeat then writes a new one.
            series.written = status != NOT_FOUND

    def _create_request(self, series: EventSeries) -> Request:
        return event_request(series.event, rfc3339_micro(series.first), series.name, self._instance)

    def _patch_request(self, series: EventSeries) -> Request:
        now = rfc3339_micro(self._clock())
        return series_request(series.event.namespace, series.name, series.count, now)

    async def _send(self, request: Request) -> int:
        """The status of the response, 0 for none; failures are counted."""
        status, body, error_message = 0, b"", ""
        try:
            response = await self._writer.send(request, TIMEOUT)
            status, body = response.status, response.body
        except Unreachable as error:
            error_message = str(error)
        if status in ACCEPTED:
            self.written += 1
        else:
            self.failed += 1
            error_message = error_message or read_status(body).message
            log.debug("failed to write event: path=%s status=%d error=%s", request.path, status, error_message)
        return status
