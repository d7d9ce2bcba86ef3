"""Polls one source at its interval and emits its samples, failures and history as events.

    due ──(readings)──▶ SamplesRead, and SourceFailed for queries that began to fail ──▶ waiting
     └──(failed)──▶ retried once, if time is left ──(failed)──▶ SourceFailed for every query ──▶ waiting
    waiting ──(one interval after it was due)──▶ due

The last samples of a query that is not answered age as usual; those of one that is answered with nonsense are discarded, also
if that begins while it was failing already. After the first readings the source's history is read (HistoryRead), concurrently
with the polls. No failure of a source ends the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random

from trimtab.core.model.duration import DAY, HOUR, MINUTE
from trimtab.core.model.events import HistoryRead, SamplesRead, SourceFailed
from trimtab.core.model.readings import Subject
from trimtab.sources.interface import Failure, HistoryRange, Scrape, Source, SourceError

log = logging.getLogger(__name__)

HISTORY_RANGES = (
    HistoryRange(Subject.NODES, DAY, 30 * MINUTE, 5 * MINUTE),
    HistoryRange(Subject.NODES, 30 * MINUTE, 0.0, 30.0),
    HistoryRange(Subject.PODS, HOUR, 0.0, MINUTE),
)
JITTER = 0.05  # of the interval, so that many schedulers do not poll in lockstep
MIN_PAUSE = 0.1  # of the interval, however long a poll took
MAX_INITIAL_DELAY = 1.0
RETRY_AFTER = 1.0

SourceEvent = SamplesRead | SourceFailed | HistoryRead


class Poller:
    """Polls one source; `emit` receives the events."""

    def __init__(
        self,
        source: Source,
        emit: Callable[[SourceEvent], None],
        now: Callable[[], float] = time.time,
        random: Random | None = None,
        ranges: Sequence[HistoryRange] = HISTORY_RANGES,
    ) -> None:
        self._source, self._emit, self._now, self._ranges = source, emit, now, ranges
        self._random = random or Random()  # noqa: S311 (for jitter)
        self._reported: dict[
            str, bool
        ] = {}  # failing queries that were emitted, and whether their answers were invalid
        self.failing: frozenset[str] = frozenset()  # queries that failed at the last poll; optional ones do not count
        self._history: asyncio.Task[None] | None = None

    @property
    def query_names(self) -> tuple[str, ...]:
        return self._source.query_names

    @property
    def has_read_history(self) -> bool:
        """Whether nothing of the past is still to come; also if it could not be read."""
        return self._history is not None and self._history.done()

    async def run(self) -> None:
        """Poll until cancelled, then close the source."""
        clock = asyncio.get_running_loop().time
        interval = self._source.interval
        try:
            await asyncio.sleep(self._random.uniform(0, min(MAX_INITIAL_DELAY, interval)))
            while True:
                started = clock()
                await self._poll_safely()
                due = interval * self._random.uniform(1 - JITTER, 1 + JITTER)
                await asyncio.sleep(max(due - (clock() - started), MIN_PAUSE * interval))
        finally:
            if self._history is not None:
                self._history.cancel()
            await self.close()

    async def close(self) -> None:
        """Close the source, which will not be polled again."""
        await self._source.close()

    async def _poll_safely(self) -> None:
        """Go on with the next poll even if the receiver of an event raises."""
        try:
            await self.poll()
        except Exception:
            log.exception("processing samples failed: source=%s", self._source.name)

    async def poll(self) -> None:
        """Poll once; a failure becomes an event."""
        try:
            self._emit_scrape(await self._read())
        except SourceError as error:
            self._emit_failures(Failure(query, error) for query in self._source.query_names)
        except Exception as error:
            log.exception("internal error: source=%s", self._source.name)
            wrapped = SourceError(f"internal error ({type(error).__name__})", "report it with the log")
            self._emit_failures(Failure(query, wrapped) for query in self._source.query_names)

    async def _read(self) -> Scrape:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            return await self._source.read()
        except SourceError as error:
            if not error.transient or clock() - started > self._source.interval / 2:
                raise
        await asyncio.sleep(min(RETRY_AFTER, self._source.interval / 10))
        return await self._source.read()

    def _emit_scrape(self, scrape: Scrape) -> None:
        answered = {reading.source for reading in scrape.readings}
        if recovered := sorted(self._reported.keys() & answered):
            log.info("source recovered: queries=%s", ",".join(recovered))
        for query in recovered:
            del self._reported[query]
        if scrape.readings:
            self._emit(SamplesRead(scrape.readings, self._now()))
        self._emit_failures(scrape.failures)
        if scrape.readings and self._history is None and self._ranges:
            self._history = asyncio.create_task(self._read_history())

    def _emit_failures(self, failures: Iterable[Failure]) -> None:
        failed = tuple(failures)
        self.failing = frozenset(query for query, _ in failed)
        for query, error in failed:
            if query not in self._reported or (error.invalid and not self._reported[query]):
                self._reported[query] = error.invalid
                samples = "discarded" if error.invalid else "age"
                log.warning("source failed: query=%s samples=%s error=%s", query, samples, error)
                self._emit(SourceFailed(query, str(error), self._now(), discard_samples=error.invalid))

    async def _read_history(self) -> None:
        """Missing history is no failure: polling makes up for it in time."""
        try:
            async for readings in self._source.read_history(self._ranges):
                self._emit(HistoryRead(readings, self._now()))
        except SourceError as error:
            log.warning("reading history failed: source=%s error=%s", self._source.name, error)
        except Exception:
            log.exception("internal error while reading history: source=%s", self._source.name)
