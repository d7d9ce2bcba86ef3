"""Helpers for live tests that read a real Prometheus through a source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.live.metering.exporters import Exporters
from tools.controlplane.prometheus import Prometheus
from trimtab.config.trimtab.settings import BuiltinMetric, PrometheusSettings
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Subject
from trimtab.sources.interface import Scrape, SourceError
from trimtab.sources.interface import Source as AnySource
from trimtab.sources.prometheus.source import PrometheusSource as Source

NAMES = ("node-0", "node-1", "node-2")
NODES_ONLY = (BuiltinMetric.NODE_CPU, BuiltinMetric.NODE_MEMORY)
TIMEOUT = 30.0


@asynccontextmanager
async def prometheus_source(
    prometheus: Prometheus, exporters: Exporters | None = None, **settings: Any
) -> AsyncIterator[Source]:
    """A source on this Prometheus for the nodes of these exporters, with rates over five seconds."""
    fields = {"metrics": NODES_ONLY, "timeout": 2.0, "rate_window": 5.0, **settings}
    nodes = [Node(name=name, addresses=(exporters.ip(name), name) if exporters else ()) for name in NAMES]
    source = Source(PrometheusSettings("prom", prometheus.url, **fields), lambda: nodes)
    try:
        yield source
    finally:
        await source.close()


def values_by_name(scrape: Scrape, resource: str, subject: Subject = Subject.NODES) -> dict[str, float]:
    """Values by name."""
    readings = (each for each in scrape.readings if (each.resource, each.subject) == (resource, subject))
    return next((dict(zip(each.names, each.values, strict=True)) for each in readings), {})


def ages(scrape: Scrape, resource: str) -> dict[str, float]:
    """The age of each node's sample."""
    reading = next((each for each in scrape.readings if each.resource == resource), None)
    return (
        {}
        if reading is None
        else {name: time.time() - at for name, at in zip(reading.names, reading.measured, strict=True)}
    )


async def read_until(source: AnySource, wanted: Callable[[Scrape], bool], within: float = TIMEOUT) -> Scrape:
    """Poll until the scrape satisfies the predicate; a failed poll counts as an empty scrape."""
    deadline = time.monotonic() + within
    while True:
        try:
            scrape, problem = await source.read(), ""
        except SourceError as error:
            scrape, problem = Scrape(), str(error)
        if wanted(scrape):
            return scrape
        assert time.monotonic() < deadline, (
            f"{problem} {scrape.failures} {[(r.resource, r.names, r.values) for r in scrape.readings]}"
        )
        await asyncio.sleep(0.25)


def is_close(values: Mapping[str, float], expected: Mapping[str, float], slack: float = 0.03) -> bool:
    return values.keys() == expected.keys() and all(
        abs(values[key] - expected[key]) <= slack * max(abs(expected[key]), 1) for key in values
    )
