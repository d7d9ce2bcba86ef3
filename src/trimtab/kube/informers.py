"""Decides which reflectors run side by side and when a kind is complete; leaves following each one to the reflector.

A kind with two homes is complete when both have been listed. Whoever would lead waits until every kind is: a replica
that lacks a right (a new version, say, whose role was not applied) must not take the lease from one that does its work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from random import Random
from typing import Any

from trimtab.core.model.events import Event, Synced
from trimtab.kube.kinds import WatchedKind
from trimtab.kube.reflector import Reflector
from trimtab.kube.transport import Transport


class Informers:
    """All that is followed of the cluster."""

    def __init__(
        self,
        transport: Transport,
        kinds: Iterable[WatchedKind[Any]],
        sink: Callable[[Event], None],
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._sink = sink
        self._reflectors = [(kind.name, Reflector(transport, kind, self._handle, clock, random)) for kind in kinds]
        self._unsynced = Counter(name for name, _ in self._reflectors)
        self._synced = asyncio.Event()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Synced):
            self._unsynced[event.kind] -= 1
            if self._unsynced[event.kind]:
                return
        self._sink(event)
        if not self._synced.is_set() and not any(self._unsynced.values()):
            self._synced.set()

    async def run(self) -> None:
        """Follow for ever; ends only by being cancelled, or with Rewound (in an ExceptionGroup)."""
        async with asyncio.TaskGroup() as group:
            for _, reflector in self._reflectors:
                group.create_task(reflector.run())

    async def wait_synced(self) -> None:
        """Wait until everything has been listed once."""
        await self._synced.wait()

    async def refresh(self) -> None:
        """List everything once more: whoever starts to lead must not act on a lagging watch."""
        await asyncio.gather(*(reflector.refresh() for _, reflector in self._reflectors))

    def unsynced(self) -> str | None:
        """What has not been listed yet, and why not; None when nothing is missing."""
        late = [(name, each.last_error) for name, each in self._reflectors if not each.counts.lists]
        return "; ".join(f"{name}: {problem or 'not listed yet'}" for name, problem in late) or None

    def last_heard(self) -> float:
        """When the one that was silent longest was last heard of; bookmarks and a new watch count."""
        return min((each.last_heard for _, each in self._reflectors), default=float("-inf"))

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """What happened so far, by kind; the homes of a kind are taken together."""
        found: dict[str, Counter[str]] = {name: Counter() for name, _ in self._reflectors}
        for name, each in self._reflectors:
            found[name].update(asdict(each.counts) | {"malformed": each.store.malformed})
        return found
