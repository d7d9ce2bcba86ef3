"""The metrics-server source: node and pod usage from `metrics.k8s.io`.

Each item has its own timestamp and the window that its CPU usage is averaged over. Windows differ slightly from item to
item; their median is used for all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from statistics import median
from typing import Annotated, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Meta, Raw, Struct

from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.core.model.duration import parse_duration
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import NANOS
from trimtab.sources.interface import Failure, Get, HistoryRange, Scrape, SourceError, no_history
from trimtab.wire.decoding import UNREADABLE, Quantities, read_status
from trimtab.wire.forbidden import grant_remedy
from trimtab.wire.pod_json import Time
from trimtab.wire.quantity import QuantityError, nanos

ROOT = "/apis/metrics.k8s.io/v1beta1"
FORBIDDEN = 403
MAX_PAGES = 1000
MAX_WINDOW_SAMPLES = 200
THREAD_ABOVE_ITEMS = 1000  # more take milliseconds to decode
THREAD_ABOVE_BYTES = 1 << 20  # a larger list takes milliseconds to split into items
NANOS_PER_MILLI = 1_000_000
CHECK_LOG = "check the metrics-server log"
REMEDIES: Mapping[int, tuple[str, str]] = {
    404: ("is not served by this cluster", "install metrics-server, or remove this source"),
    503: (
        "is not available",
        "check why metrics-server is not ready: kubectl describe apiservice v1beta1.metrics.k8s.io",
    ),
}


class MetaShape(Struct, frozen=True, gc=False):
    name: Annotated[str, Meta(min_length=1)]
    namespace: str = ""


class UsageShape(Struct, frozen=True, gc=False):
    usage: Quantities


class ItemShape(Struct, frozen=True, gc=False):
    """NodeMetrics or PodMetrics: a node has its own usage, a pod that of its containers."""

    metadata: MetaShape
    timestamp: Time = None
    window: str = ""
    usage: Quantities | None = None
    containers: tuple[UsageShape, ...] | None = None


class PageShape(Struct, frozen=True, gc=False, rename={"more": "continue"}):
    more: str | None = None


class ListShape(Struct, frozen=True):
    items: tuple[Raw, ...] | None = None
    metadata: PageShape | None = None


class UsageColumns(NamedTuple):
    """Parallel columns, one entry per item."""

    names: list[str]
    cpu: list[float]
    memory: list[float]
    measured: list[float]


class MetricsServerSource:
    """The metrics API of the scheduled cluster; `get` sends a GET to its API server."""

    def __init__(self, settings: MetricsServerSettings, get: Get) -> None:
        self.name, self.interval = settings.name, settings.interval
        self._get, self._timeout = get, settings.timeout
        self._list = msgspec.json.Decoder(ListShape)
        self._item = msgspec.json.Decoder(ItemShape)

    @property
    def query_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}/{subject}" for subject in Subject)

    async def read(self) -> Scrape:
        results = await asyncio.gather(*(self._read_subject(subject) for subject in Subject))
        readings = tuple(reading for each in results if not isinstance(each, Failure) for reading in each)
        failures = tuple(each for each in results if isinstance(each, Failure))
        if not readings and len({each.error.invalid for each in failures}) == 1:
            raise failures[0].error
        return Scrape(readings, failures)

    def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        """metrics-server keeps no history."""
        return no_history()

    async def close(self) -> None:
        """Nothing to release."""

    async def _read_subject(self, subject: Subject) -> tuple[Reading, ...] | Failure:
        try:
            async with asyncio.timeout(self._timeout):
                items = await self._list_items(subject)
                if len(items) > THREAD_ABOVE_ITEMS:
                    return await asyncio.to_thread(self._decode, subject, items)
                return self._decode(subject, items)
        except TimeoutError:
            error = SourceError(f"no response for {subject} within {self._timeout:g} s", CHECK_LOG)
        except SourceError as raised:
            error = raised
        except Exception as raised:  # whatever `get` raises
            error = SourceError(f"request to the API server failed ({type(raised).__name__})", transient=True)
        return Failure(f"{self.name}/{subject}", error)

    async def _list_items(self, subject: Subject) -> list[Raw]:
        items: list[Raw] = []
        parameters = ""
        for _ in range(MAX_PAGES):
            status, body = await self._get(f"{ROOT}/{subject}{parameters}")
            if status != 200:
                raise _error(status, body)
            try:
                decode = self._list.decode
                page = await asyncio.to_thread(decode, body) if len(body) > THREAD_ABOVE_BYTES else decode(body)
            except UNREADABLE:
                raise SourceError("metrics.k8s.io returned an invalid list", CHECK_LOG, invalid=True) from None
            items += page.items or ()
            if page.metadata is None or not page.metadata.more:
                break
            parameters = f"?continue={quote(page.metadata.more, safe='')}"
        return items

    def _decode(self, subject: Subject, items: Sequence[Raw]) -> tuple[Reading, ...]:
        skipped: Counter[str] = Counter()
        columns, windows = UsageColumns([], [], [], []), list[float]()
        for raw in items:
            try:
                _append(self._item.decode(raw), columns, windows)
            except (*UNREADABLE, OverflowError):  # includes QuantityError; OverflowError is more than a float holds
                skipped["malformed"] += 1
        if subject is Subject.NODES and not columns.names:
            problem = f"metrics.k8s.io returned no node ({skipped['malformed']} malformed)"
            remedy = "wait a minute after its start, then check the metrics-server log"
            raise SourceError(problem, remedy, invalid=bool(skipped))
        return self._readings(subject, columns, median(windows or [0.0]), skipped)

    def _readings(
        self, subject: Subject, columns: UsageColumns, window: float, skipped: Counter[str]
    ) -> tuple[Reading, ...]:
        names, measured, reasons = tuple(columns.names), tuple(columns.measured), tuple(sorted(skipped.items()))
        return tuple(
            Reading(
                source=f"{self.name}/{subject}",
                resource=resource,
                names=names,
                values=tuple(values),
                measured=measured,
                subject=subject,
                window=averaged_over,
                skipped=reasons,
            )
            for resource, values, averaged_over in (("cpu", columns.cpu, window), ("memory", columns.memory, 0.0))
        )


def _error(status: int, body: bytes) -> SourceError:
    if status == FORBIDDEN:
        remedy = grant_remedy(read_status(body).message, "rbac-metrics.yaml", "that")
        return SourceError("metrics.k8s.io is forbidden", f"allow listing nodes and pods there: {remedy}")
    problem, remedy = REMEDIES.get(status, (f"returned HTTP {status}", CHECK_LOG))
    return SourceError(f"metrics.k8s.io {problem}", remedy, transient=status >= 500)


def _append(item: ItemShape, columns: UsageColumns, windows: list[float]) -> None:
    """Append the whole item or, with ValueError or OverflowError, nothing of it."""
    usages = [item.usage] if item.usage is not None else [each.usage for each in item.containers or ()]
    if not usages or item.timestamp is None:
        raise QuantityError("no usage, or no time")
    cpu = sum(_nanos(usage["cpu"]) for usage in usages if "cpu" in usage) / NANOS_PER_MILLI
    memory = sum(_nanos(usage["memory"]) for usage in usages if "memory" in usage) / NANOS
    if not all("cpu" in usage and "memory" in usage for usage in usages):
        raise QuantityError("one of the two is missing")
    meta = item.metadata
    if len(windows) < MAX_WINDOW_SAMPLES and (window := parse_duration(item.window)) is not None and window > 0:
        windows.append(window)
    columns.names.append(f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name)
    columns.cpu.append(cpu)
    columns.memory.append(memory)
    columns.measured.append(item.timestamp.timestamp())


def _nanos(text: str | int | float | None) -> int:
    """Billionths; a fast path for the two forms that metrics-server writes, as the general parser takes ten times as long."""
    if isinstance(text, str) and text.isascii():
        if text[-1:] == "n" and text[:-1].isdigit():
            return int(text[:-1])
        if text[-2:] == "Ki" and text[:-2].isdigit():
            return (int(text[:-2]) << 10) * NANOS
    if text is None:
        raise QuantityError("a missing quantity is not zero")
    return nanos(text)
