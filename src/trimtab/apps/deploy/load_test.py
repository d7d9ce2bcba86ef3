"""`trimtab deploy test --load N`: creates N pods at once, and measures how long each takes to be bound.

The time of a pod is from sending its creation to the watch event with its node, both by this machine's clock: what a user
waits, including the API server and the network in between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trimtab.apps.deploy.api_client import ApiClient
from trimtab.apps.deploy.probe_pods import Bindings, ProbeOptions, create_pods, probe_namespace, probe_pod

REFRESH_SECONDS = 0.2

Progress = Callable[[int, int], None]  # pods created, pods bound


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Latencies in seconds, pods per second from the first creation to the last bind, and what was not bound."""

    count: int
    latencies: tuple[float, ...]
    seconds: float
    pods_per_node: dict[str, int]

    @property
    def bound(self) -> int:
        return len(self.latencies)

    @property
    def rate(self) -> float:
        return self.bound / self.seconds if self.seconds else 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest rank: a latency that one of the pods really had."""
    return ordered[max(math.ceil(len(ordered) * percent / 100.0), 1) - 1]


async def run_load_test(
    client: ApiClient, options: ProbeOptions, count: int, timeout: float, progress: Progress
) -> LoadResult:
    """Create all pods, wait for them, and clean up in any case."""
    async with probe_namespace(client, options) as bindings:
        reporting = asyncio.create_task(_report(bindings, progress))
        try:
            pods = [probe_pod(options, f"load-{index}") for index in range(count)]
            created = await create_pods(client, pods, bindings)
            await bindings.wait_for(created, timeout)
        finally:
            reporting.cancel()
        progress(len(bindings.created), len(bindings.bound))
        return _result(bindings, count)


async def _report(bindings: Bindings, progress: Progress) -> None:
    while True:
        progress(len(bindings.created), len(bindings.bound))
        await asyncio.sleep(REFRESH_SECONDS)


def _result(bindings: Bindings, count: int) -> LoadResult:
    latencies = sorted(at - bindings.created[name] for name, at in bindings.bound.items() if name in bindings.created)
    span = max(bindings.bound.values(), default=0.0) - min(bindings.created.values(), default=0.0)
    return LoadResult(count, tuple(latencies), max(span, 0.0), bindings.pods_per_node())
