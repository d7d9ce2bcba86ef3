"""The objective: penalties computed by hand, and gains that agree with moving the pod."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.load.builders import cluster_of, ingest, pod_reading, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.objective import HOURS_TO_KNOW, NodeLoad, penalties, room_below, snapshot_weights
from trimtab.core.tables import Index

ONE = np.ones(1, dtype=np.float32)
LIMITS = {CPU: 0.8}


@pytest.mark.parametrize(
    ("load", "penalty"),
    [
        (0.0, 0.0),
        (0.5, 0.1 * 0.25),
        (0.78, 0.1 * 0.6084),
        (0.79, 0.5 + 0.1 * 0.6241),
        (0.8, 1.0 + 0.1 * 0.64),
        (0.85, 1.0 + 3 * 0.05 + 40 * 0.0025 + 0.1 * 0.7225),
        (1.2, 1.0 + 3 * 0.4 + 40 * 0.16 + 0.1 * 1.44),
    ],
)
def test_the_penalty_rises_below_the_limit_and_is_convex_above(load: float, penalty: float) -> None:
    """Figures that are computed by hand."""
    assert penalty == pytest.approx(float(penalties(np.array([[load]], dtype=np.float32), ONE)[0]), rel=1e-5)


@pytest.mark.parametrize(
    ("load", "room", "ramp"),
    [(0.79, 0.5, 0.047619), (0.79, 1.0, 0.0), (0.799, 1.0, 0.0), (0.7995, 1.0, 0.5), (0.8, 1.0, 1.0), (0.8, 0.5, 1.0)],
)
def test_a_node_may_be_closer_to_the_limit_where_the_cluster_has_room(load: float, room: float, ramp: float) -> None:
    """The ramp begins at 0.78 without room, at 0.7895 with half of it, and at 0.799 with all."""
    found = float(penalties(np.array([[load]], dtype=np.float32), ONE, room)[0])
    assert ramp + 0.1 * load * load == pytest.approx(found, abs=2e-4)


def test_recent_snapshots_weigh_most_and_the_newest_of_them_more() -> None:
    """Half of what a week of hours weighs, decaying by e^-0.5; a young cluster has fewer hours, not heavier ones."""
    weights = snapshot_weights(6, 168)
    assert (68.0, 136.0) == (pytest.approx(weights[:6].sum(), rel=1e-5), pytest.approx(weights[6:].sum(), rel=1e-5))
    assert np.exp(0.5) == pytest.approx(weights[0] / weights[1], rel=1e-5)
    assert weights[-1] == pytest.approx(snapshot_weights(6, 2)[-1])


@pytest.mark.parametrize(("peak", "room"), [(0.5, 1.0), (0.62, 1.0), (0.64, 0.5), (0.66, 0.0), (0.9, 0.0)])
def test_the_past_counts_less_the_more_room_the_cluster_had(peak: float, room: float) -> None:
    """And one sample above the limit is enough for a balanced move where there is room, but not where there is none."""
    assert room == pytest.approx(room_below(peak))
    weights = snapshot_weights(6, 168, room=room)
    assert 68.0 * (1 + room) == pytest.approx(weights[:6].sum(), rel=1e-5)
    assert 136.0 * (1 - 0.75 * room) == pytest.approx(weights[6:].sum(), rel=1e-5)
    one_sample = float(penalties(np.array([[0.801]], dtype=np.float32), ONE)[0]) * float(weights[0])
    assert (one_sample > 32.0) == (room > 0.1)


@pytest.mark.parametrize(("busiest_hour", "hours", "room"), [(900.0, 80, 1.0), (1500.0, 80, 0.0), (900.0, 60, 0.0)])
def test_room_is_that_of_all_nodes_in_the_busiest_hour(busiest_hour: float, hours: int, room: float) -> None:
    """Two nodes of 1000m: one may be hot while the cluster has room; three days must be known."""
    assert HOURS_TO_KNOW == 72
    cluster = cluster_of("a", "b")
    cluster.load_store.keep_snapshots(True)
    cluster.upsert_pod(running_pod("x", "a", owner="owner-of-x", started=-1000.0))
    for hour in range(hours):
        used = busiest_hour if hour == 3 else 100.0
        ingest(cluster, reading({"a": used, "b": 0.0}, 3600.0 * hour), pod_reading({"x": used}, 3600.0 * hour))
    capacity = float(cluster.view.usable(CPU).sum())
    load = NodeLoad(cluster, {CPU: 0.8 * 2000.0 / capacity})
    assert room == pytest.approx(load.room)
    below = np.full((1, len(load.weights)), 0.79, dtype=np.float32)
    ramp = (1.0 - room) * 0.5 + 0.1 * 0.6241
    assert ramp * float(load.weights.sum()) == pytest.approx(float(load.penalties_of(below)[0]), rel=1e-4)


def test_a_snapshot_with_few_of_its_samples_weighs_less() -> None:
    """All recent ones weigh as much as before, together."""
    weights, full = snapshot_weights(6, 0, newest=0.1), snapshot_weights(6, 0)
    assert weights[0] < weights[1] and full.sum() == pytest.approx(float(weights.sum()), rel=1e-5)
    assert np.exp(0.5) * 0.1 == pytest.approx(weights[0] / weights[1], rel=1e-5)


def test_samples_of_the_newest_snapshot_are_counted() -> None:
    """Two within the first five minutes, and one since then."""
    cluster = cluster_of("a")
    cluster.load_store.keep_snapshots(True)
    cluster.upsert_pod(running_pod("x", "a", owner="owner-of-x", started=-1000.0))
    for at in (0.0, 150.0, 300.0):
        ingest(cluster, reading({"a": 1000.0}, at), pod_reading({"x": 1000.0}, at))
    weights = NodeLoad(cluster, LIMITS).weights
    assert np.exp(0.5) * 0.5 == pytest.approx(weights[0] / weights[1], rel=1e-5)


def measured(*placed: tuple[str, str, tuple[float, ...]], nodes: tuple[str, ...] = ("a", "b")) -> Cluster:
    """Pods on nodes of 4 cores, with a CPU sample every five minutes: in cores."""
    cluster = cluster_of(*nodes)
    cluster.load_store.keep_snapshots(True)
    for name, on, _ in placed:
        cluster.upsert_pod(running_pod(name, on, owner=f"owner-of-{name}", started=-1000.0))
    for number in range(len(placed[0][2])):
        at = 300.0 * number
        sums = {node: sum(used[number] * 1000 for _, on, used in placed if on == node) for node in nodes}
        pods = {name: used[number] * 1000 for name, _, used in placed}
        ingest(cluster, reading(sums, at), pod_reading(pods, at))
    return cluster


def slots(cluster: Cluster, *names: str) -> Index:
    return np.array([cluster.pod_table.slot[f"uid-{name}"] for name in names], dtype=np.intp)


def test_the_load_of_a_node_is_the_sum_of_its_pods_at_each_time() -> None:
    """Newest first, as a share of 4 cores; hours come last."""
    cluster = measured(("x", "a", (1.0, 2.0)), ("y", "a", (2.0, 1.0)), ("z", "b", (0.4, 0.8)))
    load = NodeLoad(cluster, LIMITS)
    assert [[0.75, 0.75, 0.75], [0.2, 0.1, 0.1]] == [
        pytest.approx(line, rel=1e-5) for line in load.load(np.array([0, 1])).tolist()
    ]


def test_pods_that_peak_together_cost_more_than_those_that_take_turns() -> None:
    """Though both pods use as much on average."""
    together = NodeLoad(measured(("x", "a", (2.0, 0.0)), ("y", "a", (2.0, 0.0))), LIMITS)
    in_turn = NodeLoad(measured(("x", "a", (2.0, 0.0)), ("y", "a", (0.0, 2.0))), LIMITS)
    assert together.penalty[0] > 2 * in_turn.penalty[0]


def test_the_worst_resource_counts_relative_to_its_limit() -> None:
    """Memory at its limit of 90 % costs as much as CPU at its limit of 80 %."""
    cluster = measured(("x", "a", (3.2,)), nodes=("a",))
    gib = 2.0**30
    ingest(cluster, reading({"a": 0.9 * 8 * gib}, 0.0, MEMORY), pod_reading({"x": 0.9 * 8 * gib}, 0.0, MEMORY))
    cpu, memory = NodeLoad(cluster, {CPU: 0.8}), NodeLoad(cluster, {MEMORY: 0.9})
    both = NodeLoad(cluster, {CPU: 0.8, MEMORY: 0.9})
    assert cpu.penalty[0] == pytest.approx(memory.penalty[0], rel=1e-4) == pytest.approx(both.penalty[0], rel=1e-4)


@pytest.mark.parametrize(
    ("cpu_limit", "source", "pod", "fits"),
    [
        (0.8, 4.0, 1.0, True),
        (0.8, 4.0, 1.2, False),
        (0.8, 3.5, 1.0, False),
        (0.95, 4.0, 1.4, False),
        (0.5, 2.5, 0.0, False),
    ],
    ids=["87.5%", "92.5%", "not overloaded", "97.5%", "62.5% at a low limit"],
)
def test_from_an_overloaded_node_a_target_may_exceed_its_limit_of_cpu(
    cpu_limit: float, source: float, pod: float, fits: bool
) -> None:
    """With 2.5 of 4 cores on the target before: up to 90 % at a limit of 80 %, and never above 95 %."""
    cluster = measured(("x", "a", (pod,)), ("rest", "a", (source - pod,)), ("y", "b", (2.5,)))
    load = NodeLoad(cluster, {CPU: cpu_limit})
    assert fits == load.fits(0, np.array([1]), load.pods(slots(cluster, "x")))[0, 0]


def test_memory_of_a_target_never_exceeds_its_limit() -> None:
    """However full the source is: it is not shared out as CPU is, pods die of it."""
    cluster, gib = measured(("x", "a", (4.0,)), ("y", "b", (0.1,))), 2.0**30
    ingest(cluster, reading({"a": 7.9 * gib, "b": 0.0}, 0.0, MEMORY), pod_reading({"x": 7.5 * gib}, 0.0, MEMORY))
    load = NodeLoad(cluster, {CPU: 0.9, MEMORY: 0.9})
    assert not load.fits(0, np.array([1]), load.pods(slots(cluster, "x")))[0, 0]


shares = st.floats(0.0, 2.0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.tuples(shares, shares, shares)), min_size=1, max_size=6))
def test_gains_are_what_a_move_changes(pods: list[tuple[str, tuple[float, ...]]]) -> None:
    """For every pod and every target, the predicted gain equals the difference of all penalties after the move."""
    placed = [(f"p{number}", on, used) for number, (on, used) in enumerate(pods)]
    cluster = measured(*placed)
    for number, (on, _) in enumerate(pods):
        load = NodeLoad(cluster, LIMITS)
        source, target = (0, 1) if on == "a" else (1, 0)
        pod = load.pods(slots(cluster, f"p{number}"))
        gain = load.gains_without(source, pod)[0] - load.losses_with(np.array([target]), pod)[0, 0]
        before = load.penalty.sum()
        load.move(pod, source, target)
        assert before - load.penalty.sum() == pytest.approx(gain, rel=1e-3, abs=1e-2)
