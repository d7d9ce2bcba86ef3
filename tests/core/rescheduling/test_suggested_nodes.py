"""Suggested nodes: the best pair is found though most losses are never computed, also after moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.rescheduling.measured_pods import LIMITS, large, measured, running
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.rescheduling.objective import NodeLoad, PodLoad
from trimtab.core.rescheduling.strategies.interface import Suggestion
from trimtab.core.rescheduling.suggested_nodes import Candidate, SearchSpace, SuggestedNode
from trimtab.core.tables import Floats, Index

COST = 8.0
NODES = "abc"
Cores = list[tuple[str, tuple[int, int, int]]]  # node, and millicores at three times


def space_of(pods: Cores) -> SearchSpace:
    """Every node with pods is suggested, and every node is a target."""
    placed = [running(f"p{number}", on, owner=f"o{number}") for number, (on, _) in enumerate(pods)]
    cluster = measured(*map(large, NODES), *placed, cpu={f"p{number}": used for number, (_, used) in enumerate(pods)})
    load, targets = NodeLoad(cluster, LIMITS), np.arange(len(NODES))
    sources = [source_of(cluster, load, name) for name in NODES if name in cluster.on_node]
    for each in sources:
        possible = np.ones((len(each.candidates), len(targets)), dtype=np.bool_)
        possible[:, each.row] = False
        each.begin(load, targets, possible)
        list(each.compute())
    return SearchSpace(load, sources, targets)


def source_of(cluster: Cluster, load: NodeLoad, name: str) -> SuggestedNode:
    candidates = [Candidate(pod, COST) for pod in cluster.on_node[name].values()]
    slots = np.array([cluster.pod_table.slot[each.pod.uid] for each in candidates], dtype=np.intp)
    row = cluster.node_table.row[name]
    return SuggestedNode(Suggestion("s", name, "hot"), row, candidates, load.pods(slots))


def best_of(source: SuggestedNode) -> float:
    """By all pairs."""
    nets = [-np.inf]
    for number in range(len(source.candidates)):
        gains, fits = source.net_gains(number, np.arange(len(NODES)))
        nets += gains[source.possible[number] & fits].tolist()
    return max(nets)


cores = st.integers(0, 8000)
placed_pods = st.lists(st.tuples(st.sampled_from(NODES), st.tuples(cores, cores, cores)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=100)
@given(placed_pods)
def test_the_best_pair_is_that_of_all_pairs(pods: Cores) -> None:
    """If it is worth its cost at all; before and after each of some moves, and after they are taken back."""
    space = space_of(pods)
    at_first = [each.best() for each in space.sources]
    for _ in range(4):
        for source in space.sources:
            list(source.compute())
            expected = best_of(source)
            assert max(source.best()[0], 0.0) == pytest.approx(max(expected, 0.0), abs=1e-2)
        source = max(space.sources, key=lambda each: each.best()[0])
        net, number, column = source.best()
        if net <= 0:
            break
        space.move(source, number, int(space.targets[column]))
    space.restart()
    assert at_first == [each.best() for each in space.sources]


def test_losses_of_pods_that_are_not_worth_a_move_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod makes its node hot; the others use next to nothing, or are on nodes that nobody needs to relieve."""
    computed: list[int] = []
    losses_with = NodeLoad.losses_with

    def counted(load: NodeLoad, rows: Index, pods: PodLoad) -> Floats:
        computed.append(len(pods.slots))
        return losses_with(load, rows, pods)

    monkeypatch.setattr(NodeLoad, "losses_with", counted)
    idle = [("a", (10, 10, 10))] * 5 + [("b", (500, 500, 500))]
    space = space_of([("a", (5000, 5000, 5000)), ("a", (4500, 4500, 4500)), *idle])
    assert [2] == computed  # either of the two large ones could leave
    assert space.sources[0].best()[0] > 0
