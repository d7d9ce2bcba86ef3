"""Moves while nodes, kubelets or the scheduler die, on a real control plane: nobody is moved who would not be placed again.

The verdict on evictions is the audit log's (`eviction_checker.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.eviction_checker import EvictionReport, check_evictions
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.sick_nodes import collect, set_ready, write_stages
from tests.live.test_move_faults import ACCOUNT, NO_ELECTION, SHORT_LEASE, EvictionWebhook, surges, under_way
from tests.live.test_moves import HOT, LEDGER, POLICIES, QUICK, ROLE, ReadyCount, app, cordon, ended, records
from tests.serve.exposition import Exposition
from tools.controlplane.client import MERGE_PATCH, Document
from tools.controlplane.objects import pod
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
NODES, SILENT = 5, "node-4"  # the pods of the silent one never start
OTHERS = ("node-0", "node-2", "node-3")
APPS = 6
COOLDOWN = 10.0
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SURGING = {"method": "replacementFirst", "allowLastReplica": False}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeteredCluster]:
    binaries = controlplane_or_skip()
    stages = write_stages(binaries / "kwok-stages.yaml", tmp_path_factory.mktemp("kwok") / "stages.yaml", SILENT)
    asked = MeteredCluster(binaries, NODES, controllers=WORKLOADS, stages=stages)
    with asked as running, PodUsageFeed(running.rig, running.exporters):
        trimtab_process.install(running.rig, *trimtab_process.ROLES, ROLE, POLICIES)
        yield running


@pytest.fixture
def scheduler(cluster: MeteredCluster) -> Iterator[Process]:
    with started_scheduler(cluster, "scheduler") as process:
        yield process


@contextmanager
def started_scheduler(cluster: MeteredCluster, name: str) -> Iterator[Process]:
    config = trimtab_process.write_config(cluster.rig, name)
    process = trimtab_process.launch(cluster.rig, config, name, *SHORT_LEASE)
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(process), 40, "ready", process)
        yield process
    finally:
        process.kill()


@pytest.fixture
def hot(cluster: MeteredCluster, scheduler: Process) -> Iterator[int]:
    """One pod of each app runs on a hot node; the number of events in the audit log so far."""
    open_nodes(cluster, HOT)
    for name in cluster.exporters.names:
        set_ready(cluster.rig, name, True)
        cluster.exporters.set(name, cpu=0.1, memory=0.1)
    cluster.rig.admin.raw("DELETE", LEDGER)
    cluster.rig.admin.create_many(app(f"app-{number}") for number in range(APPS))
    trimtab_process.wait_for(lambda: APPS == stage.by_node(cluster)[HOT], 60, "pods on one node", scheduler)
    measured = 'sum by (pod) (rate(container_cpu_usage_seconds_total{pod=~"app.*"}[5s]))'
    cluster.prometheus.wait_for(measured, lambda up: len(up) == APPS, "pod")
    cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
    yield len(cluster.rig.audit_events())
    workloads = (f"{DEPLOYMENTS}/{each['metadata']['name']}" for each in cluster.rig.admin.list(DEPLOYMENTS))
    cluster.rig.admin.delete_many(workloads)
    trimtab_process.wait_for(lambda: without_pods(cluster), 60, "no pods", cluster.rig.kwok)


def without_pods(cluster: MeteredCluster) -> bool:
    """Whether all are gone; collects what no kubelet ends, or what a finalizer keeps."""
    found = trimtab_process.pods(cluster.rig)
    for each in found:
        if each["metadata"].get("finalizers"):
            path = f"/api/v1/namespaces/default/pods/{each['metadata']['name']}"
            cluster.rig.admin.raw("PATCH", path, b'{"metadata": {"finalizers": null}}', MERGE_PATCH)
        if each["spec"].get("nodeName") in ("", None, SILENT) or "ownerReferences" not in each["metadata"]:
            collect(cluster.rig, each)
    return not found


def open_nodes(cluster: MeteredCluster, *names: str) -> None:
    """All others are cordoned."""
    for each in cluster.exporters.names:
        cordon(cluster, each, each not in names)


@contextmanager
def rescheduler(cluster: MeteredCluster, name: str, *flags: str, **settings: Any) -> Iterator[Process]:
    """By eviction unless set; killed at the end."""
    evicting = {"method": "eviction", "allowLastReplica": True, "cooldown": f"{COOLDOWN:.0f}s"}
    section = {"mode": "auto", **QUICK, **evicting, **settings}
    config = trimtab_process.write_config(
        cluster.rig, name, {**stage.prometheus_config(cluster), "rescheduling": section}
    )
    given = ("--controllers", "rescheduler", *NO_ELECTION, *flags)
    process = trimtab_process.launch(cluster.rig, config, name, *given, account="trimtab-rescheduler")
    try:
        yield process
    finally:
        process.kill()


def verdict(cluster: MeteredCluster, since: int, cooldown: float = COOLDOWN) -> EvictionReport:
    return check_evictions(cluster.rig.audit_events()[since:], ACCOUNT, 100, 3600.0, cooldown)


def refused(process: Process, guard: str) -> float:
    """How often this guard has refused."""
    if not trimtab_process.is_ready(process):
        return 0.0
    page = Exposition(trimtab_process.page(process, "/metrics")[1])
    return page.value("trimtab_move_refusals_total", guard=guard) or 0.0


def wait_refused(process: Process, guard: str, more: int = 1) -> None:
    before = refused(process, guard)
    trimtab_process.wait_for(lambda: refused(process, guard) >= before + more, 60, f"refused by {guard}", process)


# --- the cluster


def test_nodes_that_are_not_ready(cluster: MeteredCluster, hot: int) -> None:
    """One of five is not above the limit of 20 %; with three nothing moves. Then one is still too many, and with none pods
    move again."""
    open_nodes(cluster, HOT, *OTHERS)
    set_ready(cluster.rig, "node-3", False)
    with rescheduler(cluster, "unready", maxMoves=1) as process:
        trimtab_process.wait_for(lambda: ended(cluster), 60, "a move", process)
        for name in ("node-0", "node-2"):
            set_ready(cluster.rig, name, False)
        wait_refused(process, "unready nodes")
        moved = len(verdict(cluster, hot).answers)
        for name in ("node-0", "node-2"):
            set_ready(cluster.rig, name, True)
        wait_refused(process, "unready nodes")
        assert moved == len(verdict(cluster, hot).answers)
        set_ready(cluster.rig, "node-3", True)
        trimtab_process.wait_for(lambda: len(verdict(cluster, hot).evictions) > moved, 60, "an eviction", process)
    assert () == verdict(cluster, hot).violations


def test_no_room_anywhere(cluster: MeteredCluster, hot: int) -> None:
    """Every other node is full by requests: nobody is evicted; with room on one of them somebody is."""
    open_nodes(cluster, HOT, *OTHERS)
    fillers = [pod(f"filler-{name}", cpu="7500m", nodeName=name) for name in OTHERS]
    cluster.rig.admin.create_many(fillers)
    with rescheduler(cluster, "full") as process:
        wait_refused(process, "rehearsal", APPS)
        assert () == verdict(cluster, hot).answers
        cluster.rig.admin.delete("/api/v1/namespaces/default/pods/filler-node-2")
        trimtab_process.wait_for(lambda: verdict(cluster, hot).evictions, 60, "an eviction", process)
    assert () == verdict(cluster, hot).violations


def log_of(cluster: MeteredCluster, name: str) -> str:
    return (cluster.rig.workspace / f"{name}.log").read_text()


# --- the scheduler


def test_a_scheduler_that_is_dead(cluster: MeteredCluster, scheduler: Process, hot: int) -> None:
    """Its lease is not renewed: nobody is evicted, and the log says why. With another scheduler at work pods move."""
    open_nodes(cluster, HOT, *OTHERS)
    scheduler.kill()
    with rescheduler(cluster, "orphaned") as process:
        wait_refused(process, "scheduler at work", APPS)
        words = "lease trimtab/trimtab of scheduler trimtab is not renewed any more"
        trimtab_process.wait_for(lambda: words in log_of(cluster, "orphaned"), 30, "the reason", process)
        assert () == verdict(cluster, hot).answers
        with started_scheduler(cluster, "successor"):
            trimtab_process.wait_for(lambda: ended(cluster), 60, "a move", process)
    assert () == verdict(cluster, hot).violations


# --- a move under way


def test_the_target_dies(cluster: MeteredCluster, hot: int) -> None:
    """The replacement has a node that never starts it, and is collected with the node: the next one completes the move, and
    no app was without a ready pod."""
    open_nodes(cluster, HOT, SILENT)
    with ReadyCount(cluster, APPS) as ready, rescheduler(cluster, "target", maxMoves=1, **SURGING) as process:
        trimtab_process.wait_for(lambda: on(cluster, SILENT), 60, "a replacement on the silent node", process)
        (lost, *_) = on(cluster, SILENT)
        open_nodes(cluster, HOT, *OTHERS)
        set_ready(cluster.rig, SILENT, False)
        collect(cluster.rig, lost)
        trimtab_process.wait_for(lambda: ended(cluster), 60, "a move", process)
    (record, *_) = ended(cluster)
    assert record["node"] in OTHERS and {1} == set(ready.fewest.values())
    assert () == verdict(cluster, hot).answers


def test_the_source_dies(cluster: MeteredCluster, hot: int) -> None:
    """The pod is collected with its node before its replacement is ready: the further replica is taken back."""
    open_nodes(cluster, HOT, SILENT)
    with rescheduler(cluster, "source", maxMoves=1, **SURGING) as process:
        trimtab_process.wait_for(lambda: on(cluster, SILENT) and any(surges(cluster)), 60, "a surge", process)
        (record,) = (each for each in records(cluster) if each["state"] in ("charged", "surged", "placed"))
        open_nodes(cluster, *OTHERS)
        set_ready(cluster.rig, HOT, False)
        collect(cluster.rig, next(each for each in on(cluster, HOT) if each["metadata"]["uid"] == record["uid"]))
        trimtab_process.wait_for(lambda: not (any(surges(cluster)) or under_way(cluster)), 60, "an end", process)
    failed = next(each for each in ended(cluster, "failed") if each["uid"] == record["uid"])
    assert "it left before its replacement was ready" == failed["message"]
    assert {1} == {each["spec"]["replicas"] for each in cluster.rig.admin.list(DEPLOYMENTS)}


def on(cluster: MeteredCluster, node: str) -> list[Document]:
    return [each for each in trimtab_process.pods(cluster.rig) if each["spec"].get("nodeName") == node]


def test_a_rollback_while_a_workload_has_a_further_replica(cluster: MeteredCluster, hot: int) -> None:
    """`kubectl rollout undo` replaces the pods: the move fails, and its replica is taken back."""
    for number in range(APPS):  # a second revision, to have one to go back to
        cluster.rig.kubectl("set", "env", f"deployment/app-{number}", "REVISION=2")
    trimtab_process.wait_for(lambda: settled(cluster) and APPS == stage.by_node(cluster)[HOT], 60, "a rollout")
    open_nodes(cluster, HOT, SILENT)
    with rescheduler(cluster, "undone", maxMoves=1, **SURGING) as process:
        trimtab_process.wait_for(lambda: any(surges(cluster)) and on(cluster, SILENT), 90, "a surge", process)
        (surging,) = (each for each in cluster.rig.admin.list(DEPLOYMENTS) if "trimtab.dev/surge-for" in labels(each))
        name, uid = surging["metadata"]["name"], labels(surging)["trimtab.dev/surge-for"]
        open_nodes(cluster, HOT, *OTHERS)
        cluster.rig.kubectl("rollout", "undo", f"deployment/{name}")
        trimtab_process.wait_for(lambda: not any(surges(cluster)), 60, "the marks are gone", process)
        trimtab_process.wait_for(lambda: state_of(cluster, uid) == "failed", 20, "a failed move", process)
    assert 1 == cluster.rig.admin.get(f"{DEPLOYMENTS}/{name}")["spec"]["replicas"]


def state_of(cluster: MeteredCluster, uid: str) -> str:
    return next((each["state"] for each in records(cluster) if each["uid"] == uid), "")


def labels(document: Document) -> Document:
    found: Document = document["metadata"].get("labels", {})
    return found


def settled(cluster: MeteredCluster) -> bool:
    """Whether every Deployment has its one pod, of its newest revision."""
    found = cluster.rig.admin.list(DEPLOYMENTS)
    return len(trimtab_process.pods(cluster.rig)) == APPS and all(
        each["status"].get("updatedReplicas") == 1 == each["status"].get("readyReplicas") for each in found
    )


def test_a_replacement_that_comes_back(cluster: MeteredCluster, hot: int) -> None:
    """While its eviction is held, all other nodes are cordoned. The move has failed, and the next one of its owner waits for
    twice the cool-down."""
    open_nodes(cluster, HOT, *OTHERS)
    protect(cluster, *(f"app-{number}" for number in range(1, APPS)))
    with EvictionWebhook(cluster) as held, rescheduler(cluster, "back") as process:
        assert held.held.wait(60), process.log_tail()
        open_nodes(cluster, HOT)
        held.release()
        trimtab_process.wait_for(lambda: ended(cluster, "failed"), 60, "a failed move", process)
        assert "its replacement came back to the node" == ended(cluster, "failed")[0]["message"]
        open_nodes(cluster, HOT, *OTHERS)
        trimtab_process.wait_for(lambda: len(verdict(cluster, hot).evictions) == 2, 90, "another try", process)
    assert () == verdict(cluster, hot, cooldown=2 * COOLDOWN).violations


def protect(cluster: MeteredCluster, *names: str) -> None:
    """Their pods ask to stay."""
    for each in trimtab_process.pods(cluster.rig):
        if each["metadata"]["labels"].get("app") in names:
            path = f"/api/v1/namespaces/default/pods/{each['metadata']['name']}"
            cluster.rig.admin.patch(path, {"metadata": {"annotations": {"trimtab.dev/evict": "never"}}})


@contextmanager
def stuck_moves(cluster: MeteredCluster, since: int) -> Iterator[Process]:
    """Two pods were evicted: a finalizer keeps the one, and the other's replacement is on a node that never starts it."""
    cluster.rig.admin.delete_many(f"{DEPLOYMENTS}/app-{number}" for number in range(2, APPS))
    protect(cluster, "app-0", "app-1")
    kept, slow = app("kept", 2), app("slow", 2)
    kept["spec"]["template"]["metadata"]["finalizers"] = ["trimtab.test/kept"]
    cluster.rig.admin.create_many([kept, slow])
    trimtab_process.wait_for(lambda: 2 + 4 == stage.by_node(cluster)[HOT], 60, "pods on one node")
    open_nodes(cluster, HOT, SILENT)
    with rescheduler(cluster, "stuck", maxInProgress=10) as process:
        trimtab_process.wait_for(lambda: len(verdict(cluster, since).evictions) == 2, 90, "two evictions", process)
        yield process


def test_pods_that_never_leave_or_never_become_ready(cluster: MeteredCluster, hot: int) -> None:
    """Each app loses one pod at most, though the cool-down is over."""
    with stuck_moves(cluster, hot) as process:
        wait_refused(process, "moves under way", 4)
    found = verdict(cluster, hot, cooldown=300.0)
    assert () == found.violations and 2 == len(found.evictions)
    assert {"placed", "evicted"} >= {each["state"] for each in records(cluster) if each["state"] != "cancelled"}


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_stuck_moves_are_given_up(cluster: MeteredCluster, hot: int) -> None:
    """Ten minutes after replacements got a node that never starts them, whether or not the old pod has left. Both moves are
    counted as failed, and say why."""
    with stuck_moves(cluster, hot) as process:
        open_nodes(cluster)  # no further moves
        trimtab_process.wait_for(lambda: len(ended(cluster, "failed")) == 2, 900, "two moves given up", process)
        page = Exposition(trimtab_process.page(process, "/metrics")[1])
        counted = [
            each for each in page.families["trimtab_moves_total"].samples if each.labels.get("state") == "failed"
        ]
        assert 2.0 == sum(each.value for each in counted if each.name == "trimtab_moves_total")
    failed = ended(cluster, "failed")
    assert {"its replacement was not ready in time"} == {each["message"] for each in failed}
    assert all(600 <= each["ended"] - each["at"] < 700 for each in failed)
