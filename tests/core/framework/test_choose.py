"""Which node is chosen, which plugin a rejection is attributed to, and that nominated pods are respected."""

from __future__ import annotations

import pytest

from tests.build import cluster, node, pod, prefers, term
from trimtab.config.registry import default_profile
from trimtab.core.framework.choose import best_nodes, choose
from trimtab.core.framework.profile import TieBreak
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod, Volume
from trimtab.core.model.schedule_result import Placement, Rejection, Unschedulable

BY_HASH = default_profile("by hash")
BY_NAME = default_profile("by name", TieBreak.NAME)


def decide(wanted: Pod, *objects: Node | Pod, nominated: tuple[Pod, ...] = ()) -> Placement | Unschedulable:
    return choose(cluster(*objects).view, wanted, BY_NAME, nominated)


def placed(wanted: Pod, *objects: Node | Pod, nominated: tuple[Pod, ...] = ()) -> str:
    """The chosen node, or the message that says why there is none."""
    verdict = decide(wanted, *objects, nominated=nominated)
    return verdict.node if isinstance(verdict, Placement) else verdict.message()


def test_emptiest_node() -> None:
    """With the default profile the emptier node wins; its total and the next best are reported."""
    verdict = decide(pod("web", cpu="1", memory="2Gi"), node("a"), node("b"), pod("old", cpu="2", memory="4Gi", on="a"))
    assert isinstance(verdict, Placement)
    assert ("b", 2, 2) == (verdict.node, verdict.feasible, verdict.nodes)
    assert [("b", 475), ("a", 425)] == [(ranked.node, ranked.total) for ranked in verdict.best]
    assert 475 == verdict.total


def test_preference_outweighs() -> None:
    """Weights of the profile count: a preferred node wins over an emptier one."""
    preferred = [prefers(10, "disk In ssd")]
    seen: list[Node | Pod] = [node("a", labels={"disk": "ssd"}), node("b"), pod("old", cpu="2", memory="4Gi", on="a")]
    assert "a" == placed(pod("web", cpu="1", memory="2Gi", preferred=preferred), *seen)


def test_first_refuser_is_charged() -> None:
    """A node that several plugins reject is attributed to the first of them in the profile's order."""
    verdict = decide(
        pod("web", cpu="8", selector={"disk": "ssd"}),
        node("a", unschedulable=True, taints=["gpu=yes:NoSchedule"]),
        node("b", taints=["gpu=yes:NoSchedule"]),
        node("c"),
        node("d", labels={"disk": "ssd"}),
        node("e", labels={"disk": "ssd"}),
    )
    expected = (
        Rejection("NodeUnschedulable", ("node(s) were unschedulable",), 1, True),
        Rejection("TaintToleration", ("node(s) had untolerated taint(s)",), 1, True),
        Rejection("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), 1, True),
        Rejection("NodeResourcesFit", ("Insufficient cpu",), 2, True),
    )
    assert expected == verdict.rejections
    assert isinstance(verdict, Unschedulable)
    assert ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit") == verdict.plugins


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod("web", cpu="8"), "0/2 nodes are available: 2 Insufficient cpu."),
        (
            pod("web", cpu="8", memory="64Gi", ports=[80]),
            "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, "
            "1 node(s) didn't have free ports for the requested pod ports.",
        ),
        (
            pod("web", required=[term(fields=["metadata.name In a", "metadata.name In b"])]),
            "0/2 nodes are available: pod affinity terms conflict.",
        ),
        (
            pod("web", cpu="8", required=[term(fields=["metadata.name In a"])]),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
        ),
    ],
)
def test_sentence(wanted: Pod, expected: str) -> None:
    """Reasons are counted and sorted into kube-scheduler's sentence."""
    assert expected == placed(wanted, node("a"), node("b"), pod("old", ports=[80], on="b"))


def test_no_nodes() -> None:
    """Without nodes there is nothing to say but that."""
    assert "0/0 nodes are available." == placed(pod("web"))


def test_only_these() -> None:
    """A prefilter that leaves few nodes keeps the pod off all others, however good they are."""
    wanted = pod("web", cpu="1", required=[term(fields=["metadata.name In b"])])
    verdict = decide(wanted, node("a"), node("b"), pod("old", cpu="2", on="b"))
    assert isinstance(verdict, Placement)
    assert ("b", 1) == (verdict.node, verdict.feasible)


HOLDER = pod("vip", cpu="4", priority=10, nominated="a")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod("web", cpu="1", priority=0), "b"),
        (pod("web", cpu="1", priority=10), "b"),
        (pod("web", cpu="1", priority=11), "a"),
        (pod("web", priority=0), "a"),
        (pod("vip", cpu="1", priority=0), "a"),
    ],
)
def test_promised_room(wanted: Pod, expected: str) -> None:
    """A nominated pod's resources are left alone, except by pods of higher priority and pods that need none."""
    seen: list[Node | Pod] = [node("a"), node("b"), pod("old", cpu="1", on="b")]
    assert expected == placed(wanted, *seen, nominated=(HOLDER,))


def test_promised_refusal_is_told() -> None:
    """A node rejected only because of a nominated pod is reported with that reason."""
    verdict = decide(pod("web", cpu="1"), node("a"), nominated=(HOLDER,))
    assert (Rejection("NodeResourcesFit", ("Insufficient cpu",), 1, False),) == verdict.rejections


def test_own_nomination_goes_first() -> None:
    """A pod for which a node was cleared gets that node while it will do, and any other one when not."""
    seen: list[Node | Pod] = [node("a"), node("b"), pod("old", cpu="2", on="b")]
    assert "b" == placed(pod("web", cpu="1", nominated="b"), *seen)
    assert "a" == placed(pod("web", cpu="3", nominated="b"), *seen)


def test_ties_by_name() -> None:
    """Ties go to the smallest name where the profile says so."""
    assert "a" == placed(pod("web"), node("c"), node("a"), node("b"))


def test_ties_by_hash() -> None:
    """Otherwise each pod has its own favourite among equals, so that they spread, and keeps it in any order of nodes."""
    nodes = [node(f"node-{number}") for number in range(10)]
    there, back = cluster(*nodes).view, cluster(*reversed(nodes)).view
    pods = [pod(f"web-{number}") for number in range(100)]
    chosen = [choose(there, each, BY_HASH) for each in pods]
    assert [getattr(each, "node", "") for each in chosen] == [
        getattr(choose(back, each, BY_HASH), "node", "") for each in pods
    ]
    assert 5 < len({getattr(each, "node", "") for each in chosen})


@pytest.mark.parametrize(
    ("wanted", "best"),
    [
        (pod("web", cpu="1"), ("b", "c")),
        (pod("web", cpu="1", selector={"x": "y"}), ()),
        (pod("web", cpu="64"), ()),
        (pod("web", cpu="1", required=[term("metadata.name In a")]), ()),
        (pod("web", volumes=[Volume("persistentVolumeClaim", "none")]), ()),
    ],
)
def test_best_nodes(wanted: Pod, best: tuple[str, ...]) -> None:
    """All nodes between which the tie break chooses, and none where no node is feasible."""
    view = cluster(node("a", cpu="2"), node("b"), node("c")).view
    found = best_nodes(view, wanted, BY_HASH)
    assert best == found
    verdict = choose(view, wanted, BY_HASH)
    assert verdict.node in found if isinstance(verdict, Placement) else not found


def test_best_nodes_yield_to_nominated_pods() -> None:
    """As the choice does; and without nodes there is none."""
    wanted, rival = pod("web", cpu="3"), pod("rival", cpu="3", priority=5, nominated="a")
    view = cluster(node("a"), node("b")).view
    assert (("b",), ("a", "b")) == (best_nodes(view, wanted, BY_HASH, [rival]), best_nodes(view, wanted, BY_HASH))
    assert () == best_nodes(cluster().view, wanted, BY_HASH)
