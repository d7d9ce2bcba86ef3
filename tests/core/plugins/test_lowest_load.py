"""LowestLoad takes the least loaded node, and nodes take turns exactly when nothing is measured."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import cluster, node, pod
from tests.core.plugins.measured_cluster import loaded, place_all, points, with_samples
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.explain import explain
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.framework.profile import TieBreak, multipoint
from trimtab.core.framework.round_robin import RoundRobin
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.lowest_load import LowestLoad

WEB = pod("web", cpu="100m", memory="100Mi")
PLUGIN = LowestLoad()
NAMES = tuple("abcdefg")


def pods(count: int) -> list[Pod]:
    return [pod(f"p{number}", cpu="100m") for number in range(count)]


def test_the_lowest_sum_wins() -> None:
    """CPU and memory count alike, unless weights say otherwise."""
    held = loaded(a=(10, 50), b=(40, 10), c=(30, 40))
    ranked = sorted("abc", key=lambda name: -points(PLUGIN, WEB, held)[name])
    assert ["b", "a", "c"] == ranked
    by_cpu = points(LowestLoad(cpu_weight=1.0, memory_weight=0.0), WEB, held)
    assert ["a", "c", "b"] == sorted("abc", key=lambda name: -by_cpu[name])


def test_twelve_pods_do_not_herd() -> None:
    """A burst on equal nodes spreads, although no sample shows it."""
    assert {"a": 4, "b": 4, "c": 4} == Counter(place_all(PLUGIN, loaded(a=(20, 20), b=(20, 20), c=(20, 20)), pods(12)))


def test_a_node_without_data_counts_by_requests() -> None:
    """As long as others have data, it is neither idle nor left out."""
    held = cluster(node("a"), node("b"), pod("big", cpu="2", memory="4Gi", on="a"))
    told = points(PLUGIN, WEB, with_samples(held, {"b": 10}, {"b": 10}))
    assert told["b"] > told["a"] > 0


@pytest.mark.parametrize("count", [1, 7, 20, 701])
def test_turns_without_data(count: int) -> None:
    """n pods on m nodes that all would do differ by at most one, whatever their sizes and requests."""
    held = cluster(*(node(name, cpu=str(number + 4)) for number, name in enumerate(NAMES)))
    counts = Counter(place_all(PLUGIN, held, pods(count)))
    assert {count // 7, -(-count // 7)} >= {counts[name] for name in NAMES}


def test_turns_stay_fair_beside_pods_that_fit_elsewhere_only() -> None:
    """Pods that may go to one node only do not disturb the turns of those that may go to the others."""
    held, memory, counts = cluster(*map(node, NAMES)), None, Counter[str]()
    for number in range(60):
        free = ["a"] if number % 3 == 0 else list("bcd")
        row = next_of(held, memory, free)
        memory, _ = PLUGIN.reserve(held.view, memory, pod(f"p{number}"), row)
        counts[row] += 1
    assert (20, {13, 14}) == (counts["a"], {counts[name] for name in "bcd"})


def next_of(held: Cluster, memory: RoundRobin | None, free: list[str]) -> str:
    held.set_plugin_state(PLUGIN.name, memory)
    told = points(PLUGIN, WEB, held)
    return max(free, key=lambda name: (told[name], name))


@given(st.lists(st.integers(0, 12), max_size=60))
def test_turns_given_back(steps: list[int]) -> None:
    """Pods that are turned back, in any order, leave no gap: once what is owed was taken, nodes differ by at most one."""
    held, memory = cluster(*map(node, NAMES[:4])), None
    flying: dict[str, str] = {}
    for number, step in enumerate(steps):
        if step > 8 and flying:
            uid = sorted(flying)[step % len(flying)]
            memory = PLUGIN.unreserve(memory, pod(uid.removeprefix("uid-")), flying.pop(uid))
        else:
            memory = fly(held, memory, flying, f"p{number}")
    for number in range(240):
        memory = fly(held, memory, flying, f"q{number}")
        counts = Counter(flying.values())
        if memory is not None and not memory.credits.any():
            break
    assert 1 >= max(counts[name] for name in NAMES[:4]) - min(counts[name] for name in NAMES[:4])


def fly(held: Cluster, memory: RoundRobin | None, flying: dict[str, str], name: str) -> Any:
    chosen, new = next_of(held, memory, list(NAMES[:4])), pod(name)
    flying[new.uid] = chosen
    return PLUGIN.reserve(held.view, memory, new, chosen)[0]


def test_a_pod_placed_by_load_owes_no_turn() -> None:
    """Only a pod that has taken a turn can return it, and only once."""
    held = cluster(*map(node, NAMES))
    memory, _ = PLUGIN.reserve(held.view, None, WEB, "a")
    assert memory is not None
    assert memory is PLUGIN.unreserve(memory, pod("other"), "a")
    again = PLUGIN.unreserve(memory, WEB, "a")
    assert again is not None
    assert 1 == again.credits.sum()
    assert again is PLUGIN.unreserve(again, WEB, "a")
    landed = PLUGIN.observe_pod(memory, WEB, added=True)
    assert landed is PLUGIN.unreserve(landed, WEB, "a")


def test_turns_survive_nodes_that_come_and_go() -> None:
    """A new node is next; the others keep their order, whatever their rows are now."""
    held = cluster(*map(node, "abc"))
    memory = None
    for name in "bca":
        memory, _ = PLUGIN.reserve(held.view, memory, pod(f"on-{name}"), name)
    held.set_plugin_state(PLUGIN.name, memory)
    held.delete_node("a")
    held.upsert_node(node("d"))
    told = points(PLUGIN, WEB, held)
    assert ["d", "b", "c"] == sorted(told, key=lambda name: -told[name])


def test_without_the_reserve_point_the_fewest_pods_go_first() -> None:
    """Nobody counts turns then; pods do not pile up on one node all the same."""
    held = cluster(*map(node, "abc"), pod("one", on="a"))
    told = points(PLUGIN, WEB, held)
    assert told["a"] < told["b"] == told["c"]


def test_the_explanation_says_so() -> None:
    """The explanation says that nodes take turns, or how many are scored by requests."""
    alone = multipoint("p", [(PLUGIN, 1)], TieBreak.NAME)
    held = cluster(*map(node, "ab"))
    turns = "(LowestLoad: no node has trusted metrics: nodes take turns)"
    assert f"a: best of 2 of 2 nodes {turns}" == explain(held.view, WEB, alone).verdict
    half = "(LowestLoad: 1 of 2 nodes without cpu metrics, 1 of 2 nodes without memory metrics: scored by requests)"
    assert half in explain(with_samples(held, {"a": 50}, {"a": 50}).view, WEB, alone).verdict
    assert "(" not in explain(with_samples(held, {"a": 50, "b": 1}, {"a": 50, "b": 1}).view, WEB, alone).verdict


def test_some_rows_as_of_all() -> None:
    """A row has the same score alone as among all, also in turns."""
    held = cluster(*map(node, NAMES))
    place_all(PLUGIN, held, pods(3))
    whole, part = PLUGIN.score(held.view, WEB, ALL_ROWS), PLUGIN.score(held.view, WEB, slice(2, 3))
    assert whole is not None
    assert part is not None
    assert whole[2:3].tolist() == part.tolist()


def test_weights_are_checked() -> None:
    """Both cannot be 0."""
    with pytest.raises(ValueError, match="both 0"):
        LowestLoad(cpu_weight=0.0, memory_weight=0.0)
