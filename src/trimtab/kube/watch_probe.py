"""Notices within a minute that a watch is silent or loses events, by asking for the cluster's version.

Every 12 to 15 s a consistent list of one object says at which version L the cluster is, and how many objects of the kind it
has. By the next probe:

    L was behind ours                             ─▶ ResourceVersionRegressed
    the watch has passed L with another number    ─▶ it lost events: compare
    the watch has not passed L, another number    ─▶ it is silent: compare
    the watch has not passed L                    ─▶ quiet or silent: watch briefly, so that its end brings a bookmark
    nor then                                      ─▶ silent, or a server without bookmarks: compare
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from trimtab.kube.store import ResourceVersionRegressed
from trimtab.kube.transport import Transport, Unreachable
from trimtab.wire.metadata import MetadataReader
from trimtab.wire.requests import METADATA_LIST, list_request
from trimtab.wire.watch import ListPage, decode_list

if TYPE_CHECKING:
    from trimtab.kube.reflector import Reflector

PROBE_SECONDS = (12.0, 15.0)
PROBE_TIMEOUT = 10.0


class Census(NamedTuple):
    """The cluster's version, and how many objects of the kind it has; None where the server does not say."""

    version: int
    size: int | None


class WatchProbe:
    """Probes one reflector's watch."""

    def __init__(self, transport: Transport, reflector: Reflector[Any], random: Random) -> None:
        self._transport, self._reflector, self._random = transport, reflector, random
        self._last: Census | None = None
        self._behind = False

    async def run(self) -> None:
        """Probe until cancelled, or until ResourceVersionRegressed."""
        while True:
            await asyncio.sleep(self._random.uniform(*PROBE_SECONDS))
            await self._probe()

    async def _probe(self) -> None:
        reflector, ours = self._reflector, self._reflector.store.version
        census = await self._census() if reflector.watching else None
        if census is not None and census.version < ours:
            raise ResourceVersionRegressed(
                f"{reflector.kind.name}: the cluster is at version {census.version}, but {ours} was seen before"
            )
        last, self._last = self._last, census
        if census is None or last is None or not reflector.watching:
            self._behind = False
            return
        self._judge(last)

    def _judge(self, last: Census) -> None:
        """Whether the watch has kept up with the last probe, which is at least 12 s old."""
        reflector, store = self._reflector, self._reflector.store
        behind, self._behind = self._behind, store.version < last.version
        size = store.size if self._behind else store.size_at(last.version)
        if size is not None and last.size is not None and size != last.size:
            reflector.suspect(f"{last.size} objects at version {last.version}, but {size} are known")
        elif self._behind and behind:
            reflector.suspect(f"the watch has not reached version {last.version}")
        elif self._behind:
            reflector.watch_briefly()

    async def _census(self) -> Census | None:
        """None if the request failed."""
        request = list_request(self._reflector.kind.path, limit=1, accept=METADATA_LIST)
        try:
            response = await self._transport.send(request, PROBE_TIMEOUT)
        except Unreachable:
            return None
        page = decode_list(response.body, MetadataReader()) if response.status == 200 else None
        if not isinstance(page, ListPage):
            return None
        return Census(page.version, None if page.remaining is None else len(page.items) + page.remaining)
