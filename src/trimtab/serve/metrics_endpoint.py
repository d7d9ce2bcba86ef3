"""Decides when the metrics page is read and written; leaves what stands on it to the tally and the readings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from trimtab.serve.gauges import Gauges
from trimtab.serve.metrics import PrometheusRecorder


class Snapshot(Collector):
    """What was read at one moment, and the process' own figures at the moment of writing."""

    def __init__(self, families: list[Metric], process: ProcessCollector) -> None:
        self._families, self._process = families, process

    def collect(self) -> Iterable[Metric]:
        """In the order of the page."""
        return [*self._families, *self._process.collect()]


class MetricsEndpoint:
    """Read on the event loop, where all of it lives, and written in a thread; one at a time."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, recorder: PrometheusRecorder, gauges: Gauges) -> None:
        self._recorder, self._gauges = recorder, gauges
        self._process = ProcessCollector(registry=None)
        self._lock = asyncio.Lock()

    async def render(self) -> bytes:
        """The page in Prometheus' text format."""
        async with self._lock:
            snapshot = Snapshot([*self._recorder.families(), *self._gauges.families()], self._process)
            return await asyncio.to_thread(generate_latest, snapshot)
