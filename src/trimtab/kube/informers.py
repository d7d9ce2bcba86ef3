"""All reflectors of a process, and when their first lists are complete.

A kind with two API groups is synced when both have been listed. A replica competes for the lease only when every kind is
synced, or forbidden and needed by some pods only. It is not ready while any is forbidden, so that an upgrade without its
new role does not replace replicas that work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from random import Random
from typing import Any

from msgspec import Struct

from trimtab.core.model.events import Event, Synced
from trimtab.kube.kinds import WatchedKind
from trimtab.kube.reflector import Reflector
from trimtab.kube.transport import Transport
from trimtab.kube.unstarted_pods import UnstartedPods


class KindView(Struct, frozen=True):
    """What is known of one kind: versions by UID, as of the version that the watch has reached."""

    kind: str
    path: str
    version: int
    objects: Mapping[str, int]


class Informers:
    """A reflector for each kind."""

    def __init__(
        self,
        transport: Transport,
        kinds: Iterable[WatchedKind[Any]],
        sink: Callable[[Event], None],
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._sink, self._clock = sink, clock
        comparison_lock = asyncio.Lock()
        self._reflectors = [
            (kind.name, Reflector(transport, kind, self._handle, clock, random, comparison_lock)) for kind in kinds
        ]
        self._settled = asyncio.Event()
        self._unstarted = UnstartedPods(lambda reason: self.suspect("nodes", reason))

    def _handle(self, event: Event) -> None:
        if isinstance(event, Synced) and any(
            each.forbidden or not each.counts.lists for name, each in self._reflectors if name == event.kind
        ):
            return  # its other API group has not been listed
        self._sink(event)
        self._unstarted.take(event)
        if not self._settled.is_set() and all(each.counts.lists or each.forbidden for _, each in self._reflectors):
            self._settled.set()

    async def run(self) -> None:
        """List and watch until cancelled, or until ResourceVersionRegressed (in an ExceptionGroup)."""
        async with asyncio.TaskGroup() as group:
            for _, reflector in self._reflectors:
                group.create_task(reflector.run())

    async def wait_synced(self) -> None:
        """Wait until every kind has been listed once, or is known to be forbidden."""
        await self._settled.wait()

    async def refresh(self) -> None:
        """List every kind once more: a new leader must not act on a lagging watch."""
        await asyncio.gather(*(reflector.refresh() for _, reflector in self._reflectors))

    def suspect(self, kind: str, reason: str) -> None:
        """Compare this kind with the cluster soon, because something else shows that its watch may have lost events."""
        for name, reflector in self._reflectors:
            if name == kind:
                reflector.suspect(reason)

    def views(self) -> list[KindView]:
        """What is known of each kind that is served."""
        served = [each for _, each in self._reflectors if each.served]
        return [KindView(each.kind.name, each.kind.path, each.store.version, each.store.versions()) for each in served]

    def unsynced(self) -> str | None:
        """Kinds that have not been listed yet, and why; None when all are synced."""
        unsynced = [
            (name, each.last_error) for name, each in self._reflectors if each.forbidden or not each.counts.lists
        ]
        return "; ".join(f"{name}: {error or 'not listed yet'}" for name, error in unsynced) or None

    def disconnected(self) -> str | None:
        """Kinds that were synced, but whose last list or watch failed, and why; None when all are being watched."""
        failing = [(name, each.last_error) for name, each in self._reflectors if each.counts.lists and each.last_error]
        return "; ".join(f"{name}: {error}" for name, error in failing) or None

    def last_heard(self, kind: str) -> float:
        """When this kind's reflector last received anything; bookmarks and a new watch count."""
        return min((each.last_heard for name, each in self._reflectors if name == kind), default=float("-inf"))

    def silences(self) -> Mapping[str, float]:
        """By kind: seconds since its reflector last received anything; a kind that never did is left out."""
        now = self._clock()
        names = (name for name, _ in self._reflectors)
        return {name: now - heard for name in names if (heard := self.last_heard(name)) > float("-inf")}

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Incident counts by kind; the API groups of a kind are added up."""
        found: dict[str, Counter[str]] = {name: Counter() for name, _ in self._reflectors}
        for name, each in self._reflectors:
            found[name].update(asdict(each.counts) | {"malformed": each.store.malformed})
        return found
