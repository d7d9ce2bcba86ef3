"""Runs the looks at all sources of measurements, and others when the settings change; asks and judges nothing itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from trimtab.config.own.settings import SourceSettings
from trimtab.core.model.event import SourceFailed
from trimtab.core.model.node import Node
from trimtab.sources.contract import Past, SourceError
from trimtab.sources.opening import opened
from trimtab.sources.polling import SPANS, Measured, Polling

log = logging.getLogger(__name__)


class Looking:
    """One polling for each source; `change` puts others in their place."""

    def __init__(
        self,
        sources: tuple[SourceSettings, ...],
        nodes: Callable[[], Iterable[Node]],
        get: Callable[[str], Awaitable[tuple[int, bytes]]],
        hand: Callable[[Measured], None],
        now: Callable[[], float],
        spans: Sequence[Past] = SPANS,
    ) -> None:
        self.sources = sources
        self._nodes, self._get, self._hand, self._now, self._spans = nodes, get, hand, now, spans
        self._changed = asyncio.Event()

    def change(self, sources: tuple[SourceSettings, ...]) -> None:
        self.sources = sources
        self._changed.set()

    async def run(self) -> None:
        """For ever; the sources of before are closed before the new ones are opened."""
        while True:
            self._changed.clear()
            pollings = [polling for polling in map(self._polling, self.sources) if polling is not None]
            tasks = [asyncio.create_task(polling.run()) for polling in pollings]
            try:
                await self._changed.wait()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            self._disbelieve(pollings)

    def _disbelieve(self, pollings: list[Polling]) -> None:
        """What was measured by sources of before holds only if the new ones say it again."""
        for part in (part for polling in pollings for part in polling.parts):
            self._hand(SourceFailed(part, "its settings have changed", self._now()))

    def _polling(self, settings: SourceSettings) -> Polling | None:
        """One that cannot be opened is told, and keeps no other from being asked."""
        try:
            source = opened(settings, self._nodes, self._get, self._now)
        except SourceError as error:
            log.error("source not opened: source=%s problem=%s", settings.name, error)
            return None
        except Exception:  # nor does one of another package that raises
            log.exception("source not opened: source=%s problem=fault of our own", settings.name)
            return None
        return Polling(source, self._hand, self._now, spans=self._spans)
