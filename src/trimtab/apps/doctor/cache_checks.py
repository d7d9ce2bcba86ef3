"""Compares what a live process knows with the API server: `trimtab doctor --compare`, kube-scheduler's SIGUSR2.

A difference counts if it is there twice, ten seconds apart: a watch is always a little late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.doctor.finding import Area, Finding, by_severity, ok, problem, shorten, warning
from trimtab.kube.cache_comparison import Differences, find_differences
from trimtab.kube.listing import ListError, list_pages
from trimtab.kube.transport import Unreachable
from trimtab.wire.decoding import Malformed
from trimtab.wire.metadata import MetadataReader, ObjectMetadata
from trimtab.wire.requests import METADATA_LIST

PAUSE_SECONDS = 10.0
REMEDY = (
    "the process repairs this itself within ten minutes, and counts it in trimtab_watch_incidents_total; if it comes back, "
    "look at what lies between the process and the API server, or restart the process"
)

Fetch = Callable[[], Mapping[str, Any]]
Held = Mapping[str, Mapping[str, int]]  # versions by UID, by path


class UnexpectedAnswer(ValueError):
    """The page is not what a Trimtab of this version serves."""


class Listed(NamedTuple):
    """A kind as the API server has it; `error` says why it could not be listed."""

    version: int = 0
    items: Mapping[str, ObjectMetadata] = {}
    error: str = ""


async def compare_cache(server: ApiServer, fetch: Fetch, pause: float = PAUSE_SECONDS) -> tuple[Finding, ...]:
    """A finding for each kind; `fetch` reads the process' page. Raises UnexpectedAnswer."""
    paths = [*await _held(fetch)]
    listed = {path: await _list(server, path) for path in paths}
    found = _compare(listed, listed, await _held(fetch))
    if any(each.number for each in found.values()):
        await asyncio.sleep(pause)
        later = {path: await _list(server, path) for path in paths}
        found = _compare(listed, later, await _held(fetch))
    return by_severity(_finding(path, listed[path], found[path]) for path in paths)


def _compare(listed: Mapping[str, Listed], later: Mapping[str, Listed], held: Held) -> dict[str, Differences]:
    """What the process, read last, lacks of the first lists; nothing that changed in between counts."""
    found: dict[str, Differences] = {}
    for path, before in listed.items():
        lasting = [each for uid, each in before.items.items() if uid in later[path].items]
        each = find_differences(lasting, before.version, held.get(path, {}))
        found[path] = each._replace(leftover=[uid for uid in each.leftover if uid not in before.items])
        if before.error or later[path].error:
            found[path] = Differences([], [], [])
    return found


async def _held(fetch: Fetch) -> Held:
    answer = await asyncio.to_thread(fetch)
    try:
        return {each["path"]: each["objects"] for each in answer["kinds"]}
    except (KeyError, TypeError):
        raise UnexpectedAnswer("unexpected answer of /debug/cache: it may be of another version") from None


async def _list(server: ApiServer, path: str) -> Listed:
    try:
        page = await list_pages(server.transport, path, MetadataReader(), METADATA_LIST)
    except (ListError, Unreachable) as error:
        return Listed(error=str(error))
    return Listed(page.version, {each.uid: each for each in page.items if not isinstance(each, Malformed)})


def _finding(path: str, listed: Listed, found: Differences) -> Finding:
    kind = path.rpartition("/")[2]
    if listed.error:
        return warning(Area.CACHE, kind, f"not compared: {listed.error}", f"use a kubeconfig that may list {kind}")
    if not found.number:
        return ok(Area.CACHE, kind, f"the process knows what the API server has: {len(listed.items)} objects")
    parts = [
        *([f"does not know {shorten([each.key for each in found.missing])}"] if found.missing else []),
        *([f"knows an old version of {shorten([each.key for each in found.outdated])}"] if found.outdated else []),
        *([f"still has {shorten(found.leftover)}, by UID, which are deleted"] if found.leftover else []),
    ]
    return problem(Area.CACHE, kind, f"the process {', '.join(parts)}", REMEDY)
