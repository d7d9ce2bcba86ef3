"""Faults while pods are moved, on a real control plane: whatever dies, no budget is spent twice and no pod moved too often.

The verdict is the audit log's (`eviction_checker.py`), over all processes of a test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.binding_webhook import BindingWebhook
from tests.live.eviction_checker import EvictionReport, check_evictions
from tests.live.fault_proxy import Fault, FaultProxy
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_moves import HOT, LEDGER, QUICK, ROLE, ReadyCount, app, cordon, ended, is_ready, records
from tools.controlplane.client import Document
from tools.controlplane.process import Process
from tools.controlplane.rig import WORKLOADS

pytestmark = pytest.mark.live
ACCOUNT = "system:serviceaccount:trimtab:trimtab-rescheduler"
APPS = 6
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MOVES, WITHIN, COOLDOWN = 2, 600.0, 60.0
NO_ELECTION = ("--leader-elect=false",)
SHORT_LEASE = (
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)


class EvictionWebhook(BindingWebhook):
    """Refuses evictions of pods whose name begins so; with none given it holds each of them."""

    resource = "pods/eviction"

    def __init__(self, cluster: MeteredCluster, refused: str = "") -> None:
        super().__init__(cluster.rig)
        self._refused, self.refusals = refused, 0

    def admit(self, request: Document) -> bool:
        if not self._refused:
            return self.admit_or_hold()
        refused = request["name"].startswith(self._refused)
        self.refusals += refused
        return not refused


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Three measured nodes, and a scheduler."""
    asked = MeteredCluster(controlplane_or_skip(), 3, controllers=WORKLOADS)
    with asked as running, PodUsageFeed(running.rig, running.exporters):
        trimtab_process.install(running.rig, *trimtab_process.ROLES, ROLE)
        with stage.ready_process(trimtab_process.start(running.rig)):
            yield running


@pytest.fixture
def hot(cluster: MeteredCluster) -> Iterator[int]:
    """All pods are on one hot node; the number of events in the audit log so far."""
    for name in cluster.exporters.names:
        cluster.exporters.set(name, cpu=0.1, memory=0.1)
        cordon(cluster, name, name != HOT)
    cluster.rig.admin.raw("DELETE", LEDGER)
    cluster.rig.admin.create_many(app(f"app-{number}") for number in range(APPS))
    trimtab_process.wait_for(lambda: APPS == stage.by_node(cluster)[HOT], 60, "pods on one node")
    measured = 'sum by (pod) (rate(container_cpu_usage_seconds_total{pod=~"app.*"}[5s]))'
    cluster.prometheus.wait_for(measured, lambda up: len(up) == APPS, "pod")
    for name in cluster.exporters.names:
        cordon(cluster, name, False)
    cluster.exporters.set(HOT, cpu=0.95, memory=0.3)
    yield len(cluster.rig.audit_events())
    stage.delete_pods(cluster)


def launch(cluster: MeteredCluster, name: str, *flags: str, **settings: Any) -> Process:
    budgets = {"cluster": {"moves": MOVES, "within": f"{WITHIN:.0f}s"}}
    evicting = {"method": "eviction", "allowLastReplica": True, "budgets": budgets}
    section = {"mode": "auto", **QUICK, **evicting, **settings}
    own = {**stage.prometheus_config(cluster), "rescheduling": section}
    config = trimtab_process.write_config(cluster.rig, name, own)
    return trimtab_process.launch(
        cluster.rig, config, name, "--controllers", "rescheduler", *flags, account="trimtab-rescheduler"
    )


@contextmanager
def rescheduler(cluster: MeteredCluster, name: str, *flags: str, **settings: Any) -> Iterator[Process]:
    """Killed at the end, if it still runs."""
    process = launch(cluster, name, *flags, **settings)
    try:
        yield process
    finally:
        if process.running():
            process.kill()


def verdict(cluster: MeteredCluster, since: int) -> EvictionReport:
    return check_evictions(cluster.rig.audit_events()[since:], ACCOUNT, MOVES, WITHIN, COOLDOWN)


def codes(cluster: MeteredCluster, since: int, resource: str) -> list[int]:
    """The answers to our account's writes of a resource."""
    events = cluster.rig.audit_events()[since:]
    ours = (each for each in events if each["user"]["username"] == ACCOUNT and each["verb"] in ("create", "update"))
    return [each["responseStatus"]["code"] for each in ours if each["objectRef"].get("resource") == resource]


def test_killed_between_charge_and_eviction(cluster: MeteredCluster, hot: int) -> None:
    """A webhook holds the eviction of the first process, which dies; the next one charges no other move until it knows, and
    what was charged counts."""
    with EvictionWebhook(cluster) as held, rescheduler(cluster, "killed-0", *NO_ELECTION) as first:
        assert held.held.wait(60), first.log_tail()
        assert ["charged"] == [each["state"] for each in records(cluster)]
        first.kill()
        held.release()
    with rescheduler(cluster, "killed-1", *NO_ELECTION) as second:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(second), 40, "ready", second)
        time.sleep(12)  # longer than its interval
    found = verdict(cluster, hot)
    assert () == found.violations and len(found.evictions) <= 1
    assert 1 <= len(records(cluster)) <= MOVES


def test_killed_after_each_eviction(cluster: MeteredCluster, hot: int) -> None:
    """Again and again, as soon as a further pod was evicted: the budget is that of all of them together."""
    for number in range(MOVES + 1):
        with rescheduler(cluster, f"again-{number}", *NO_ELECTION) as process:
            trimtab_process.wait_for(lambda process=process: trimtab_process.is_ready(process), 40, "ready", process)
            deadline = time.monotonic() + 12  # longer than its interval
            while len(verdict(cluster, hot).evictions) <= number and time.monotonic() < deadline:
                time.sleep(0.02)
    found = verdict(cluster, hot)
    assert () == found.violations and 1 <= len(found.evictions) <= MOVES  # a slow machine gets to fewer


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_killed_at_random_moments_for_ten_minutes(cluster: MeteredCluster, hot: int) -> None:
    """B3: started again each time; whatever it was doing, the budget holds in every window, and pods are moved."""
    chance, deadline, kills = Random(3), time.monotonic() + 600, 0
    budgets = {"cluster": {"moves": MOVES, "within": "2m"}}
    while time.monotonic() < deadline:
        with rescheduler(cluster, f"crash-{kills}", *NO_ELECTION, budgets=budgets):
            time.sleep(chance.uniform(3.0, 20.0))
        kills += 1
    found = check_evictions(cluster.rig.audit_events()[hot:], ACCOUNT, MOVES, 120.0, COOLDOWN)
    print(f"{kills} kills, {len(found.evictions)} evictions")
    assert () == found.violations and len(found.evictions) > MOVES


def test_two_without_election(cluster: MeteredCluster, hot: int) -> None:
    """Both believe that they lead: the ledger decides, and of their writes some are refused."""
    with rescheduler(cluster, "one", *NO_ELECTION) as one, rescheduler(cluster, "two", *NO_ELECTION) as two:
        trimtab_process.wait_for(lambda: verdict(cluster, hot).evictions, 90, "an eviction", one, two)
        trimtab_process.wait_for(lambda: 409 in codes(cluster, hot, "configmaps"), 60, "a conflict", one, two)
        time.sleep(12)
    found = verdict(cluster, hot)
    assert () == found.violations and 1 <= len(found.evictions) <= MOVES


def test_paused_for_longer_than_its_lease(cluster: MeteredCluster, hot: int) -> None:
    """Another one takes over; when the first wakes up it writes nothing, and ends."""
    with rescheduler(cluster, "paused", *SHORT_LEASE) as first:
        trimtab_process.wait_for(lambda: records(cluster), 60, "a charge", first)
        first.pause()
        with rescheduler(cluster, "successor", *SHORT_LEASE) as second:
            trimtab_process.wait_for(lambda: trimtab_process.is_ready(second), 40, "the successor leads", second)
            time.sleep(20)
            first.resume()
            trimtab_process.wait_for(lambda: "lost lease" in first.log_tail() or not first.running(), 20, "lost", first)
            time.sleep(5)
    found = verdict(cluster, hot)
    assert () == found.violations and len(found.evictions) <= MOVES


def test_one_refused_pod_does_not_stop_the_others(cluster: MeteredCluster, hot: int) -> None:
    """A webhook protects the pods of one app, and a disruption budget those of another: the others are moved."""
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "app-1"}}}
    metadata = {"name": "app-1", "namespace": "default"}
    cluster.rig.admin.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget}
    )
    wide = {"cluster": {"moves": 20, "within": "10m"}}
    try:
        with EvictionWebhook(cluster, refused="app-0"), rescheduler(cluster, "webhook", budgets=wide) as process:
            trimtab_process.wait_for(lambda: len(verdict(cluster, hot).evictions) >= 2, 90, "evictions", process)
            trimtab_process.wait_for(lambda: state_of(cluster, "app-0") in ("", "refused"), 10, "a refusal", process)
    finally:
        cluster.rig.admin.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/app-1")
    moved = {each.pod.removeprefix("default/")[:5] for each in verdict(cluster, hot).evictions}
    assert not moved & {"app-0", "app-1"}


def state_of(cluster: MeteredCluster, name: str) -> str:
    """Of the move of this app's pod, if there is one."""
    return next((each["state"] for each in records(cluster) if each["pod"].startswith(name)), "")


def test_answers_that_are_lost(cluster: MeteredCluster, hot: int) -> None:
    """The first update of the ledger, the first eviction: each took effect once, and counts once; what was evicted is
    followed by what the watch shows."""
    ledger = "PUT /api/v1/namespaces/trimtab/configmaps/trimtab-moves"
    eviction = "POST /api/v1/namespaces/default/pods/.*/eviction"
    with FaultProxy(cluster.rig) as proxy:
        proxy.inject(Fault("eviction", eviction, lose=True, times=1), Fault("ledger", ledger, lose=True, times=1))
        account = cluster.rig.service_account_kubeconfig("trimtab", "trimtab-rescheduler")
        with rescheduler(cluster, "losing", "--kubeconfig", str(proxy.kubeconfig(account))) as process:
            trimtab_process.wait_for(lambda: proxy.hits.total() == 2, 90, "lost answers", process)
            trimtab_process.wait_for(lambda: ended(cluster), 60, "a move", process)
    found = verdict(cluster, hot)
    assert () == found.violations and 1 <= len(found.evictions) <= MOVES


def test_an_eviction_that_is_delivered_twice(cluster: MeteredCluster, hot: int) -> None:
    """At once, and when a new pod of the same name runs: the UID keeps that from being evicted, and one move was charged."""
    protect(cluster)
    first = run_stateful(cluster, "twin")
    with FaultProxy(cluster.rig) as proxy:
        proxy.inject(Fault("eviction", "POST /api/v1/namespaces/default/pods/.*/eviction", twice=True, times=1))
        account = cluster.rig.service_account_kubeconfig("trimtab", "trimtab-rescheduler")
        with rescheduler(cluster, "doubled", "--kubeconfig", str(proxy.kubeconfig(account))) as process:
            trimtab_process.wait_for(lambda: ended(cluster), 90, "a move", process)
    found, second = verdict(cluster, hot), uid_of(cluster, "twin-0")
    assert 1 == proxy.hits["eviction"] and 2 == len(found.answers) and 1 == len(records(cluster))
    assert {first} == {each.uid for each in found.evictions} and second not in ("", first)
    sent = next(each for each in cluster.rig.audit_events()[hot:] if each["objectRef"].get("subresource") == "eviction")
    assert 409 == cluster.rig.admin.raw("POST", sent["requestURI"], json.dumps(sent["requestObject"]).encode())[0]
    assert second == uid_of(cluster, "twin-0")
    cluster.rig.admin.delete("/apis/apps/v1/namespaces/default/statefulsets/twin")


def protect(cluster: MeteredCluster) -> None:
    """All pods that run ask to stay."""
    for each in trimtab_process.pods(cluster.rig):
        path = f"/api/v1/namespaces/default/pods/{each['metadata']['name']}"
        cluster.rig.admin.patch(path, {"metadata": {"annotations": {"trimtab.dev/evict": "never"}}})


def uid_of(cluster: MeteredCluster, name: str) -> str:
    """Of the ready pod of this name."""
    ready = {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in trimtab_process.pods(cluster.rig)
        if is_ready(each)
    }
    return ready.get(name, "")


def run_stateful(cluster: MeteredCluster, name: str) -> str:
    """The UID of the one pod of a new StatefulSet, on the hot node."""
    for node in cluster.exporters.names:
        cordon(cluster, node, node != HOT)
    deployment = app(name)
    cluster.rig.admin.create({**deployment, "kind": "StatefulSet", "spec": {**deployment["spec"], "serviceName": name}})
    trimtab_process.wait_for(lambda: uid_of(cluster, f"{name}-0"), 60, "a pod")
    for node in cluster.exporters.names:
        cordon(cluster, node, False)
    return uid_of(cluster, f"{name}-0")


def test_killed_while_a_workload_has_a_further_replica(cluster: MeteredCluster, hot: int) -> None:
    """The next one completes the move or undoes it: in the end every Deployment has its one replica, which was never
    missing."""
    surging = {"method": "replacementFirst", "allowLastReplica": False}
    with ReadyCount(cluster, APPS) as ready:
        with rescheduler(cluster, "surging-0", *NO_ELECTION, **surging) as first:
            trimtab_process.wait_for(lambda: any(surges(cluster)), 60, "a surge", first)
            first.kill()
        with rescheduler(cluster, "surging-1", *NO_ELECTION, **surging) as second:
            trimtab_process.wait_for(lambda: not (any(surges(cluster)) or under_way(cluster)), 120, "an end", second)
    assert {1} == set(ready.fewest.values())
    deployments = cluster.rig.admin.list(DEPLOYMENTS)
    assert {1} == {each["spec"]["replicas"] for each in deployments}
    assert len([each for each in records(cluster) if each["state"] not in ("refused", "cancelled")]) <= MOVES


def surges(cluster: MeteredCluster) -> list[bool]:
    """For each Deployment whether it has a further replica for a move."""
    found = cluster.rig.admin.list(DEPLOYMENTS)
    return ["trimtab.dev/surge-for" in each["metadata"].get("labels", {}) for each in found]


def under_way(cluster: MeteredCluster) -> list[str]:
    ending = ("done", "failed", "refused", "cancelled")
    return [each["pod"] for each in records(cluster) if each["state"] not in ending]
