"""What PodTopologySpread rejects and prefers; conformance covers the rest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from tests.core.plugins.affinity_builders import HOSTNAME, ZONE, host, label_selector, with_spread
from tests.core.plugins.ask_plugin import PASSES, rejections, scores
from trimtab.core.framework.interface import ALL_ROWS, PreFilterStatus, Reject
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.objects import ReplicaSet, Service
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.plugins.pod_topology_spread import LIST, PodTopologySpread

CROWDED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"! {CROWDED} (missing required label)"
WEB = {"app": "web"}
BY_ZONE = TopologySpreadConstraint(ZONE, 1, selector=label_selector(app="web"))
NODES = (host("a", "one"), host("b", "one"), host("c", "two"), node("bare"))


def web(name: str, on: str = "", **fields: object) -> Pod:
    return replace(pod(name, on=on, labels=WEB), **fields)


@pytest.mark.parametrize(
    ("constraint", "standing", "expected"),
    [
        (BY_ZONE, [], {"a": PASSES, "b": PASSES, "c": PASSES}),
        (BY_ZONE, [web("w", "a")], {"a": CROWDED, "b": CROWDED, "c": PASSES}),
        (BY_ZONE, [web("w", "a"), web("v", "c")], {"a": PASSES, "b": PASSES, "c": PASSES}),
        (replace(BY_ZONE, max_skew=2), [web("w", "a")], {"a": PASSES, "b": PASSES, "c": PASSES}),
        (replace(BY_ZONE, topology_key=HOSTNAME), [web("w", "a")], {"a": CROWDED, "b": PASSES, "c": PASSES}),
        # fewer domains than wished for: the emptiest counts as empty
        (replace(BY_ZONE, min_domains=3), [web("w", "a"), web("v", "c")], {"a": CROWDED, "b": CROWDED, "c": CROWDED}),
        # who is on its way out, of another namespace or another app does not count
        (BY_ZONE, [web("w", "a", terminating=True)], {"a": PASSES, "b": PASSES, "c": PASSES}),
        (BY_ZONE, [web("w", "a", namespace="other")], {"a": PASSES, "b": PASSES, "c": PASSES}),
        (BY_ZONE, [pod("db", on="a", labels={"app": "db"})], {"a": PASSES, "b": PASSES, "c": PASSES}),
        # no selector selects nobody, an empty one counts nobody that stands
        (replace(BY_ZONE, selector=None), [web("w", "a")], {"a": PASSES, "b": PASSES, "c": PASSES}),
        (replace(BY_ZONE, selector=label_selector()), [web("w", "a")], {"a": PASSES, "b": PASSES, "c": PASSES}),
    ],
)
def test_hard_constraints(constraint: TopologySpreadConstraint, standing: list[Pod], expected: dict[str, str]) -> None:
    """No domain may hold more than the skew above the emptiest, and a node without the label never will do."""
    told = rejections(PodTopologySpread(), with_spread(web("new"), constraint), *NODES, *standing)
    assert {**expected, "bare": UNLABELLED} == told


def test_the_first_failure_is_told() -> None:
    """Of two constraints the first one that a node fails has the word."""
    twice = with_spread(web("new"), replace(BY_ZONE, topology_key=HOSTNAME), replace(BY_ZONE, topology_key="rack"))
    told = rejections(PodTopologySpread(), twice, host("a"), host("b", labels={"rack": "1"}), web("w", "b"))
    assert {"a": UNLABELLED, "b": PASSES} == told


@pytest.mark.parametrize(("policy", "expected"), [("Honor", PASSES), ("Ignore", CROWDED)])
def test_node_affinity_policy(policy: str, expected: str) -> None:
    """A zone excluded by node affinity is not the emptiest one, if the policy honours it."""
    new = with_spread(
        pod("new", labels=WEB, selector={ZONE: "one"}), replace(BY_ZONE, max_skew=2, node_affinity_policy=policy)
    )
    told = rejections(PodTopologySpread(), new, *NODES[:3], web("w", "a"), web("v", "b"))
    assert expected == told["a"]


@pytest.mark.parametrize(("policy", "expected"), [("Honor", PASSES), ("Ignore", CROWDED)])
def test_node_taints_policy(policy: str, expected: str) -> None:
    """A zone whose taints the pod does not tolerate is not the emptiest one, if the policy honours them."""
    constraint = replace(BY_ZONE, node_taints_policy=policy)
    tainted = host("c", "two", taints=["gpu=yes:NoSchedule"])
    told = rejections(
        PodTopologySpread(), with_spread(web("new"), constraint), host("a", "one"), tainted, web("w", "a")
    )
    assert expected == told["a"]


def test_match_label_keys() -> None:
    """Pods of another version do not match; a key that the pod lacks is ignored."""
    constraint = replace(BY_ZONE, match_label_keys=("version", "lacking"))
    new = with_spread(pod("new", labels={**WEB, "version": "2"}), constraint)
    old = pod("old", on="a", labels={**WEB, "version": "1"})
    same = pod("same", on="c", labels={**WEB, "version": "2"})
    assert {"a": PASSES, "c": CROWDED} == rejections(
        PodTopologySpread(), new, host("a", "one"), host("c", "two"), old, same
    )


def test_malformed_selectors_are_named() -> None:
    """A pod with an invalid selector is rejected with the field, hard or soft."""
    for hard in (True, False):
        new = with_spread(web("new"), BY_ZONE, replace(BY_ZONE, hard=hard, selector=label_selector("app Like web")))
        assert Reject(
            'spec.topologySpreadConstraints[1].labelSelector: "Like" is not a valid label selector operator'
        ) == PodTopologySpread().pre_filter(cluster(*NODES).view, new)


def test_nothing_to_judge() -> None:
    """Without hard constraints the filter is skipped, and without Services or controllers nothing is scored."""
    view = cluster(*NODES, web("w", "a")).view
    assert PreFilterStatus.SKIP is PodTopologySpread().pre_filter(view, web("new"))
    assert PreFilterStatus.SKIP is PodTopologySpread().pre_filter(
        view, with_spread(web("new"), replace(BY_ZONE, hard=False))
    )
    assert None is PodTopologySpread().score(view, web("new"), ALL_ROWS)
    assert None is PodTopologySpread().score(view, with_spread(web("new"), BY_ZONE), ALL_ROWS)


def test_soft_constraints() -> None:
    """Emptier domains score higher; a node that lacks the label scores nothing."""
    soft = with_spread(web("new"), replace(BY_ZONE, hard=False))
    expected = {"a": 33, "b": 33, "c": 100, "bare": 0}
    assert expected == scores(PodTopologySpread(), soft, *NODES, web("w", "a"), web("v", "b"), web("u", "c"))


SERVICE = Service(name="web", uid="1", namespace="default", selector=label_selector(app="web"))
SET = ReplicaSet(name="web-1", uid="2", namespace="default", selector=label_selector(app="web"))
OWNER = Owner("ReplicaSet", "web-1", "2", "apps/v1")


@pytest.mark.parametrize(
    ("new", "selecting", "opinion"),
    [
        (web("new"), SERVICE, True),
        (web("new", owner=OWNER), SET, True),
        (web("new"), SET, False),
        (web("new", owner=replace(OWNER, api_version="example.com/v1")), SET, False),
        (web("new"), replace(SERVICE, namespace="other"), False),
        (web("new"), replace(SERVICE, selector=label_selector(app="db")), False),
        (web("new"), replace(SERVICE, selector=None), False),
        (web("new", owner=OWNER), replace(SET, selector=None), False),
    ],
)
def test_system_defaults(new: Pod, selecting: Service | ReplicaSet, opinion: bool) -> None:
    """A pod that a Service or its controller selects is spread over nodes and zones, and nodes without a zone take part."""
    told = scores(PodTopologySpread(), new, *NODES[:3], host("d"), web("w", "a"), selecting)
    assert opinion == (told is not None)
    if told is not None:
        assert told["a"] < told["b"] < told["c"] < told["d"] == 100


def test_defaults_of_the_profile() -> None:
    """Listed constraints apply to pods without their own, hard ones too."""
    plugin = PodTopologySpread((TopologySpreadConstraint(HOSTNAME, 1),), LIST)
    told = rejections(plugin, web("new"), host("a"), host("b"), web("w", "a"), SERVICE)
    assert {"a": CROWDED, "b": PASSES} == told
    assert PreFilterStatus.SKIP is plugin.pre_filter(cluster(host("a")).view, web("new"))


@pytest.mark.parametrize("arguments", [((TopologySpreadConstraint(HOSTNAME),), "System"), ((), "Some")])
def test_arguments(arguments: tuple[tuple[TopologySpreadConstraint, ...], str]) -> None:
    """Constraints need the type List, and there is no third type."""
    with pytest.raises(ValueError, match="defaultingType"):
        PodTopologySpread(*arguments)


def test_a_service_that_comes_later() -> None:
    """What selects a pod is looked up anew once it has changed."""
    held = cluster(host("a"), host("b"), web("w", "a"))
    new = web("new")
    assert None is PodTopologySpread().score(held.view, new, ALL_ROWS)
    held.upsert_object(SERVICE)
    assert PodTopologySpread().score(held.view, new, ALL_ROWS) is not None


def test_nodes_that_come_and_change() -> None:
    """Domains follow the labels and the number of nodes."""
    held, new = cluster(host("a", "one"), web("w", "a")), with_spread(web("new"), BY_ZONE)

    def told() -> dict[str, int]:
        codes = PodTopologySpread().filter(held.view, new, ALL_ROWS).tolist()
        return dict(zip((each.name for each in held.view.nodes), codes, strict=True))

    assert {"a": 0} == told()
    held.upsert_node(host("c", "two"))
    assert {"a": 1, "c": 0} == told()
    held.upsert_node(replace(host("c", "one"), version=5))
    assert {"a": 0, "c": 0} == told()
    held.upsert_node(replace(host("c", "two"), version=6))
    held.delete_node("a")
    assert {"c": 0} == told()
