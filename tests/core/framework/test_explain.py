"""An explanation is the per-node table of the decision."""

from tests.build import cluster, node, pod, term
from trimtab.config.registry import default_profile
from trimtab.core.framework.explain import NodeRow, PluginScore, explain
from trimtab.core.framework.profile import TieBreak, multipoint
from trimtab.core.plugins.lowest_load import LowestLoad

PROFILE = default_profile("default", TieBreak.NAME)


def test_table() -> None:
    """Feasible nodes come first with the weighted score of each plugin, rejected ones follow with their reasons."""
    held = cluster(node("a", taints=["gpu=yes:NoSchedule"]), node("b"), node("c"), pod("old", cpu="1", on="b"))
    told = explain(held.view, pod("web", cpu="1", memory="2Gi"), PROFILE)
    assert ("default/web", "c", "c: best of 2 of 3 nodes") == (told.pod, told.node, told.verdict)
    assert ["c", "b", "a"] == [line.node for line in told.rows]
    assert {
        "TaintToleration": 300,
        "NodeResourcesFit": 75,
        "NodeResourcesBalancedAllocation": 100,
        "ImageLocality": 0,
    } == told.rows[0].scores
    assert 475 == told.rows[0].total
    assert NodeRow("a", "TaintToleration", ("node(s) had untolerated taint(s)",), unresolvable=True) == told.rows[2]


def test_how_a_total_comes_about() -> None:
    """Raw score, 0 to 100, weight and points of each plugin; the fraction of a finer raw score is kept."""
    held = cluster(node("a"), node("b", taints=["gpu=yes:PreferNoSchedule"]), pod("old", cpu="1", on="a"))
    told = explain(held.view, pod("web", cpu="1", memory="2Gi"), PROFILE)
    by_node = {row.node: row.plugins for row in told.rows}
    assert PluginScore(raw=1, normalised=0, weight=3, points=0) == by_node["b"]["TaintToleration"]
    assert PluginScore(raw=0, normalised=100, weight=3, points=300) == by_node["a"]["TaintToleration"]
    assert all(sum(score.points for score in row.plugins.values()) == row.total for row in told.rows)
    finer = explain(held.view, pod("web"), multipoint("p", [(LowestLoad(), 2)])).rows[0].plugins["LowestLoad"]
    assert (2, finer.points) == (finer.weight, finer.normalised * 2) and finer.raw == finer.normalised


def test_promised_room() -> None:
    """A node that a nominated pod fills is reported as rejected."""
    holder = pod("vip", cpu="4", priority=10, nominated="a")
    told = explain(cluster(node("a")).view, pod("web", cpu="1"), PROFILE, [holder])
    assert (NodeRow("a", "NodeResourcesFit", ("Insufficient cpu",)),) == told.rows
    assert "0/1 nodes are available: 1 Insufficient cpu." == told.verdict


def test_left_out() -> None:
    """Nodes that a prefilter leaves out are reported as such."""
    wanted = pod("web", required=[term(fields=["metadata.name In b"])])
    told = explain(cluster(node("a"), node("b")).view, wanted, PROFILE)
    assert "b" == told.node
    assert (
        NodeRow("a", "NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), unresolvable=True)
        == told.rows[1]
    )


def test_refused_ahead() -> None:
    """When PreFilter rejects the pod, every node is reported with that reason."""
    wanted = pod("web", required=[term(fields=["metadata.name In a", "metadata.name In b"])])
    told = explain(cluster(node("a")).view, wanted, PROFILE)
    assert (NodeRow("a", "NodeAffinity", ("pod affinity terms conflict",), unresolvable=True),) == told.rows
