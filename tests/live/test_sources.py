"""Sources on real exporters: correct values, failures and recovery (rows D1, D2, D4, D5, D7, D13, D14)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.kube import certificates
from tests.live.metering import exposition, machine
from tests.live.metering.exporters import Exporters
from tests.live.metering.machine import GIB
from tests.live.prometheus_source import NAMES, ages, is_close, prometheus_source, read_until, values_by_name
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.metrics_server import with_kubelet_metrics, with_usage
from tools.controlplane.objects import node, pod
from tools.controlplane.prometheus import Prometheus
from tools.controlplane.rig import Rig
from trimtab.config.trimtab.settings import (
    BasicAuth,
    BuiltinMetric,
    MetricsServerSettings,
    PrometheusSettings,
    QuerySettings,
    QueryUnit,
    Tls,
)
from trimtab.core.model.readings import Reading, Subject, Unit
from trimtab.sources.interface import HistoryRange, SourceError
from trimtab.sources.metrics_server import MetricsServerSource
from trimtab.sources.prometheus.source import PrometheusSource as Source
from trimtab.sources.prometheus.source import invalid_queries

pytestmark = pytest.mark.live

RULES = Path("deploy/prometheus-rules.yaml").read_text()

# The hash of "test" with bcrypt, which Prometheus wants and Python has not.
HASHED = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"


@pytest.fixture(scope="module")
def exporters() -> Iterator[Exporters]:
    with Exporters(NAMES) as serving:
        yield serving


@pytest.fixture(scope="module")
def prometheus(exporters: Exporters) -> Iterator[Prometheus]:
    with Prometheus(exporters.targets(), binaries=controlplane_or_skip()) as running:
        yield running


@pytest.fixture(autouse=True)
def healthy(exporters: Exporters) -> Iterator[None]:
    """Every test starts with healthy, idle machines."""
    for name in NAMES:
        exporters.heal(name)
        exporters.set(name, cpu=0.0, memory=0.0, io_waiting=0.0)
        exporters.end(name, "shop", "web")
    yield


async def test_default_queries_return_the_load_that_was_set(exporters: Exporters, prometheus: Prometheus) -> None:
    """CPU, memory, pods, pressure and available memory, in their units, each sample a few seconds old."""
    exporters.set("node-1", cpu=0.5, memory=0.25, io_waiting=0.3)
    exporters.run("node-1", "shop", "web", cpu=1.5, memory=3 * GIB)
    exporters.run("node-1", "shop", "web", cpu=0.5, memory=GIB, container="side")
    async with prometheus_source(prometheus, exporters, metrics=tuple(BuiltinMetric)) as asked:
        idle = {"node-0": 0.0, "node-2": 0.0}
        scrape = await read_until(
            asked,
            lambda scrape: (
                is_close(values_by_name(scrape, "cpu"), {**idle, "node-1": 0.75})
                and is_close(values_by_name(scrape, "cpu", Subject.PODS), {"shop/web": 2000.0})
            ),
        )
        assert is_close(values_by_name(scrape, "memory"), {**idle, "node-1": 8.0 * GIB})
        assert is_close(values_by_name(scrape, "memory", Subject.PODS), {"shop/web": 4.0 * GIB})
        assert is_close(
            values_by_name(scrape, "memory.available"),
            {"node-0": 16.0 * GIB, "node-1": 8.0 * GIB, "node-2": 16.0 * GIB},
        )
        assert (Unit.FRACTION, 5.0) == next(
            (each.unit, each.window) for each in scrape.readings if each.resource == "cpu"
        )
        assert () == scrape.failures and max(ages(scrape, "cpu").values()) < 5.0


async def test_d7_nodes_are_matched_whatever_targets_are_called(exporters: Exporters) -> None:
    """By name, by name and port, by a label with a foreign instance; foreign series do not count."""
    exporters.set("node-2", memory=0.5)
    wanted = {"node-0": 0.0, "node-1": 0.0, "node-2": 8.0 * GIB}
    cases = {
        "port": ("{name}:9100", {}),
        "name": ("{name}", {}),
        "other": ("10.99.0.1:443", {"node": "{name}"}),
        "label": ("", {"kubernetes_node": "{name}"}),
        "address": ("", {"node": "eu-west", "nodename": "{ip}"}),
    }
    targets = [
        target
        for case, (instance, labels) in cases.items()
        for target in exporters.targets(instance, {**labels, "case": case}, ["node"])
    ]
    with Prometheus(targets, binaries=controlplane_or_skip()) as running:
        for case in cases:
            only = (("case", case),)
            async with prometheus_source(
                running, exporters, metrics=(BuiltinMetric.NODE_MEMORY,), match_labels=only
            ) as asked:
                await read_until(asked, lambda scrape: wanted == values_by_name(scrape, "memory"))


async def test_d7_a_node_that_is_scraped_twice_is_dropped(exporters: Exporters) -> None:
    """Two series for one node are ambiguous; the other nodes are not affected."""
    targets = exporters.targets(pages=["node"])
    again = exporters.targets("elsewhere:9100", {"node": "{name}"}, ["node"], ["node-1"])
    with Prometheus([*targets, *again], binaries=controlplane_or_skip()) as running:
        running.wait_for("up", lambda up: 4 == len(up) and all(up.values()))
        async with prometheus_source(running, exporters, metrics=(BuiltinMetric.NODE_MEMORY,)) as asked:
            scrape = await asked.read()
            assert {"node-0", "node-2"} == values_by_name(scrape, "memory").keys()
            assert (("ambiguous", 2),) == scrape.readings[0].skipped


async def test_d13_counters_that_go_backwards_are_dropped(exporters: Exporters, prometheus: Prometheus) -> None:
    """A counter that falls, but not to its start, makes its node missing for the window, never idle or busy."""
    async with prometheus_source(prometheus, exporters, metrics=(BuiltinMetric.NODE_CPU,)) as asked:
        await read_until(asked, lambda scrape: 3 == len(values_by_name(scrape, "cpu")))
        exporters.override("node-1", "node_cpu_seconds_total", "1000000")
        await read_until(asked, lambda scrape: values_by_name(scrape, "cpu").keys() == {"node-0", "node-2"})


async def test_d2_exporters_that_stop_and_recover(exporters: Exporters) -> None:
    """One that stops is missing; if all have stopped the query fails; the poll after their return has them again."""
    with Prometheus(exporters.targets(pages=["node"]), binaries=controlplane_or_skip()) as running:
        async with prometheus_source(running, exporters) as asked:
            await read_until(asked, lambda scrape: len(values_by_name(scrape, "cpu")) == 3)
            exporters.fail("node-1")
            await read_until(asked, lambda scrape: values_by_name(scrape, "memory").keys() == {"node-0", "node-2"})
            for name in NAMES:
                exporters.blank(name)
            await read_until(asked, lambda scrape: not scrape.readings)
            with pytest.raises(SourceError, match=r"no series for cpu|have no timestamp of their own"):
                await asked.read()
            for name in NAMES:
                exporters.heal(name)
            await read_until(asked, lambda scrape: len(values_by_name(scrape, "memory")) == 3)


async def test_d4_a_frozen_series_is_as_old_as_its_sample(exporters: Exporters) -> None:
    """The same value with its old timestamp does not get younger by being scraped; a rate of it ends."""
    with Prometheus(exporters.targets(pages=["node"]), binaries=controlplane_or_skip()) as running:
        async with prometheus_source(running, exporters) as asked:
            await read_until(asked, lambda scrape: len(values_by_name(scrape, "cpu")) == 3)
            exporters.freeze("node-1")
            scrape = await read_until(asked, lambda scrape: ages(scrape, "memory").get("node-1", 0.0) > 6.0)
            assert max(ages(scrape, "memory")[name] for name in ("node-0", "node-2")) < 3.0
            await read_until(asked, lambda scrape: values_by_name(scrape, "cpu").keys() == {"node-0", "node-2"})


async def test_d5_invalid_values_of_an_exporter(exporters: Exporters) -> None:
    """NaN and infinity are dropped by reason; a negative number is passed on to validation."""
    with Prometheus(exporters.targets(pages=["node"]), binaries=controlplane_or_skip()) as running:
        for name, lie in zip(NAMES, ("NaN", "+Inf", "-3"), strict=True):
            exporters.override(name, "node_memory_MemTotal_bytes", lie)
        async with prometheus_source(running, exporters, metrics=(BuiltinMetric.NODE_MEMORY,)) as asked:
            left_out = (("infinite", 1), ("not a number", 1))
            scrape = await read_until(asked, lambda scrape: any(left_out == each.skipped for each in scrape.readings))
            assert ["node-2"] == [name for name, value in values_by_name(scrape, "memory").items() if value < 0]


async def test_d1_a_prometheus_that_hangs_or_crashes_fails_in_time_and_recovers(
    exporters: Exporters, prometheus: Prometheus
) -> None:
    """A hanging one costs the timeout, a crashed one fails at once; the first poll after either succeeds."""
    async with prometheus_source(prometheus, exporters, timeout=1.0) as asked:
        await read_until(asked, lambda scrape: [0.0] * 3 == [*values_by_name(scrape, "memory").values()])
        prometheus.pause()
        began = time.monotonic()
        with pytest.raises(SourceError, match="no response"):
            await asked.read()
        assert time.monotonic() - began < 5.0
        prometheus.resume()
        assert 3 == len(values_by_name(await asked.read(), "memory"))
        prometheus.kill()
        with pytest.raises(SourceError, match=r"no connection|closed the connection"):
            await asked.read()
        prometheus.start()
        assert 3 == len(values_by_name(await asked.read(), "memory"))


async def test_d13_neither_a_restart_nor_a_reset_is_a_spike(
    exporters: Exporters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Prometheus restarts and while counters restart from zero, every value is close to the true one."""
    for name in NAMES:
        exporters.set(name, cpu=0.4)
    with Prometheus(exporters.targets(pages=["node"]), binaries=controlplane_or_skip()) as running:
        async with prometheus_source(running, exporters, metrics=(BuiltinMetric.NODE_CPU,)) as asked:
            wanted = dict.fromkeys(NAMES, 0.4)
            await read_until(asked, lambda scrape: is_close(values_by_name(scrape, "cpu"), wanted))
            running.kill()
            running.start()
            await assert_no_spike(asked, 0.4, 6.0)
            running.scrape([])
            monkeypatch.setattr(machine, "UPTIME", 0.0)
            monkeypatch.setattr(exposition, "UPTIME", 0.0)
            with Exporters(NAMES) as rebooted:
                for name in NAMES:
                    rebooted.set(name, cpu=0.4)
                running.scrape(rebooted.targets(pages=["node"]))
                await assert_no_spike(asked, 0.4, 10.0)
                running.wait_for(
                    "sum by (instance) (resets(node_cpu_seconds_total[1m]))",
                    lambda resets: 3 == len(resets) and all(resets.values()),
                )


async def assert_no_spike(asked: Source, share: float, seconds: float) -> None:
    """All values in this time are close to the share, and at the end there is one."""
    seen: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(SourceError):
            seen += values_by_name(await asked.read(), "cpu").values()
        await asyncio.sleep(0.2)
    assert seen and all(abs(value - share) < 0.15 for value in seen), [
        value for value in seen if abs(value - share) >= 0.15
    ]
    await read_until(asked, lambda scrape: 3 == len(values_by_name(scrape, "cpu")))


async def test_the_shipped_rules_are_used_when_present(exporters: Exporters) -> None:
    """A real Prometheus records them, in percent, and they suffice on their own."""
    rules = yaml.safe_load(RULES)
    rules["groups"][0]["interval"] = "1s"
    exporters.set("node-1", cpu=0.6, memory=0.5)
    with Prometheus(exporters.targets(pages=["node"]), binaries=controlplane_or_skip(), rules=rules) as running:
        busy = {"node-0": 0.0, "node-1": 60.0, "node-2": 0.0}
        running.wait_for("node_cpu_usage_avg_5m", lambda values: 3 == len(values))
        async with prometheus_source(running, exporters) as asked:
            scrape = await read_until(
                asked, lambda scrape: is_close(values_by_name(scrape, "node_cpu_usage_avg_5m"), busy, 0.05)
            )
            assert is_close(
                values_by_name(scrape, "node_mem_usage_avg_5m"), {"node-0": 0.0, "node-1": 50.0, "node-2": 0.0}, 0.05
            )


async def test_history_is_read() -> None:
    """Range queries return the load of the last hour, oldest first."""
    with (
        Exporters(NAMES) as exporters,
        Prometheus(exporters.targets(pages=["node"]), binaries=controlplane_or_skip()) as running,
    ):
        async with prometheus_source(running, exporters) as asked:
            await read_until(asked, lambda scrape: len(values_by_name(scrape, "cpu")) == 3)
            exporters.backfill("node-2", [(ago, 0.8, 0.5) for ago in range(60, 3600, 30)])
            running.wait_for("max_over_time(node_memory_MemAvailable_bytes[30m] offset 10m)", bool)
            spans = [HistoryRange(Subject.NODES, 3000.0, 600.0, 300.0)]
            readings: list[Reading] = [each async for piece in asked.read_history(spans) for each in piece]
    moments = [reading.measured[0] for reading in readings]
    assert moments == sorted(moments) and 8 == len(set(moments))
    cpu = [reading.values[reading.names.index("node-2")] for reading in readings if reading.resource == "cpu"]
    memory = [reading.values[reading.names.index("node-2")] for reading in readings if reading.resource == "memory"]
    assert 8 == len(cpu) == len(memory)
    assert all(abs(value - 0.8) < 0.05 for value in cpu) and all(abs(value - 8.0 * GIB) < GIB for value in memory)


async def test_user_queries_and_their_errors(exporters: Exporters, prometheus: Prometheus) -> None:
    """Any PromQL with its unit; an error is reported in Prometheus' words."""
    good = QuerySettings("load1", "node_load1 # per node", unit=QueryUnit.NONE)
    percent = QuerySettings(
        "cpu",
        "100 * avg by (instance) (rate(node_cpu_seconds_total{mode!='idle'}[$window]) * 4)",
        unit=QueryUnit.PERCENT,
    )
    async with prometheus_source(prometheus, exporters, metrics=(), queries=(good, percent)) as asked:
        exporters.set("node-0", cpu=0.5)
        scrape = await read_until(
            asked,
            lambda scrape: is_close(values_by_name(scrape, "load1"), {"node-0": 4.0, "node-1": 0.0, "node-2": 0.0}),
        )
        assert "load1" == scrape.readings[0].resource
        await read_until(asked, lambda scrape: abs(values_by_name(scrape, "cpu").get("node-0", 0.0) - 0.5) < 0.2)
    for query, says in (
        ("rate(up)", "range vector"),
        ("sum(up) by", "parse error"),
        ("1", "instant vector"),
        ('"x"', "instant vector"),
    ):
        async with prometheus_source(prometheus, exporters, metrics=(), queries=(QuerySettings("x", query),)) as broken:
            with pytest.raises(SourceError, match=says):
                await broken.read()
    queries = QuerySettings("good", "up"), QuerySettings("bad", "rate(up)"), QuerySettings("number", "1")
    invalid = await invalid_queries(PrometheusSettings("prom", prometheus.url, queries=queries))
    assert ["bad", "number"] == [query.name for query, _ in invalid] and "range vector" in invalid[0][1].problem


async def test_s18_label_values_cannot_inject_promql(exporters: Exporters, prometheus: Prometheus) -> None:
    """Prometheus reads every hostile value as a string that no series has: nothing matches, and nothing breaks."""
    for value in ('"} or vector(1) #', "\\", "a\nb", "$", "x" * 5000, "\u202e", "`'\"", "a\\", "\0"):
        only = (("cluster", value),)
        async with prometheus_source(prometheus, exporters, metrics=tuple(BuiltinMetric), match_labels=only) as asked:
            with pytest.raises(SourceError, match="no series for"):
                await asked.read()


async def test_tls_certificates_and_a_password_on_a_real_prometheus(tmp_path: Path) -> None:
    """With CA, certificate and password it works; without one of them the error says what is missing."""
    leaf = certificates.authority().issue_cert("127.0.0.1")
    pair = certificates.client()
    files = {
        "ca": certificates.authority_pem(),
        "crt": leaf.cert_chain_pems[0].bytes(),
        "key": leaf.private_key_pem.bytes(),
        "mine": pair.certificate,
        "minekey": pair.key,
        "password": b"test\n",
        "wrong": b"guess\n",
    }
    paths = {name: str(tmp_path / name) for name in files}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    web = {
        "tls_server_config": {
            "cert_file": paths["crt"],
            "key_file": paths["key"],
            "client_ca_file": paths["ca"],
            "client_auth_type": "RequireAndVerifyClientCert",
        },
        "basic_auth_users": {"scheduler": HASHED},
    }
    query = (QuerySettings("x", "label_replace(vector(7), 'node', 'node-0', '', '')"),)
    whole = Tls(paths["ca"], paths["mine"], paths["minekey"])
    with Prometheus(binaries=controlplane_or_skip(), web=web) as running:

        async def look(tls: Tls, password: str) -> dict[str, float]:
            auth = BasicAuth("scheduler", paths[password])
            async with prometheus_source(running, metrics=(), queries=query, tls=tls, basic_auth=auth) as asked:
                return values_by_name(await asked.read(), "x")

        assert {"node-0": 7.0} == await look(whole, "password")
        with pytest.raises(SourceError, match="basicAuth"):
            await look(whole, "wrong")
        with pytest.raises(SourceError, match="not trusted"):
            await look(Tls("", paths["mine"], paths["minekey"]), "password")
        with pytest.raises(SourceError):
            await look(Tls(paths["ca"]), "password")


async def test_d14_metrics_server_and_its_absence() -> None:
    """404 before it is installed, the usage of nodes and pods while it runs, and 503 with the remedy once it has stopped."""
    with Rig(controlplane_or_skip(), kwok=True, metered=True) as rig:

        async def get(path: str) -> tuple[int, bytes]:
            return await asyncio.to_thread(rig.admin.raw, "GET", path)

        asked = MetricsServerSource(MetricsServerSettings("ms"), get)
        with pytest.raises(SourceError, match="install metrics-server"):
            await asked.read()
        rig.admin.create(with_kubelet_metrics(node("node-0"), rig.kwok.url, "10.64.0.1"))
        rig.admin.create(with_usage(pod("web", nodeName="node-0"), cpu="2", memory="1Gi"))
        process = rig.start_metrics_server()
        scrape = await read_until(asked, lambda scrape: bool(values_by_name(scrape, "cpu", Subject.PODS)), 60.0)
        assert is_close(values_by_name(scrape, "cpu"), {"node-0": 2000.0}) and values_by_name(scrape, "memory") == {
            "node-0": 1.0 * GIB
        }
        assert is_close(values_by_name(scrape, "cpu", Subject.PODS), {"default/web": 2000.0})
        assert max(ages(scrape, "cpu").values()) < 60.0 and scrape.readings[0].window > 0
        process.kill()
        await read_until(asked, lambda scrape: not scrape.readings)
        with pytest.raises(SourceError, match="describe apiservice"):
            await asked.read()
