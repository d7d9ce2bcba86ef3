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

from trimtab.apps.ending import tell_end
from trimtab.config.own.settings import SourceSettings
from trimtab.core.model.event import SourceFailed
from trimtab.core.model.node import Node
from trimtab.sources.contract import Get, Past, SourceError
from trimtab.sources.opening import opened
from trimtab.sources.polling import SPANS, Measured, Polling

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Look:
    """One source that was opened; it is asked while its task runs."""

    settings: SourceSettings
    polling: Polling
    task: asyncio.Task[None] | None = None

    def fails(self, part: str) -> bool:
        """Whether this part does not answer, or nobody asks any more."""
        return part in self.polling.failing or (self.task is not None and self.task.done())

    async def end(self) -> None:
        """The source is closed after that, whether or not it was ever asked."""
        if self.task is None:
            self.task = asyncio.create_task(self.polling.close())
        else:
            self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Looking:
    """One polling for each source; `change` puts others in the place of those that changed.

    now: what the core is told. wall: the clock that samples are stamped by.
    """

    def __init__(
        self,
        sources: tuple[SourceSettings, ...],
        nodes: Callable[[], Iterable[Node]],
        get: Get,
        hand: Callable[[Measured], None],
        now: Callable[[], float],
        spans: Sequence[Past] = SPANS,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.sources = sources
        self._nodes, self._get, self._hand, self._now, self._spans, self._wall = nodes, get, hand, now, spans, wall
        self._changed = asyncio.Event()
        self._ending: list[Look] = []
        self._looks = self._opened(sources, tolerated=sources)

    def change(self, sources: tuple[SourceSettings, ...]) -> None:
        """From now on these; SourceError where one that is new cannot be opened, and then all stays as it is."""
        kept = [look for look in self._looks if look.settings in sources]
        held = [look.settings for look in kept]
        new = self._opened([each for each in sources if each not in held], tolerated=self.sources)
        self._ending += [look for look in self._looks if look not in kept]
        self._looks, self.sources = kept + new, sources
        self._changed.set()

    def failing(self) -> dict[str, int]:
        """1 for each part of the sources in force that fails now, else 0; a source that is not asked fails as a whole."""
        held = [look.settings for look in self._looks]
        lost = {each.name: 1 for each in self.sources if each not in held}
        return lost | {part: int(look.fails(part)) for look in self._looks for part in look.polling.parts}

    async def run(self) -> None:
        """For ever; sources that are no more are closed before new ones are asked."""
        try:
            while True:
                self._changed.clear()
                await self._end()
                for look in self._looks:
                    if look.task is None:
                        look.task = asyncio.create_task(look.polling.run())
                        look.task.add_done_callback(partial(self._ended, look))
                await self._changed.wait()
        finally:
            self._ending, self._looks = self._ending + self._looks, []
            await asyncio.gather(*(look.end() for look in self._ending), return_exceptions=True)

    async def _end(self) -> None:
        """What was measured by sources of before holds only if others say it again."""
        while self._ending:
            look = self._ending[0]
            began = look.task is not None
            await look.end()
            self._ending.remove(look)
            for part in look.polling.parts if began else ():
                self._hand(SourceFailed(part, "its settings have changed", self._now()))

    def _ended(self, look: Look, task: asyncio.Task[None]) -> None:
        """Told when it was not we who ended it: a source of another package may raise what nobody expects."""
        if look not in self._looks:
            return
        log.error("source not asked any more: source=%s", look.settings.name)
        tell_end(task)
        for part in look.polling.parts:
            self._hand(SourceFailed(part, "is not asked any more: see the log", self._now()))

    def _opened(self, sources: Iterable[SourceSettings], tolerated: Sequence[SourceSettings]) -> list[Look]:
        """Of those that are tolerated one that cannot be opened is told, and keeps no other from being asked."""
        looks: list[Look] = []
        for settings in sources:
            try:
                looks.append(Look(settings, self._polling(settings)))
            except SourceError as error:
                if settings not in tolerated:
                    self._ending += looks
                    self._changed.set()
                    raise
                log.error("source not opened: source=%s problem=%s", settings.name, error)
        return looks

    def _polling(self, settings: SourceSettings) -> Polling:
        try:
            source = opened(settings, self._nodes, self._get, self._wall)
        except SourceError:
            raise
        except Exception as error:  # of another package, say
            log.exception("source not opened: source=%s problem=fault of our own", settings.name)
            raise SourceError(f"source {settings.name!r} raises {type(error).__name__}", "see the log") from error
        return Polling(source, self._hand, self._now, spans=self._spans)
