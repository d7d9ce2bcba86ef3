"""What a real Prometheus returns for containers that started within the window of a rate, and how it is used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from msgspec.structs import replace

from tests.build import node, pod
from tests.live.metering.exporters import Exporters
from tests.live.metering.machine import GIB
from tests.live.prometheus_source import NAMES, is_close, prometheus_source, read_until, values_by_name
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.prometheus import Prometheus
from trimtab.config.trimtab.settings import BuiltinMetric
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.readings import Subject
from trimtab.core.model.resources import CPU
from trimtab.sources.interface import SourceError

pytestmark = pytest.mark.live


@pytest.fixture
def exporters() -> Iterator[Exporters]:
    with Exporters(NAMES) as serving:
        yield serving


@pytest.fixture
def prometheus(exporters: Exporters) -> Iterator[Prometheus]:
    with Prometheus(exporters.targets(), binaries=controlplane_or_skip()) as running:
        yield running


async def test_a_new_container_is_measured_by_its_fraction_of_the_window(
    exporters: Exporters, prometheus: Prometheus
) -> None:
    """One, two, four scrapes after its start its rate is that share of the window, and so is the part of it in its node's:
    with the rest by its estimate, which is right here, the node is expected to use what it uses from the first scrape on."""
    window, used = 12.0, 2000.0
    idle = "count_over_time(node_cpu_seconds_total{cpu='0',mode='idle'}[12s])"
    prometheus.wait_for(idle, lambda counts: 3 == len(counts) and min(counts.values()) >= window - 1)
    cluster = Cluster()
    cluster.load_store.apply_settings(LoadSettings(estimates=("requests",)))
    for name in NAMES:
        cluster.upsert_node(node(name, cpu="8", version=1))
    metrics = (BuiltinMetric.NODE_CPU, BuiltinMetric.POD_CPU)
    async with prometheus_source(prometheus, exporters, metrics=metrics, rate_window=window) as asked:
        exporters.run("node-1", "shop", "web", cpu=used / 1000, memory=GIB)
        started = time.time()
        cluster.upsert_pod(replace(pod("web", cpu="2", on="node-1", namespace="shop"), started=started))
        seen: list[tuple[float, float, float]] = []
        while time.time() < started + window + 4.0:
            await asyncio.sleep(0.5)
            with suppress(SourceError):
                scrape = await asked.read()
                cluster.ingest_samples(scrape.readings, time.time())
                expected = float(cluster.view.load.expected(CPU)[cluster.node_table.row["node-1"]])
                pods = [each for each in scrape.readings if each.subject is Subject.PODS and "shop/web" in each.names]
                seen += [(each.measured[0] - started, each.values[0], expected) for each in pods]
    # Of three scrapes: how far a rate reaches beyond its samples, and how late pages are read.
    slack = 3.0 / window * used
    ages = [age for age, _, _ in seen]
    assert min(ages) < 4.0 and max(ages) > window, ages
    assert [] == [each for each in seen if abs(each[1] - min(each[0] / window, 1.0) * used) > slack]
    assert [] == [each for each in seen if abs(each[2] - used) > slack]


async def test_a_restarted_container_is_never_counted_twice(exporters: Exporters, prometheus: Prometheus) -> None:
    """Its old series remains next to the new one: the maximum counts, which is at worst half of the true value."""
    exporters.run("node-1", "shop", "web", cpu=2.0, memory=GIB)
    metrics = (BuiltinMetric.POD_CPU, BuiltinMetric.POD_MEMORY)
    async with prometheus_source(prometheus, exporters, metrics=metrics, rate_window=10.0) as asked:
        whole = {"shop/web": 2000.0}
        await read_until(asked, lambda scrape: is_close(values_by_name(scrape, "cpu", Subject.PODS), whole))
        exporters.restart("node-1", "shop", "web")
        seen: list[float] = []
        end = time.monotonic() + 14.0
        while time.monotonic() < end:
            scrape = await asked.read()
            assert {"shop/web": GIB} == values_by_name(scrape, "memory", Subject.PODS)
            seen += values_by_name(scrape, "cpu", Subject.PODS).values()
            await asyncio.sleep(0.5)
        assert 800.0 < min(seen) < 1500.0 and max(seen) < 2100.0
        await read_until(asked, lambda scrape: is_close(values_by_name(scrape, "cpu", Subject.PODS), whole))
