"""RoundRobin lets nodes take turns, whatever they use; `test_lowest_load.py` has the turns themselves."""

from __future__ import annotations

from collections import Counter

from tests.build import cluster, node, pod
from tests.core.plugins.measured_cluster import loaded, place_all, points
from trimtab.core.plugins.round_robin import RoundRobin

PLUGIN = RoundRobin()
WEB = pod("web")


def test_load_does_not_matter() -> None:
    """Seven pods on three nodes differ by at most one, however full a node is."""
    held = loaded(a=(99, 99), b=(1, 1), c=(50, 50))
    placed = place_all(PLUGIN, held, [pod(f"p{number}", cpu="3") for number in range(7)])
    assert [2, 2, 3] == sorted(Counter(placed).values())
    assert placed[:3] == placed[3:6]


def test_a_returned_turn_is_next() -> None:
    """The node of a pod that was not bound after all goes before all others."""
    held = cluster(*map(node, "abc"))
    state = None
    for name in "abc":
        state, _ = PLUGIN.reserve(held.view, state, pod(f"on-{name}"), name)
    held.set_plugin_state(PLUGIN.name, PLUGIN.unreserve(state, pod("on-b"), "b"))
    scores = points(PLUGIN, WEB, held)
    assert ["b", "a", "c"] == sorted(scores, key=lambda name: -scores[name])


def test_a_bound_pod_keeps_its_turn() -> None:
    """What is undone later returns nothing."""
    held = cluster(*map(node, "ab"))
    state, _ = PLUGIN.reserve(held.view, None, WEB, "a")
    state = PLUGIN.observe_pod(state, WEB, added=True)
    assert state is PLUGIN.unreserve(state, WEB, "a")


def test_a_node_that_is_gone_takes_no_turn() -> None:
    """It was deleted between the choice and the reservation."""
    assert None is PLUGIN.reserve(cluster(node("a")).view, None, WEB, "b")[0]
