"""Property tests of measured load: rows that change hands and slots that are reused, in any order of events."""

from __future__ import annotations

import math
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import node
from tests.core.load.builders import pod_reading, pods_sampled_at, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants, check_load_sums
from trimtab.core.load.history import HOUR_BUCKETS, TEN_MINUTES
from trimtab.core.load.view import LoadView
from trimtab.core.model.resources import CPU
from trimtab.core.tables import Floats

NODES, PODS = ("a", "b", "c", "d"), ("p", "q", "r", "s", "t")
PAUSES = (0.0, 1.0, 15.0, 40.0, 200.0)
WINDOW = 30.0  # of samples of pods: as long as it reaches back to another of the name, it is not only theirs

KINDS = (
    *["pod"] * 4, *["both"] * 4, *["start"] * 2, *["no pod"] * 2, *["node"] * 2,
    "no node", "delete", "nodes", "pods", "fail", "age",
)  # fmt: skip

Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 19),
        st.integers(0, 40),
    ),
    min_size=10,
    max_size=50,
)  # fmt: skip


class Replay:
    """A cluster, and next to it plain dictionaries of what was measured, by name and time."""

    def __init__(self) -> None:
        self.cluster, self.at, self.version = Cluster(), 1000.0, 0
        self.of_nodes: dict[str, dict[float, float]] = {}
        self.newest = 0.0
        self.of_pods: dict[str, dict[float, float]] = {}
        self.gone: dict[str, float] = {}
        self.filled_up: dict[str, dict[float, float]] = {}  # samples of pods as history keeps them
        self.newest_of_pods = 0.0
        self.cluster.age_load(self.at)
        for number in range(4):
            self.node(number, 0)
            self.pod(number, number % 2)

    def play(self, step: Step) -> None:
        kind, who, how = step
        self.version += 1
        self.at += PAUSES[how % len(PAUSES)]
        self.cluster.age_load(self.at)
        moves = {
            "node": self.node, "no node": self.no_node, "pod": self.pod, "start": self.start, "delete": self.delete,
            "no pod": self.no_pod, "nodes": self.nodes, "pods": self.pods, "both": self.both, "fail": self.fail,
        }  # fmt: skip
        if kind in moves:
            moves[kind](who, how)

    def node(self, who: int, how: int) -> None:
        name = NODES[who % len(NODES)]
        if name not in self.cluster.node_table.row:
            self.cluster.upsert_node(node(name, uid=f"{name}-{self.version}", version=self.version))
            self.of_nodes[name] = {}

    def no_node(self, who: int, how: int) -> None:
        self.cluster.delete_node(NODES[who % len(NODES)])

    def pod(self, who: int, how: int) -> None:
        name = PODS[who % len(PODS)]
        if any(pod.name == name for pod in self.cluster.pods.values()):
            return
        made = running_pod(
            name, NODES[how % len(NODES)], uid=f"{name}-{self.version}", version=self.version, owner=f"o{how % 2}"
        )
        self.cluster.upsert_pod(made)
        self.of_pods[name], self.filled_up[name] = {}, {}

    def start(self, who: int, how: int) -> None:
        self._alter(who, started=self.at - how)

    def delete(self, who: int, how: int) -> None:
        self._alter(who, terminating=True)

    def _alter(self, who: int, **news: object) -> None:
        for pod in list(self.cluster.pods.values()):
            if pod.name == PODS[who % len(PODS)]:
                self.cluster.upsert_pod(replace(pod, version=self.version, **news))

    def no_pod(self, who: int, how: int) -> None:
        for pod in list(self.cluster.pods.values()):
            if pod.name == PODS[who % len(PODS)]:
                self.cluster.delete_pod(pod.uid)
                self.gone[pod.name] = self.at

    def nodes(self, who: int, how: int) -> None:
        self.at += 15.0
        values = {name: 1000.0 + 10 * how + i for i, name in enumerate(self.cluster.node_table.row) if (who + i) % 4}
        if values:
            self.cluster.ingest_samples((reading(values, self.at, window=60.0),), self.at)
            for name, value in values.items():
                self.of_nodes[name][self.at] = value
            self.newest = self.at

    def pods(self, who: int, how: int) -> None:
        self.at += 15.0
        placed = [pod.name for pod in self.cluster.pods.values() if pod.node in self.cluster.node_table.row]
        values = {name: 10.0 + how + i for i, name in enumerate(placed) if (who + i) % 3}
        if values:
            its_own = {name: value for name, value in values.items() if self.at - WINDOW > self.gone.get(name, -1.0)}
            for name, value in its_own.items():
                self.of_pods[name][self.at] = value
                self.filled_up[name][self.at] = value + self._missing_part(name)
                self.newest_of_pods = self.at
            self.cluster.ingest_samples((pod_reading(values, self.at, window=WINDOW),), self.at)

    def _missing_part(self, name: str) -> float:
        """The estimate for the part of the window before the pod ran."""
        placed, pods = self.cluster.load_store.placed_pods, self.cluster.load_store.accounting[CPU].pods
        slot = placed.slot[f"default/{name}"]
        ran = min((self.at - placed.running_since.item(slot)) / WINDOW, 1.0)
        return (1.0 - ran) * min(pods.estimate.item(slot), 4000.0)

    def both(self, who: int, how: int) -> None:
        self.nodes(who, how)
        self.pods(how, who)

    def fail(self, who: int, how: int) -> None:
        self.cluster.discard_source("meter" if who % 2 else "pods", self.at)

    # --- what the load says, by name

    def check(self) -> None:
        assert [] == check_invariants(self.cluster)
        load = self.cluster.load
        average = load.recent_mean(CPU, 3600.0)
        for name, row in self.cluster.node_table.row.items():
            if not math.isnan(average[row]):
                hour = [value for at, value in self.of_nodes[name].items() if at > self.newest - 3600.0]
                assert math.isclose(np.mean(hour), average[row], rel_tol=1e-5)
        for pod in self.cluster.pods.values():
            newest = max(self.of_pods[pod.name], default=math.nan)
            np.testing.assert_equal(newest, pods_sampled_at(self.cluster)[self.cluster.pod_table.slot[pod.uid]])
        self._check_history()

    def _check_history(self) -> None:
        count, mean, _ = self.cluster.load_store.accounting[CPU].history.hourly()
        oldest = self.newest_of_pods // TEN_MINUTES - HOUR_BUCKETS
        for pod in self.cluster.pods.values():
            slot = self.cluster.pod_table.slot[pod.uid]
            hour = [value for at, value in self.filled_up[pod.name].items() if at // TEN_MINUTES > oldest]
            assert len(hour) == count[slot]
            assert not hour or math.isclose(np.mean(hour), mean[slot], rel_tol=1e-4)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_sums_equal_a_fresh_computation_and_history_follows_names(steps: list[Step]) -> None:
    """After any events; no node or pod gets another's samples."""
    replay = Replay()
    for step in steps:
        replay.play(step)
        replay.check()


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS)
def test_a_fork_and_the_original_are_independent(before: list[Step], after: list[Step]) -> None:
    """What is ingested, counted and learned in one is not seen in the other."""
    replay = Replay()
    for step in before:
        replay.play(step)
    fork = replay.cluster.fork()
    before_changes = _answers(fork.fork())
    for step in after:
        replay.play(step)
    assert before_changes == _answers(fork.fork())
    assert [] == check_invariants(fork)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_slots_does_not_matter(steps: list[Step], rng: Random) -> None:
    """The same load under other row and slot numbers gives the same results by name."""
    replay = Replay()
    for step in steps:
        replay.play(step)
    load = replay.cluster.load
    rows = list(range(load.rows))
    slots = sorted(replay.cluster.pod_table.slot.values())
    rng.shuffle(rows)
    rng.shuffle(slots)
    reordered = load.store.reordered(np.array(rows, dtype=np.intp), np.array(slots, dtype=np.intp))
    for before, after in zip(_columns(load), _columns(LoadView(reordered)), strict=True):
        np.testing.assert_array_equal(before[rows], after)
    assert [] == list(check_load_sums(reordered))


def _answers(cluster: Cluster) -> str:
    return repr([column.tolist() for column in _columns(cluster.load)])


def _columns(load: LoadView) -> list[Floats]:
    return [
        load.trust(CPU), load.expected(CPU), *load.forecast(CPU), load.mean(CPU), load.deviation(CPU),
        load.percentile(CPU, 95, 600), load.peak(CPU, 3600), load.node_metrics_only(CPU).astype(np.float64),
    ]  # fmt: skip
