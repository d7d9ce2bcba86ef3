"""Decides when each source is looked at and what the core is told of it; leaves asking to the source and judging to the core.

    due ──(answered)──▶ SamplesRead, and SourceFailed for parts that have failed since they last answered ──▶ waiting
     └──(not at all)──▶ once more, if time is left ──(not at all)──▶ SourceFailed for every part ──▶ waiting
    waiting ──(the interval since it was due)──▶ due

After the first answer the source is asked what it remembers (HistoryRead), beside the looks and without haste. Nothing that
a source does ends the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random

from trimtab.core.model.events import HistoryRead, SamplesRead, SourceFailed
from trimtab.core.model.readings import Subject
from trimtab.sources.interface import Failure, HistoryRange, Scrape, Source, SourceError

log = logging.getLogger(__name__)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
HISTORY_RANGES = (
    HistoryRange(Subject.NODES, DAY, 30 * MINUTE, 5 * MINUTE),
    HistoryRange(Subject.NODES, 30 * MINUTE, 0.0, 30.0),
    HistoryRange(Subject.PODS, 7 * DAY, HOUR, HOUR),
    HistoryRange(Subject.PODS, HOUR, 0.0, MINUTE),
)
JITTER = 0.05  # of the interval, so that many schedulers do not knock together for ever
MIN_PAUSE = 0.1  # of the interval, at least, however long a look took
MAX_INITIAL_DELAY = 1.0
RETRY_AFTER = 1.0

SourceEvent = SamplesRead | SourceFailed | HistoryRead


class Poller:
    """The looks at one source. `hand` takes what is for the core."""

    def __init__(
        self,
        source: Source,
        emit: Callable[[SourceEvent], None],
        now: Callable[[], float] = time.time,
        random: Random | None = None,
        ranges: Sequence[HistoryRange] = HISTORY_RANGES,
    ) -> None:
        self._source, self._emit, self._now, self._ranges = source, emit, now, ranges
        self._random = random or Random()
        self._reported: set[str] = set()
        self.failing: frozenset[str] = frozenset()  # parts that failed at the last look; what may be absent does not
        self._history: asyncio.Task[None] | None = None

    @property
    def query_names(self) -> tuple[str, ...]:
        """All that the source may answer or fail for."""
        return self._source.query_names

    async def run(self) -> None:
        """For ever, until cancelled; the source is closed then."""
        clock = asyncio.get_running_loop().time
        interval = self._source.interval
        try:
            await asyncio.sleep(self._random.uniform(0, min(MAX_INITIAL_DELAY, interval)))
            while True:
                began = clock()
                await self._poll_safely()
                due = interval * self._random.uniform(1 - JITTER, 1 + JITTER)
                await asyncio.sleep(max(due - (clock() - began), MIN_PAUSE * interval))
        finally:
            if self._history is not None:
                self._history.cancel()
            await self.close()

    async def close(self) -> None:
        """Let go of a source that will not be asked any more."""
        await self._source.close()

    async def _poll_safely(self) -> None:
        """Whoever takes the news may raise too; the next look is made all the same."""
        try:
            await self.poll()
        except Exception:
            log.exception("source %s: what it said was not taken", self._source.name)

    async def poll(self) -> None:
        """Once, whatever comes of it."""
        try:
            self._emit_scrape(await self._read())
        except SourceError as error:
            self._emit_failures(Failure(part, error) for part in self._source.query_names)
        except Exception as error:
            log.exception("source %s: fault of our own", self._source.name)
            told = SourceError(f"fault of our own ({type(error).__name__})", "report it with the log")
            self._emit_failures(Failure(part, told) for part in self._source.query_names)

    async def _read(self) -> Scrape:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            return await self._source.read()
        except SourceError as error:
            if not error.transient or clock() - began > self._source.interval / 2:
                raise
        await asyncio.sleep(min(RETRY_AFTER, self._source.interval / 10))
        return await self._source.read()

    def _emit_scrape(self, scrape: Scrape) -> None:
        answered = {reading.source for reading in scrape.readings}
        if back := sorted(self._reported & answered):
            log.info("source answers again: parts=%s", ",".join(back))
        self._reported -= answered
        if scrape.readings:
            self._emit(SamplesRead(scrape.readings, self._now()))
        self._emit_failures(scrape.failures)
        if scrape.readings and self._history is None and self._ranges:
            self._history = asyncio.create_task(self._read_history())

    def _emit_failures(self, failures: Iterable[Failure]) -> None:
        told = tuple(failures)
        self.failing = frozenset(part for part, _ in told)
        for part, error in told:
            if part not in self._reported:
                self._reported.add(part)
                log.warning("source fails: part=%s problem=%s", part, error)
                self._emit(SourceFailed(part, str(error), self._now()))

    async def _read_history(self) -> None:
        """Whatever cannot be recalled is only missed: the looks will make up for it in time."""
        try:
            async for readings in self._source.read_history(self._ranges):
                self._emit(HistoryRead(readings, self._now()))
        except SourceError as error:
            log.warning("source cannot recall: source=%s problem=%s", self._source.name, error)
        except Exception:
            log.exception("source %s: fault of our own while recalling", self._source.name)
