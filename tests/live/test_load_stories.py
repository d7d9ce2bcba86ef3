"""Scheduling by measured load on a real API server, with a real Prometheus and a real metrics-server.

One control plane, thirty workers whose load the test sets, pods that use half of what they request.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.config.trimtab.test_plugin_sources import S2, URL
from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.load_scenario import IDLE_LOAD, WORKERS
from tests.live.metering.machine import GIB
from tests.live.metering.metered_cluster import GIBS, MeteredCluster
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_metrics_stack import PASSWORD, PASSWORD_HASH
from tests.live.test_twelve_pods import TWELVE
from tools.controlplane.client import Document
from tools.controlplane.metrics_server import with_usage
from tools.controlplane.objects import pod
from tools.controlplane.process import Process
from tools.controlplane.prometheus import Prometheus, web_config

pytestmark = pytest.mark.live

HOT = "node-2"
IDLE = IDLE_LOAD - 0.02
STRESS = 6 / GIBS  # the six gibibytes of S2's stress program
LOWEST = stage.profile("LowestLoad", reserve={"enabled": [{"name": "LowestLoad"}]})
METERS = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
TOKEN = "canary-bearer-0123456789"


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Each worker has a pod of another namespace; only metrics-server reports that one of them uses much."""
    with stage.measured_cluster(metrics_server=True) as running:
        running.rig.ensure_namespace("lodging")
        running.rig.admin.create_many(
            with_usage(pod(name, "lodging", nodeName=name), cpu="1", memory="12Gi" if name == HOT else "1Gi")
            for name in WORKERS
        )
        running.start_metrics_server()
        yield running


@pytest.fixture(autouse=True)
def at_rest(cluster: MeteredCluster) -> Iterator[None]:
    """Idle machines and no pods, before and after each test."""
    yield
    stage.delete_pods(cluster)
    stage.reset_load(cluster)


def deployment(name: str, scheduler: str, replicas: int) -> Document:
    """The Deployment of S2."""
    requests = {"cpu": "50m", "memory": "100Mi"}
    container = {"name": "nginx", "image": "nginx", "resources": {"requests": requests}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    labels = {"app": "nginx"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def restarted(cluster: MeteredCluster, name: str) -> None:
    cluster.rig.kubectl("rollout", "restart", f"deployment/{name}")
    cluster.rig.kubectl("rollout", "status", f"deployment/{name}", "--timeout=40s")


def test_real_usage_schedulers_file_and_deployment(cluster: MeteredCluster) -> None:
    """With its own file and Deployment: the node that uses the least memory gets pods; when that is driven up the restarted
    pods avoid it, although its requests are low; and when it has fallen they come back."""
    file = cluster.rig.workspace / "MemRealUsage-scheduler-conf.yaml"
    file.write_text(S2.replace(URL, cluster.prometheus.url))
    name = "nginx-mem-scheduler"
    cluster.exporters.set(HOT, memory=IDLE)
    with stage.ready_process(trimtab_process.launch(cluster.rig, file)) as trimtab:
        trimtab_process.wait_for(lambda: stage.knows_memory(trimtab, HOT, IDLE), 20, "the first look", trimtab)
        cluster.rig.admin.create(deployment(name, "mem-real-usage-scheduler", 30))
        assert 1 < stage.placed(cluster, name, 30, trimtab)[HOT]
        cluster.exporters.set(HOT, memory=IDLE + STRESS)
        trimtab_process.wait_for(lambda: stage.knows_memory(trimtab, HOT, IDLE + STRESS), 20, "the stress", trimtab)
        assert (
            stage.resource_use(trimtab, HOT)["requested"]
            < 3 * GIB
            < 6 * GIB
            < stage.resource_use(trimtab, HOT)["latest"]
        )
        restarted(cluster, name)
        assert 0 == stage.placed(cluster, name, 30, trimtab)[HOT]
        cluster.exporters.set(HOT, memory=IDLE)
        trimtab_process.wait_for(lambda: stage.knows_memory(trimtab, HOT, IDLE), 20, "calm again", trimtab)
        restarted(cluster, name)
        assert 1 < stage.placed(cluster, name, 30, trimtab)[HOT]


def test_the_default_template_avoids_a_node_before_its_threshold(cluster: MeteredCluster) -> None:
    """Just below the filter's threshold PeakRisk avoids the node; afterwards it gets pods again."""
    documents = [*yaml.safe_load_all(trimtab_process.trimtab("config", "template", "default"))]
    documents[1]["sources"] = stage.prometheus_config(cluster)["sources"]
    file = cluster.rig.workspace / "default.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    with stage.ready_process(trimtab_process.launch(cluster.rig, file)) as trimtab:
        trimtab_process.wait_for(lambda: stage.knows_memory(trimtab, HOT, IDLE_LOAD), 20, "the first look", trimtab)
        cluster.rig.admin.create(deployment("web", trimtab_process.SCHEDULER, 30))
        assert 0 < stage.placed(cluster, "web", 30, trimtab)[HOT]
        cluster.exporters.set(HOT, memory=0.78)
        trimtab_process.wait_for(lambda: peak_risk(trimtab, cluster) < 780, 40, "the risk", trimtab)
        restarted(cluster, "web")
        assert 0 == stage.placed(cluster, "web", 30, trimtab)[HOT]
        cluster.exporters.set(HOT, memory=IDLE_LOAD)
        trimtab_process.wait_for(lambda: peak_risk(trimtab, cluster) > 900, 40, "no risk", trimtab)
        restarted(cluster, "web")
        assert 0 < stage.placed(cluster, "web", 30, trimtab)[HOT]


def peak_risk(trimtab: Process, cluster: MeteredCluster) -> float:
    """The weighted score of PeakRisk for the hot node."""
    some = trimtab_process.pods(cluster.rig)[0]["metadata"]["name"]
    lines = stage.get_explain(trimtab, f"pod/default/{some}?node={HOT}")["lines"]
    line = next(each for each in lines if each["node"] == HOT)
    return float(line["scores"]["PeakRisk"])


def test_twelve_pods_go_to_the_least_used_workers(cluster: MeteredCluster) -> None:
    """S0's pods under LowestLoad: each to a different one of the twelve least used workers, none to the control plane."""
    busy = WORKERS[12:]
    for name in busy:
        cluster.exporters.set(name, cpu=0.6, memory=0.6)
    cluster.exporters.set("node-0", cpu=0.0, memory=0.0)
    own = stage.prometheus_config(cluster, metrics={"nodeUsage": True})
    with stage.ready_process(trimtab_process.start(cluster.rig, own=own, profiles=[LOWEST])) as trimtab:
        seen = {"node-0": 0, **dict.fromkeys(WORKERS[:12], 20), **dict.fromkeys(busy, 60)}
        trimtab_process.wait_for(lambda: near(usage(trimtab, "cpu"), seen), 30, "the load of CPU", trimtab)
        trimtab_process.wait_for(lambda: near(usage(trimtab, "memory"), seen), 30, "the load of memory", trimtab)
        cluster.rig.admin.create_many(twelve())
        assert Counter(WORKERS[:12]) == stage.placed(cluster, "pod-", 12, trimtab)


def usage(trimtab: Process, resource: str) -> dict[str, float]:
    """Percent by node, from the process' metrics."""
    lines = trimtab_process.page(trimtab, "/metrics")[1].splitlines()
    found = [line for line in lines if line.startswith(f"node_{resource}_usage_percent{{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in found}


def near(found: dict[str, float], wanted: dict[str, int]) -> bool:
    """With a tolerance, because rates over a few seconds are a few percent off on a busy machine."""
    return found.keys() == wanted.keys() and all(abs(found[name] - wanted[name]) < 10 for name in wanted)


def twelve() -> list[Document]:
    return [
        pod(name, cpu=f"{cpu}m", memory=f"{mib}Mi", scheduler=trimtab_process.SCHEDULER) for name, cpu, mib in TWELVE
    ]


def test_without_any_metrics_workers_are_used_round_robin(cluster: MeteredCluster) -> None:
    """S0's pods and more: no worker gets a second pod while another has none, whatever they request."""
    with stage.ready_process(trimtab_process.start(cluster.rig, profiles=[LOWEST])) as trimtab:
        cluster.rig.admin.create_many(twelve())
        assert {1} == {*stage.placed(cluster, "pod-", 12, trimtab).values()}
        stage.burst(cluster, "pod-more", 33)
        placed = stage.placed(cluster, "pod-", 45, trimtab)
        assert ({*WORKERS}, {1, 2}) == ({*placed}, {*placed.values()})
        why = stage.get_explain(trimtab, "pod/default/pod-1")["verdict"]
        assert "no node has trusted metrics: nodes take turns" in why


def test_metrics_server_and_its_outage(cluster: MeteredCluster) -> None:
    """A hot node is avoided; once metrics.k8s.io returns 503 for so long that samples are stale, requests decide."""
    own = {
        "sources": [{"name": "ms", "metricsServer": {"interval": "1s", "timeout": "1s"}}],
        "load": {"freshFor": "20s", "staleAfter": "25s"},
    }
    profiles = [stage.profile("MemRealUsage")]
    with stage.ready_process(trimtab_process.start(cluster.rig, own=own, profiles=profiles)) as trimtab:
        trimtab_process.wait_for(lambda: stage.knows_memory(trimtab, HOT, 12 / GIBS), 50, "the figures", trimtab)
        trimtab_process.wait_for(lambda: all(knows(trimtab, name) for name in WORKERS), 20, "all figures", trimtab)
        stage.burst(cluster, "warm", 30)
        assert 0 == stage.placed(cluster, "warm", 30, trimtab)[HOT]
        port = cluster.rig.admin.get(METERS)["spec"]["service"]["port"]
        cluster.rig.admin.patch(METERS, {"spec": {"service": {"port": 1}}})
        trimtab_process.wait_for(
            lambda: 0 == stage.resource_use(trimtab, HOT)["trust"], 60, "nothing believed", trimtab
        )
        assert "metrics.k8s.io is not available" in trimtab.log_tail()
        stage.burst(cluster, "blind", 30)
        assert 0 < stage.placed(cluster, "blind", 30, trimtab)[HOT]
        cluster.rig.admin.patch(METERS, {"spec": {"service": {"port": port}}})
        trimtab_process.wait_for(lambda: knows(trimtab, HOT), 40, "believed again", trimtab)
        stage.burst(cluster, "again", 30)
        assert 0 == stage.placed(cluster, "again", 30, trimtab)[HOT]


def knows(trimtab: Process, node: str) -> bool:
    return bool(1 == stage.resource_use(trimtab, node)["trust"])


def test_a_changed_file_is_applied_without_a_restart(cluster: MeteredCluster) -> None:
    """A lower threshold excludes a node, an invalid file changes nothing and is reported, a higher one admits the pod."""
    cluster.exporters.set(HOT, memory=0.6)
    there = {"kubernetes.io/hostname": HOT}
    with stage.ready_process(trimtab_process.launch(cluster.rig, limited(cluster, 80))) as trimtab:
        trimtab_process.wait_for(lambda: stage.knows_memory(trimtab, HOT, 0.6), 20, "the load", trimtab)
        stage.burst(cluster, "first", 1, nodeSelector=there)
        stage.placed(cluster, "first", 1, trimtab)
        limited(cluster, 50)
        taken = 'trimtab_config_reloads_total{outcome="taken"}'
        trimtab_process.wait_for(lambda: 1 == stage.metric_value(trimtab, taken), 20, "the new file", trimtab)
        stage.burst(cluster, "second", 1, nodeSelector=there)
        words = "node(s) used more than 50% of their memory"
        trimtab_process.wait_for(lambda: words in cluster.rig.kubectl("get", "events"), 20, "the refusal", trimtab)
        limited(cluster, 500)
        holds = "trimtab_config_last_reload_successful"
        trimtab_process.wait_for(lambda: 0 == stage.metric_value(trimtab, holds), 20, "the bad file", trimtab)
        said = trimtab.log_tail()
        assert "the last valid one stays in force" in said and "memoryThreshold: 500 is not above 0" in said
        assert "waits" in stage.get_explain(trimtab, "pod/default/second-0")["state"]
        limited(cluster, 70)
        stage.placed(cluster, "second", 1, trimtab)
        assert (2, 1) == (stage.metric_value(trimtab, taken), stage.metric_value(trimtab, holds))


def limited(cluster: MeteredCluster, threshold: float) -> Path:
    """A file with this threshold for memory."""
    limit = [{"name": "Rescheduler", "args": {"memoryThreshold": threshold}}]
    profile = stage.profile("MemRealUsage", filter={"enabled": [{"name": "Rescheduler"}]})
    own = stage.prometheus_config(cluster)
    return trimtab_process.write_config(cluster.rig, "limited", own, profiles=[{**profile, "pluginConfig": limit}])


def test_the_running_process_explains_and_leaks_no_secret(cluster: MeteredCluster) -> None:
    """One JSON line a decision, tables by command, and neither a password that is right nor a token that is wrong
    anywhere in what is said."""
    cluster.exporters.set(HOT, memory=0.7)
    web = web_config(cluster.rig.credentials, {"reader": PASSWORD_HASH})
    with Prometheus(cluster.exporters.targets(), binaries=controlplane_or_skip(), web=web) as guarded:
        own = stage.prometheus_config(cluster, sources=secret_sources(cluster, guarded.url))
        file = trimtab_process.write_config(cluster.rig, "secret", own, profiles=[stage.profile("MemRealUsage")])
        with stage.ready_process(trimtab_process.launch(cluster.rig, file, "secret")) as trimtab:
            trimtab_process.wait_for(lambda: stage.knows_memory(trimtab, HOT, 0.7), 30, "the load", trimtab)
            trimtab_process.wait_for(
                lambda: "query=wrong/nodeCPU" in trimtab.log.read_text(), 20, "the refusal", trimtab
            )
            stage.burst(cluster, "web", 5)
            stage.placed(cluster, "web", 5, trimtab)
            stage.burst(cluster, "giant", 1, cpu="64")
            trimtab_process.wait_for(
                lambda: "unable to schedule" in trimtab.log_tail(), 20, "the giant's line", trimtab
            )
            explained = explanations(trimtab)
            pages = [trimtab_process.page(trimtab, path)[1] for path in ("/metrics", "/explain/pod/default/web-0")]
            events = cluster.rig.kubectl("get", "events", "-o", "yaml")
        log, shown = trimtab.log.read_text(), trimtab_process.trimtab("config", "show", str(file))
    decided = Counter(line["pod"] for line in map(json.loads, log.splitlines()) if "attempt" in line)
    assert dict.fromkeys([*(f"default/web-{number}" for number in range(5)), "default/giant-0"], 1) == decided
    for canary in (PASSWORD, b64encode(f"reader:{PASSWORD}".encode()).decode(), TOKEN):
        assert [] == [text for text in (log, shown, events, *explained, *pages) if canary in text]


def secret_sources(cluster: MeteredCluster, url: str) -> list[Document]:
    """One with valid credentials, and one with an invalid token."""
    password, token = cluster.rig.workspace / "password", cluster.rig.workspace / "token"
    password.write_text(PASSWORD)
    token.write_text(TOKEN)
    asked = {"url": url, "tls": {"caFile": str(cluster.rig.credentials.ca_file)}, **stage.QUICK}
    login = {"username": "reader", "passwordFile": str(password)}
    return [
        {"name": "right", "prometheus": {**asked, "basicAuth": login}},
        {"name": "wrong", "prometheus": {**asked, "bearerTokenFile": str(token)}},
    ]


def explanations(trimtab: Process) -> list[str]:
    """The output of `trimtab explain`, which must contain its subject."""
    where = ("--address", trimtab.url.removeprefix("http://"))
    placed = trimtab_process.trimtab("explain", "pod/web-0", "--node", HOT, *where)
    node = trimtab_process.trimtab("explain", f"node/{HOT}", *where)
    giant = trimtab_process.trimtab("explain", "pod/giant-0", *where)
    assert "pod default/web-0 is bound to" in placed and "best of 30 of 31 nodes" in placed
    assert any(line.split()[:1] == [HOT] for line in placed.splitlines())
    assert "11.2" in node and "measured (fresh)" in node and "pending pod default/giant-0: NodeResourcesFit" in node
    assert "not node-0: TaintToleration" in giant and "NodeResourcesFit: Insufficient cpu" in giant
    return [placed, node, giant]
