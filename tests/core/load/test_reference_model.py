"""The load of every node equals a simple reference model, whatever was added, removed and measured when."""

from __future__ import annotations

import math

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import node
from tests.core.load.builders import cluster_of, pod_reading, reading, running_pod
from tests.core.load.reference_model import ReferenceModel
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

NODES, PODS = ("a", "b", "c"), ("p", "q", "r", "s", "t", "u")
SOURCES, WINDOWS, LATE = ("one", "two"), (0.0, 30.0, 300.0), (0.0, 1.0, 20.0, 100.0, -50.0)
ASKS = (50, 500, 3000)
KINDS = (*["pod"] * 5, *["no pod"] * 3, "start", "delete", *["nodes"] * 3, *["pods"] * 3, "node", "no node", "fail")

Step = tuple[str, int, int, float]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.integers(0, 59), st.integers(0, 59), st.sampled_from((0.0, 0.0, 1.0, 15.0, 60.0, 200.0))
    ),
    min_size=5,
    max_size=30,
)  # fmt: skip


class BothModels:
    """The cluster and the reference model, given the same events."""

    def __init__(self) -> None:
        self.cluster = cluster_of(settings=LoadSettings(estimates=("requests",)))
        self.model, self.at, self.version = ReferenceModel(), 1000.0, 0
        self.wait(0.0)
        for number in range(3):
            self.node(number, 0)
        for number in range(4):
            self.pod(number, number)

    def play(self, step: Step) -> None:
        kind, who, how, pause = step
        self.version += 1
        self.wait(pause)
        moves = {
            "node": self.node, "no node": self.no_node, "pod": self.pod, "no pod": self.no_pod, "start": self.start,
            "delete": self.delete, "nodes": self.nodes, "pods": self.pods, "fail": self.fail,
        }  # fmt: skip
        moves[kind](who, how)
        assert [] == check_invariants(self.cluster)
        self.wait(0.0)

    def wait(self, pause: float) -> None:
        """Trust is updated in both."""
        self.at += pause
        self.model.now = self.at
        self.cluster.age_load(self.at)
        self.cluster.discard_source("nobody", self.at)

    def node(self, who: int, how: int) -> None:
        name = NODES[who % len(NODES)]
        if name not in self.model.machines or how % 4 == 0:  # or made anew between two looks
            if name in self.model.machines:
                self.model.remove_node(name)
            self.cluster.upsert_node(node(name, uid=f"{name}-{self.version}", version=self.version + 1))
            self.model.add_node(name)

    def no_node(self, who: int, how: int) -> None:
        name = NODES[who % len(NODES)]
        if name in self.model.machines:
            self.cluster.delete_node(name)
            self.model.remove_node(name)

    def pod(self, who: int, how: int) -> None:
        name, on, asks = PODS[who % len(PODS)], NODES[how % len(NODES)], ASKS[how // 3 % len(ASKS)]
        if any(pod.name == name for pod in self.model.pods.values()):
            return
        started = (None, self.at - 400.0, self.at - 10.0)[who % 3]
        uid = f"{name}-{self.version}"
        self.cluster.upsert_pod(running_pod(name, on, cpu=f"{asks}m", uid=uid, version=1, started=started))
        self.model.add_pod(uid, name, on, float(asks), started)

    def start(self, who: int, how: int) -> None:
        for uid, pod in self.model.pods.items():
            if pod.name == PODS[who % len(PODS)] and self.cluster.pods[uid].started is None:
                self._alter(uid, started=self.at - how)
                pod.since = max(pod.since, self.at - how)

    def delete(self, who: int, how: int) -> None:
        for uid, pod in self.model.pods.items():
            if pod.name == PODS[who % len(PODS)] and pod.leaving != pod.leaving:
                self._alter(uid, terminating=True)
                pod.leaving = self.at

    def _alter(self, uid: str, **news: object) -> None:
        held = self.cluster.pods[uid]
        self.cluster.upsert_pod(replace(held, version=held.version + 1, **news))

    def no_pod(self, who: int, how: int) -> None:
        """One of them, or all at once."""
        for uid, pod in list(self.model.pods.items()):
            if pod.name == PODS[who % len(PODS)] or how % 7 == 0:
                self.model.remove_pod(uid)
                self.cluster.delete_pod(uid)
                if how % 7:
                    return
                self.wait(0.0)

    def nodes(self, who: int, how: int) -> None:
        values = {name: 500.0 + 17 * ((who + i) % 60) for i, name in enumerate(NODES) if name in self.model.machines}
        values = {name: value for i, (name, value) in enumerate(values.items()) if (how + i) % 4}
        if values:
            timing = self._moment(who, how)
            self.cluster.ingest_samples((reading(values, timing[0], window=timing[1], source=timing[2]),), self.at)
            self.model.node_samples(values, *timing)

    def pods(self, who: int, how: int) -> None:
        values = {name: 11.0 * ((who + 13 * i) % 60) for i, name in enumerate(PODS) if (how + i) % 3}
        measured, window, source = self._moment(who, how)
        self.cluster.ingest_samples((pod_reading(values, measured, window=window, source=f"{source}/pods"),), self.at)
        self.model.pod_samples(values, measured, window, f"{source}/pods")

    def _moment(self, who: int, how: int) -> tuple[float, float, str]:
        """Two sources with different clocks and windows."""
        return self.at - LATE[how % 5], WINDOWS[who % 3], SOURCES[who % 2]

    def fail(self, who: int, how: int) -> None:
        part = SOURCES[who % 2] + ("/pods" if how % 2 else "")
        self.cluster.discard_source(part, self.at)
        self.model.failed.add(part)

    def check(self) -> None:
        load = self.cluster.load
        for name, row in self.cluster.node_table.row.items():
            ours, theirs = load.expected(CPU).item(row), self.model.expected(name)
            assert math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-3) or (ours != ours and theirs != theirs), (
                name, ours, theirs,
            )  # fmt: skip
            if theirs == theirs:
                assert self.model.has_pod_metrics(name) is not bool(load.node_metrics_only(CPU)[row])
                stay = [pod for pod in self.model.pods_on(name) if not self.model.now <= pod.leaving + 300.0]
                measured = [own.value for pod in stay if (own := self.model.own_sample(pod))]
                seen = load.latest(CPU).item(row)
                assert ours >= min(sum(measured), seen) - 1e-3 >= -1e-3


# A pod is removed from a node whose samples have no window; five minutes later a window of another source reaches back to it.
REMOVED_BEFORE_A_LONGER_WINDOW: list[Step] = [
    ("nodes", 24, 1, 200.0), ("no pod", 3, 34, 0.0), ("pods", 37, 11, 30.0), ("delete", 48, 7, 200.0),
    ("pods", 50, 31, 60.0), ("nodes", 53, 57, 15.0),
]  # fmt: skip


@settings(max_examples=250, deadline=None)
@example(REMOVED_BEFORE_A_LONGER_WINDOW)
@given(STEPS)
def test_expected_usage_equals_the_reference_model(steps: list[Step]) -> None:
    """And removed pods never subtract what others were measured to use."""
    both = BothModels()
    for step in steps:
        both.play(step)
        both.check()
