"""Decides which looks at sources of measurements run: those of the settings in force; asks and judges nothing itself.

A change ends the looks whose settings are no more, and begins those that are new. A source that stays as it is goes on, and
keeps what it has found out. What the ended ones have measured is not believed from that moment on.
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
    """One source that was opened; it is asked while its task runs."""

    settings: SourceSettings
    poller: Poller
    task: asyncio.Task[None] | None = None

    def is_failing(self, query: str) -> bool:
        """Whether this part does not answer, or nobody asks any more."""
        return query in self.poller.failing or (self.task is not None and self.task.done())

    async def stop(self) -> None:
        """The source is closed after that, whether or not it was ever asked."""
        if self.task is None:
            self.task = asyncio.create_task(self.poller.close())
        else:
            self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class SourcePollers:
    """One polling for each source; `change` puts others in the place of those that changed.

    now: what the core is told. wall: the clock that samples are stamped by.
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
        """From now on these; SourceError where one that is new cannot be opened, and then all stays as it is."""
        kept = [look for look in self._running if look.settings in sources]
        held = [look.settings for look in kept]
        new = self._open([each for each in sources if each not in held], tolerated=self.sources)
        self._stopping += [look for look in self._running if look not in kept]
        self._running, self.sources = kept + new, sources
        self._changed.set()

    def failing(self) -> dict[str, int]:
        """1 for each part of the sources in force that fails now, else 0; a source that is not asked fails as a whole."""
        held = [look.settings for look in self._running]
        lost = {each.name: 1 for each in self.sources if each not in held}
        return lost | {part: int(look.is_failing(part)) for look in self._running for part in look.poller.query_names}

    async def run(self) -> None:
        """For ever; sources that are no more are closed before new ones are asked."""
        try:
            while True:
                self._changed.clear()
                await self._stop_removed()
                for look in self._running:
                    if look.task is None:
                        look.task = asyncio.create_task(look.poller.run())
                        look.task.add_done_callback(partial(self._on_exit, look))
                await self._changed.wait()
        finally:
            self._stopping, self._running = self._stopping + self._running, []
            await asyncio.gather(*(look.stop() for look in self._stopping), return_exceptions=True)

    async def _stop_removed(self) -> None:
        """What was measured by sources of before holds only if others say it again."""
        while self._stopping:
            look = self._stopping[0]
            began = look.task is not None
            await look.stop()
            self._stopping.remove(look)
            for part in look.poller.query_names if began else ():
                self._emit(SourceFailed(part, "its settings have changed", self._now()))

    def _on_exit(self, poller: RunningPoller, task: asyncio.Task[None]) -> None:
        """Told when it was not we who ended it: a source of another package may raise what nobody expects."""
        if poller not in self._running:
            return
        log.error("source not asked any more: source=%s", poller.settings.name)
        log_task_exit(task)
        for part in poller.poller.query_names:
            self._emit(SourceFailed(part, "is not asked any more: see the log", self._now()))

    def _open(self, sources: Iterable[SourceSettings], tolerated: Sequence[SourceSettings]) -> list[RunningPoller]:
        """Of those that are tolerated one that cannot be opened is told, and keeps no other from being asked."""
        looks: list[RunningPoller] = []
        for settings in sources:
            try:
                looks.append(RunningPoller(settings, self._poller(settings)))
            except SourceError as error:
                if settings not in tolerated:
                    self._stopping += looks
                    self._changed.set()
                    raise
                log.error("source not opened: source=%s problem=%s", settings.name, error)
        return looks

    def _poller(self, settings: SourceSettings) -> Poller:
        try:
            source = open_source(settings, self._nodes, self._get, self._wall)
        except SourceError:
            raise
        except Exception as error:  # of another package, say
            log.exception("source not opened: source=%s problem=fault of our own", settings.name)
            raise SourceError(f"source {settings.name!r} raises {type(error).__name__}", "see the log") from error
        return Poller(source, self._emit, self._now, ranges=self._history)
