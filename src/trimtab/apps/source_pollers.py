"""Runs one poller per configured metric source, and replaces those whose settings change.

A source with unchanged settings continues, with all that it has learned. Samples of a removed source are not trusted from
then on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from trimtab.apps.logs import log_task_exit
from trimtab.config.trimtab.settings import SourceSettings
from trimtab.core.model.events import SourceFailed
from trimtab.core.model.node import Node
from trimtab.sources.interface import Get, HistoryRange, SourceError
from trimtab.sources.poller import HISTORY_RANGES, Poller, SourceEvent
from trimtab.sources.registry import open_source

log = logging.getLogger(__name__)


@dataclass(eq=False)
class RunningPoller:
    """An opened source and the task that polls it."""

    settings: SourceSettings
    poller: Poller
    task: asyncio.Task[None] | None = None

    def is_failing(self, query: str) -> bool:
        """Whether this query fails, or its source is not polled any more."""
        return query in self.poller.failing or (self.task is not None and self.task.done())

    async def stop(self) -> None:
        """Stop polling and close the source."""
        if self.task is None:
            self.task = asyncio.create_task(self.poller.close())
        else:
            self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class SourcePollers:
    """The pollers of all sources; `change` replaces them.

    now: the engine's clock. wall: the clock of the samples' timestamps.
    """

    def __init__(
        self,
        sources: tuple[SourceSettings, ...],
        nodes: Callable[[], Iterable[Node]],
        get: Get,
        emit: Callable[[SourceEvent], None],
        now: Callable[[], float],
        history: Sequence[HistoryRange] = HISTORY_RANGES,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.sources = sources
        self._nodes, self._get, self._emit, self._now, self._history, self._wall = nodes, get, emit, now, history, wall
        self._changed = asyncio.Event()
        self._stopping: list[RunningPoller] = []
        self._running = self._open(sources, tolerated=sources)

    def change(self, sources: tuple[SourceSettings, ...]) -> None:
        """Poll these from now on. Raises SourceError if a new one cannot be opened, and then nothing changes."""
        kept = [each for each in self._running if each.settings in sources]
        known = [each.settings for each in kept]
        new = self._open([each for each in sources if each not in known], tolerated=self.sources)
        self._stopping += [each for each in self._running if each not in kept]
        self._running, self.sources = kept + new, sources
        self._changed.set()

    def failing(self) -> dict[str, int]:
        """By query: 1 while it fails, else 0; a source that could not be opened counts as one failing query."""
        known = [each.settings for each in self._running]
        unopened = {each.name: 1 for each in self.sources if each not in known}
        return unopened | {
            query: int(each.is_failing(query)) for each in self._running for query in each.poller.query_names
        }

    def have_read_history(self) -> bool:
        """Whether all sources have answered once, with their past; one that cannot be opened never does."""
        return len(self._running) == len(self.sources) and all(each.poller.has_read_history for each in self._running)

    async def run(self) -> None:
        """Run for ever; removed sources are closed before new ones are polled."""
        try:
            while True:
                self._changed.clear()
                await self._stop_removed()
                for each in self._running:
                    if each.task is None:
                        each.task = asyncio.create_task(each.poller.run())
                        each.task.add_done_callback(partial(self._on_exit, each))
                await self._changed.wait()
        finally:
            self._stopping, self._running = self._stopping + self._running, []
            await asyncio.gather(*(each.stop() for each in self._stopping), return_exceptions=True)

    async def _stop_removed(self) -> None:
        """Close removed sources; their samples are not trusted any more."""
        while self._stopping:
            each = self._stopping[0]
            polled = each.task is not None
            await each.stop()
            self._stopping.remove(each)
            for query in each.poller.query_names if polled else ():
                self._emit(SourceFailed(query, "its settings have changed", self._now(), discard_samples=True))

    def _on_exit(self, poller: RunningPoller, task: asyncio.Task[None]) -> None:
        """Report a poller that ended by itself: a source of another package may raise anything."""
        if poller not in self._running:
            return
        log.error("source is not polled any more: source=%s", poller.settings.name)
        log_task_exit(task)
        for query in poller.poller.query_names:
            self._emit(SourceFailed(query, "is not polled any more: see the log", self._now()))

    def _open(self, sources: Iterable[SourceSettings], tolerated: Sequence[SourceSettings]) -> list[RunningPoller]:
        """Open these; one of `tolerated` that cannot be opened is logged, and the others are polled."""
        opened: list[RunningPoller] = []
        for settings in sources:
            try:
                opened.append(RunningPoller(settings, self._poller(settings)))
            except SourceError as error:
                if settings not in tolerated:
                    self._stopping += opened
                    self._changed.set()
                    raise
                log.error("failed to open source: source=%s error=%s", settings.name, error)
        return opened

    def _poller(self, settings: SourceSettings) -> Poller:
        try:
            source = open_source(settings, self._nodes, self._get, self._wall)
        except SourceError:
            raise
        except Exception as error:  # for example of a source of another package
            log.exception("failed to open source: source=%s error=%s", settings.name, "internal error")
            raise SourceError(f"source {settings.name!r} raises {type(error).__name__}", "see the log") from error
        return Poller(source, self._emit, self._now, ranges=self._history)
