"""Decides when the metrics page is read and written; leaves what stands on it to the tally and the readings."""

from __future__ import annotations

import asyncio

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, ProcessCollector, generate_latest

from trimtab.serve.metrics import PrometheusTally
from trimtab.serve.readings import Readings


class MetricsPage:
    """One registry with everything; read on the event loop, written in a thread, one at a time."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, tally: PrometheusTally, readings: Readings) -> None:
        self._registry, self._readings = tally.registry, readings
        self._registry.register(readings)
        ProcessCollector(registry=self._registry)
        self._turn = asyncio.Lock()

    async def write(self) -> bytes:
        """The page in Prometheus' text format."""
        async with self._turn:
            self._readings.refresh()
            return await asyncio.to_thread(generate_latest, self._registry)
