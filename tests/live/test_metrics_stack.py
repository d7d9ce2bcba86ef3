"""Prometheus and metrics-server of live tests are real: they report the load that a test sets."""

import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.live import trimtab_process
from tests.live.metering.exporters import Exporters
from tests.live.metering.machine import GIB
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.node_accounting import parse_quantity
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.credentials import Credentials
from tools.controlplane.metrics_server import ROOT, usage_annotations, with_usage
from tools.controlplane.objects import pod
from tools.controlplane.prometheus import Prometheus, web_config

pytestmark = pytest.mark.live

BUSY = '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5s]))'
MEMORY = "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
POD_CPU = 'sum by (pod) (rate(container_cpu_usage_seconds_total{container!=""}[5s]))'
PASSWORD = "open sesame"
PASSWORD_HASH = "$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy"  # bcrypt's, of the password
RULES = {"groups": [{"name": "node", "rules": [{"record": "node:memory:used", "expr": MEMORY}]}]}


@pytest.fixture(scope="module")
def exporters() -> Iterator[Exporters]:
    with Exporters(["node-0", "node-1", "node-2"]) as serving:
        yield serving


@pytest.fixture(scope="module")
def prometheus(exporters: Exporters) -> Iterator[Prometheus]:
    with Prometheus(exporters.targets("{name}:9100"), binaries=controlplane_or_skip(), rules=RULES) as running:
        yield running


def near(expected: float, found: float | None, slack: float = 0.05) -> bool:
    return found is not None and abs(found - expected) <= slack


def test_prometheus_reports_the_load_that_was_set(exporters: Exporters, prometheus: Prometheus) -> None:
    """CPU, memory, waiting and a pod's CPU, also after a change and by a recording rule."""
    exporters.set("node-1", cpu=0.5, memory=0.25, cpu_waiting=0.3)
    exporters.run("node-1", "default", "web", cpu=2.0, memory=4 * GIB)
    prometheus.wait_for(BUSY, lambda found: near(0.75, found.get("node-1:9100")))
    prometheus.wait_for(MEMORY, lambda found: near(0.5, found.get("node-1:9100")))
    prometheus.wait_for("node:memory:used", lambda found: near(0.5, found.get("node-1:9100")))
    prometheus.wait_for(
        "rate(node_pressure_cpu_waiting_seconds_total[5s])", lambda found: near(0.3, found["node-1:9100"])
    )
    prometheus.wait_for(POD_CPU, lambda found: near(2.0, found.get("web")), "pod")
    prometheus.wait_for(BUSY, lambda found: near(0.0, found["node-0:9100"]))
    exporters.end("node-1", "default", "web")
    exporters.set("node-1", cpu=0.3)
    prometheus.wait_for(BUSY, lambda found: near(0.3, found["node-1:9100"]))


def test_faulty_exporters_are_scraped_as_they_are(exporters: Exporters, prometheus: Prometheus) -> None:
    """NaN and -3 arrive unchanged, a frozen page keeps its age, a failing one is down, and all recover."""
    exporters.override("node-0", "node_memory_MemTotal_bytes", "NaN")
    exporters.override("node-0", "node_memory_MemFree_bytes", "-3")
    exporters.freeze("node-1")
    exporters.fail("node-2")
    prometheus.wait_for("node_memory_MemFree_bytes", lambda found: found.get("node-0:9100") == -3)
    prometheus.wait_for(
        "node_memory_MemTotal_bytes != node_memory_MemTotal_bytes", lambda found: "node-0:9100" in found
    )
    prometheus.wait_for("time() - timestamp(node_memory_MemTotal_bytes)", lambda found: found.get("node-1:9100", 0) > 3)
    prometheus.wait_for("up{job='node-exporter'}", lambda up: [1, 1, 0] == [up[f"node-{n}:9100"] for n in range(3)])
    for name in exporters.names:
        exporters.heal(name)
    prometheus.wait_for("up{job='node-exporter'}", lambda up: [1, 1, 1] == sorted(up.values()))
    prometheus.wait_for("time() - timestamp(node_memory_MemTotal_bytes)", lambda ages: max(ages.values()) < 3)


def test_history_can_be_backfilled(exporters: Exporters, prometheus: Prometheus) -> None:
    """One scrape with the load of the last hour answers queries about that hour."""
    exporters.backfill("node-2", [(ago, 0.8, 0.6) for ago in range(60, 3600, 60)])
    hour = BUSY.replace("[5s]", "[50m] offset 5m")
    prometheus.wait_for(hour, lambda found: near(0.8, found.get("node-2:9100")))
    assert near(0.6, prometheus.values(f"avg_over_time(({MEMORY})[30m:1m] offset 10m)")["node-2:9100"])


def test_prometheus_hangs_crashes_and_recovers(exporters: Exporters, prometheus: Prometheus) -> None:
    """Paused, it responds after it continues; killed, it refuses; restarted, it has its port and data."""
    prometheus.wait_for("up", lambda up: len(up) == 3)
    before, url = time.time(), prometheus.url
    prometheus.pause()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(prometheus.query, "vector(1)")
        with pytest.raises(TimeoutError):
            asked.result(timeout=0.5)
        prometheus.resume()
        assert asked.result(timeout=30)
    prometheus.kill()
    with pytest.raises(OSError, match="refused"):
        prometheus.query("up")
    prometheus.start()
    assert url == prometheus.url
    assert prometheus.query("up", at=before)
    prometheus.scrape(exporters.targets("{name}", {"node": "{name}"}, ["node"], ["node-0"]))
    prometheus.wait_for("up{node='node-0'}", lambda up: {"node-0": 1.0} == up)


def test_prometheus_with_tls_and_a_password(tmp_path: Path) -> None:
    """With a web configuration it uses TLS and requires the password."""
    credentials = Credentials(tmp_path)
    web = web_config(credentials, {"reader": PASSWORD_HASH})
    with Prometheus(binaries=controlplane_or_skip(), web=web) as guarded:
        page = Request(f"{guarded.url}/-/ready")
        with pytest.raises(HTTPError, match="401"):
            urlopen(page, context=credentials.tls())
        page.add_header("Authorization", "Basic " + b64encode(b"reader:" + PASSWORD.encode()).decode())
        with urlopen(page, context=credentials.tls()) as answer:
            assert 200 == answer.status


def test_metrics_server_reports_the_usage_of_kwoks_pods_and_nodes() -> None:
    """Behind the API server, with the usage set on pods, also after a change."""
    with MeteredCluster(controlplane_or_skip(), nodes=30, metrics_server=True) as scene:
        rig = scene.rig
        rig.admin.create(with_usage(pod("web", nodeName="node-3"), cpu="2", memory="1Gi"))
        rig.admin.create(with_usage(pod("db", nodeName="node-3"), cpu="500m", memory="2Gi"))
        trimtab_process.wait_for(lambda: running(trimtab_process.pods(rig)), 20, "running", rig.kwok)
        meter = scene.start_metrics_server()
        scene.prometheus.wait_for("up{job='node-exporter'}", lambda up: 30 == sum(up.values()))
        trimtab_process.wait_for(lambda: rig.admin.list(f"{ROOT}/pods"), 40, "the first figures", meter)
        assert {"node-3": (2.5, 3 * GIB)} == node_usage(rig.admin.list(f"{ROOT}/nodes"))
        assert {"web": (2.0, GIB), "db": (0.5, 2 * GIB)} == pod_usage(rig.admin.list(f"{ROOT}/pods"))
        rig.admin.patch(
            "/api/v1/namespaces/default/pods/db", {"metadata": {"annotations": usage_annotations("1", "4Gi")}}
        )
        trimtab_process.wait_for(
            lambda: 5 * GIB == node_usage(rig.admin.list(f"{ROOT}/nodes"))["node-3"][1], 25, "the change", meter
        )


def running(pods: list[Document]) -> bool:
    return all(each["status"].get("phase") == "Running" for each in pods)


def pod_usage(items: list[Document]) -> dict[str, tuple[float, int]]:
    return {each["metadata"]["name"]: amounts(each["containers"][0]["usage"]) for each in items}


def node_usage(items: list[Document]) -> dict[str, tuple[float, int]]:
    return {each["metadata"]["name"]: amounts(each["usage"]) for each in items}


def amounts(usage: Document) -> tuple[float, int]:
    """Cores to a tenth, and bytes."""
    return round(float(parse_quantity(usage["cpu"])), 1), int(parse_quantity(usage["memory"]))
