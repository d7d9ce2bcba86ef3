"""Simulated machines report the load that was set, and fail as requested; no Prometheus needed."""

import math

import pytest

from tests.live.metering.exporters import Exporters
from tests.live.metering.machine import GIB, Load, Machine, Usage


def samples(exporters: Exporters, path: str) -> dict[str, list[str]]:
    """The value and the optional timestamp of each series of a page."""
    status, text = exporters.page(path)
    assert 200 == status
    return {series: rest.split() for series, _, rest in (line.rpartition("} ") for line in text.splitlines())}


def test_counters_are_the_integral_of_the_load() -> None:
    """Ten seconds at a quarter of eight cores, then five with a pod of two more: 20 + 20 core-seconds."""
    machine = Machine("node", started=100.0, cores=8, load=Load(cpu=0.25))
    start = machine.reading(100.0).busy
    assert 20.0 == machine.reading(110.0).busy - start
    machine.pods["default", "web", "main"] = Usage(2.0, GIB)
    after = machine.reading(115.0)
    assert (40.0, GIB) == (after.busy - start, after.memory)
    assert ((("default", "web", "main"), 10.0, GIB),) == after.pods


@pytest.mark.parametrize(("load", "expected"), [(1.5, 80.0), (-0.5, -40.0), (math.nan, math.nan)])
def test_cpu_usage_is_limited_by_the_cores(load: float, expected: float) -> None:
    """NaN is passed on unchanged."""
    machine = Machine("node", started=0.0, cores=8, load=Load(cpu=load))
    start = machine.reading(0.0).busy
    assert expected == pytest.approx(machine.reading(10.0).busy - start, nan_ok=True)


def test_backfilled_readings_lead_up_to_the_present() -> None:
    """Oldest first, and each load lasts until the next one."""
    machine = Machine("node", started=1000.0, cores=2, memory=100.0)
    now = machine.reading(1000.0).busy
    past = machine.past_readings([(20.0, 1.0, 0.5), (10.0, 0.5, 0.25)])
    assert [(980.0, now - 30.0, 50.0), (990.0, now - 10.0, 25.0)] == [(r.at, r.busy, r.memory) for r in past]


def test_cadvisor_reports_containers_and_pods_with_timestamps() -> None:
    """Like the real one: each container, the sum of its pod, and the root cgroup."""
    exporters = Exporters(["node-0"])
    exporters.run("node-0", "default", "web", cpu=1.0, memory=5.0)
    exporters.run("node-0", "default", "web", cpu=1.0, memory=7.0, container="side")
    page = samples(exporters, "/node-0/cadvisor")
    memory = {key: words[0] for key, words in page.items() if key.startswith("container_memory_working_set_bytes")}
    assert ["12.0", "12.0", "5.0", "7.0"] == sorted(memory.values())
    assert all(len(words) == 2 for words in page.values())
    exporters.end("node-0", "default", "web")
    assert not any('pod="web"' in key for key in samples(exporters, "/node-0/cadvisor"))


def test_overrides_replace_every_value_or_omit_the_metric() -> None:
    """An empty override omits the metric; heal ends both."""
    exporters = Exporters(["node-0"])
    exporters.override("node-0", "node_memory_MemTotal_bytes", "NaN")
    exporters.override("node-0", "node_load1", "")
    page = samples(exporters, "/node-0/node")
    assert ["NaN"] == page["node_memory_MemTotal_bytes{"]
    assert "node_load1{" not in page
    exporters.heal("node-0")
    page = samples(exporters, "/node-0/node")
    assert [repr(16.0 * GIB)] == page["node_memory_MemTotal_bytes{"]
    assert "node_load1{" in page


def test_faulty_pages() -> None:
    """Frozen pages repeat with timestamps, failing ones are 503, blank ones have no samples."""
    exporters = Exporters(["cold", "down", "blank"])
    exporters.freeze("cold")
    exporters.fail("down")
    exporters.blank("blank")
    first = exporters.page("/cold/node")
    exporters.set("cold", memory=0.5)
    assert first == exporters.page("/cold/node")
    assert all(len(words) == 2 for words in samples(exporters, "/cold/node").values())
    assert [503, (200, ""), 404] == [
        exporters.page("/down/node")[0],
        exporters.page("/blank/node"),
        exporters.page("/x/node")[0],
    ]


def test_labels_of_targets() -> None:
    """By name, by IP or by address, with any extra label."""
    with Exporters(["node-0"]) as exporters:
        (named,) = exporters.targets("{name}:9100", {"node": "{name}"}, pages=["node"])
        assert ({"instance": "node-0:9100", "node": "node-0"}, "/node-0/node") == (named.labels, named.path)
        assert {"instance": "10.64.0.1:9100"} == exporters.targets()[0].labels
        assert {} == exporters.targets(instance="")[0].labels
