"""What-if questions on small clusters: drains, more and fewer nodes, new pods, another policy, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sim.snapshot_clusters import budget, cluster, replica, used, worker
from tests.wire.json_objects import Json
from trimtab.apps.whatif.manifests import parse_manifests
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.sim import whatif
from trimtab.sim.scenario import Scenario
from trimtab.sim.snapshot_document import Usage
from trimtab.sim.snapshot_scenario import place_again, scenario_of
from trimtab.sim.whatif import Answer, Blocked, Pending, is_worse, simulate

SETTINGS = default_configuration().settings
NODES = [worker("n-1"), worker("n-2"), worker("n-3", cpu="2")]
FULL = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."


def scenario(folder: Path, nodes: list[Json], pods: list[Json], **options: Any) -> Scenario:
    return scenario_of(cluster(folder, nodes, pods, **options), duration=600.0)


def drained(folder: Path, pods: list[Json], **options: Any) -> tuple[Answer, Answer]:
    """Before and after a drain of n-1."""
    here = scenario(folder, NODES, pods, **options)
    return simulate(here, SETTINGS), simulate(whatif.drain(here, ["n-1"]), SETTINGS)


def test_a_drain_whose_pods_find_room(tmp_path: Path) -> None:
    """They are replaced on other nodes, the pod of a DaemonSet and a static pod stay, and nothing is worse."""
    pods = [
        *(replica(f"web-{number}", "n-1") for number in range(3)),
        replica("agent-1", "n-1", owner="agent", kind="DaemonSet", cpu="100m"),
        replica("etcd-1", "n-1", owner="n-1", kind="Node", cpu="100m"),
    ]
    before, after = drained(tmp_path, pods)
    assert (3, 5, 0) == (before.nodes, before.pods, before.evictions)
    assert (2, 5, 3) == (after.nodes, after.pods, after.evictions)
    assert ((), (), ()) == (after.pending, after.blocked, after.lost)
    assert ["shop/web"] * 3 == [each.workload for each in after.placed]
    assert {"n-2", "n-3"} == {each.node for each in after.placed}
    assert not is_worse(before, after)


def test_a_drain_without_room(tmp_path: Path) -> None:
    """Those that fit nowhere are pending, with kube-scheduler's message; one that was pending before does not count."""
    pods = [*(replica(f"web-{number}", "n-1", cpu="2") for number in range(2)), replica("big", cpu="64", owner="")]
    pods += [replica("other", "n-2", cpu="3", owner="other")]
    before, after = drained(tmp_path, pods)
    further = whatif.further_pending(before.pending, after.pending)
    assert 1 == len(further)
    preemption = " preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling,"
    preemption += " 2 No preemption victims found for incoming pod."
    assert Pending(further[0].pod, "shop/web", FULL + preemption) == further[0]
    assert ["shop/big"] == [each.pod for each in before.pending]
    assert is_worse(before, after)


def test_a_drain_that_a_budget_forbids(tmp_path: Path) -> None:
    """The pod stays where it is, and the budget is named."""
    pods = [replica("web-1", "n-1")]
    before, after = drained(tmp_path, pods, objects={"poddisruptionbudgets": [budget("one", "web", 0)]})
    assert (Blocked("shop/web-1", "n-1", ("shop/one",)),) == after.blocked
    assert (0, (), ()) == (after.evictions, after.pending, after.lost)
    assert is_worse(before, after)


def test_a_budget_that_allows_one_after_the_other(tmp_path: Path) -> None:
    """As soon as the replacement of the first is ready, the second may go."""
    pods = [replica(f"web-{number}", "n-1") for number in range(3)]
    before, after = drained(tmp_path, pods, objects={"poddisruptionbudgets": [budget("one", "web", 1)]})
    assert (3, ()) == (after.evictions, after.blocked)
    assert not is_worse(before, after)


def test_a_drain_loses_pods_without_a_controller(tmp_path: Path) -> None:
    """Nobody creates them again; the pod of a StatefulSet comes back under its name."""
    pods = [replica("debug", "n-1", owner=""), replica("db-0", "n-1", owner="db", kind="StatefulSet")]
    before, after = drained(tmp_path, pods)
    assert ((), ("shop/debug",)) == (before.lost, after.lost)
    assert ["shop/db-0"] == [each.pod for each in after.placed]
    assert is_worse(before, after)


def test_more_nodes(tmp_path: Path) -> None:
    """They are of the most common size, for the same pods, and in good condition; pending pods find room there."""
    nodes = [
        worker("n-1", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}], unschedulable=True),
        worker("n-2"),
        worker("large", cpu="32"),
    ]
    more = whatif.add_nodes(scenario(tmp_path, nodes, []), 2)
    added = [each.node for each in more.nodes[3:]]
    assert ["n-1-copy-1", "n-1-copy-2"] == [each.name for each in added]
    assert [(("team",), False)] * 2 == [
        (tuple(taint.key for taint in each.taints), each.unschedulable) for each in added
    ]
    assert ["n-1-copy-1", "n-1-copy-2"] == [each.labels["kubernetes.io/hostname"] for each in added]
    full = scenario(
        tmp_path, [worker("n-1")], [*(replica(f"web-{number}", "n-1") for number in range(4)), replica("new")]
    )
    before, after = simulate(full, SETTINGS), simulate(whatif.add_nodes(full, 1), SETTINGS)
    assert (["shop/new"], []) == ([each.pod for each in before.pending], [each.pod for each in after.pending])
    assert "n-1-copy-1" == after.placed[0].node


def test_fewer_nodes(tmp_path: Path) -> None:
    """The nodes with the lowest requests, relative to their size, are drained."""
    pods = [replica("web-0", "n-1", cpu="2"), replica("web-1", "n-2", cpu="1"), replica("web-2", "n-3", cpu="1")]
    fewer, names = whatif.remove_nodes(scenario(tmp_path, NODES, pods), 1)
    assert ("n-2",) == names
    assert [("n-2", "drain")] == [(each.node, each.action) for each in fewer.node_events]


def test_the_control_plane_is_neither_copied_nor_removed(tmp_path: Path) -> None:
    """Though it is the first node of the most common size, and has the lowest requests."""
    first = worker("a-master")
    first["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    first["spec"]["taints"] = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    here = scenario(tmp_path, [first, worker("n-1"), worker("n-2")], [replica("web-0", "n-1")])
    assert "n-1-copy-1" == whatif.add_nodes(here, 1).nodes[-1].node.name
    assert ("n-2",) == whatif.remove_nodes(here, 1)[1]
    alone = scenario(tmp_path, [first], [])
    assert "a-master-copy-1" == whatif.add_nodes(alone, 1).nodes[-1].node.name


def test_new_pods(tmp_path: Path) -> None:
    """Some fit and the others are pending; they use what they request."""
    manifest = b"""
    kind: Deployment
    metadata: {name: api, namespace: shop}
    spec:
      replicas: 4
      template: {spec: {containers: [{name: a, image: a, resources: {limits: {cpu: "3"}}}]}}
    """
    here = scenario(tmp_path, NODES, [])
    before, after = (
        simulate(here, SETTINGS),
        simulate(whatif.add_pods(here, parse_manifests(manifest, "api.yaml").pods), SETTINGS),
    )
    assert {"n-1", "n-2"} == {each.node for each in after.placed}
    assert [("shop/api-2", "shop/api"), ("shop/api-3", "shop/api")] == [
        (each.pod, each.workload) for each in after.pending
    ]
    assert [0.75, 0.75, 0.0] == [round(peak.cpu, 3) for peak in after.peaks]
    assert is_worse(before, after)


def test_another_policy(tmp_path: Path) -> None:
    """Every pod is placed again, except those that belong to their node; the policy sees what they use by then."""
    packing = b"""
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles:
    - plugins:
        score: {disabled: [{name: "*"}], enabled: [{name: TargetLoadPacking}]}
      pluginConfig: [{name: TargetLoadPacking, args: {targetUtilization: 70}}]
    """
    pods = [replica(f"web-{number}", f"n-{number % 2 + 1}", cpu="500m") for number in range(4)]
    pods += [replica("agent-2", "n-2", owner="agent", kind="DaemonSet", cpu="100m")]
    usage = Usage({}, {f"shop/{each['metadata']['name']}": used(400) for each in pods})
    here = scenario(tmp_path, NODES[:2], pods, usage=usage)
    again = place_again(here)
    assert {"agent-2": "n-2"} == {each.name: each.node for each in again.pods if each.node}
    after = simulate(again, parse(packing, "packing.yaml").settings)
    assert 1 == len({each.node for each in after.placed})
    assert 2 == whatif.moved(here, after)


@pytest.mark.parametrize(
    ("zones", "domains"),
    [
        ("aab", ["zone a", "zone b"]),
        (["a", "", "b"], ["zone a", "zone b", "node n-2"]),
        ("", ["node n-1", "node n-2", "node n-3"]),
    ],
)
def test_failure_domains(zones: Sequence[str], domains: list[str], tmp_path: Path) -> None:
    """Zones, and nodes that are in none."""
    nodes = [worker(f"n-{number + 1}", zone=zones[number] if zones else "") for number in range(3)]
    assert domains == [*whatif.failure_domains(scenario(tmp_path, nodes, []))]


def test_failures(tmp_path: Path) -> None:
    """The small zone may fail; the large one must not, for its pods do not fit into the small one."""
    nodes = [worker("a-1", zone="a"), worker("a-2", zone="a"), worker("b-1", zone="b")]
    pods = [replica(f"web-{number}", f"a-{number % 2 + 1}", cpu="1500m") for number in range(4)]
    pods += [replica("db-1", "b-1", owner="db")]
    here = scenario(tmp_path, nodes, pods)
    large, small = whatif.fail_each(here, SETTINGS, whatif.failure_domains(here))
    assert ("zone a", 2, 2) == (large.domain, large.nodes, len(large.pending))
    assert {"shop/web"} == {each.workload for each in large.pending}
    assert ("zone b", 1, ()) == (small.domain, small.nodes, small.pending)
    assert large.hottest is not None and "b-1" == large.hottest.node and 1.0 == large.hottest.cpu
