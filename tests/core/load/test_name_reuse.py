"""Samples under a name that several pods or nodes have had: those of a removed one never count for the next."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.load.builders import (
    cluster_of,
    expected,
    ingest,
    pod_reading,
    pods_sampled_at,
    reading,
    running_pod,
    unsampled,
)
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU

BY_REQUESTS = LoadSettings(estimates=("requests",))


def returned(**news: object) -> Cluster:
    """A StatefulSet's pod ran on a until time 100, and is on b now under its old name."""
    cluster = cluster_of("a", "b", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("db-0", "a", uid="old", started=-1000.0))
    ingest(cluster, reading({"a": 1000.0, "b": 1000.0}, at=95.0), pod_reading({"db-0": 900.0}, at=95.0, window=60.0))
    cluster.age_load(100.0)
    cluster.delete_pod("old")
    cluster.upsert_pod(replace(running_pod("db-0", "b", uid="new"), **{"started": None, **news}))
    return cluster


def sampled(cluster: Cluster, uid: str = "new") -> list[float]:
    return pods_sampled_at(cluster)[[cluster.pod_table.slot[uid]]].tolist()


@pytest.mark.parametrize("started", [None, 20.0, 101.0])
@pytest.mark.parametrize(("measured", "window"), [(95.0, 0.0), (100.0, 0.0), (115.0, 60.0), (160.0, 60.0)])
def test_a_sample_that_reaches_back_to_the_predecessor_is_rejected(
    started: float | None, measured: float, window: float
) -> None:
    """Prometheus reports the larger of two containers of one name while its window contains both; nor does it help if the new
    node's clock is behind, so that the pod seems to have started while its predecessor was running."""
    cluster = returned(started=started)
    assert {"earlier": 1} == ingest(cluster, pod_reading({"db-0": 900.0}, at=measured, window=window), at=160.0)
    assert [True] == [math.isnan(when) for when in sampled(cluster)]
    assert {"a": 100.0, "b": 1500.0} == expected(cluster)
    assert {} == ingest(cluster, pod_reading({"db-0": 200.0}, at=161.0, window=60.0))
    assert [161.0] == sampled(cluster)
    assert [] == check_invariants(cluster)


def test_a_pod_is_not_its_own_predecessor() -> None:
    """Placed again after a failed bind, it still comes after the other pod, and after no one else."""
    cluster = returned(node="", phase="Pending")
    waiting = cluster.pods["new"]
    for at, on in ((101.0, "a"), (120.0, "b")):
        cluster.age_load(at)
        cluster.assume(waiting, on)
        if on == "a":
            cluster.forget("new")
    assert {"earlier": 1} == ingest(cluster, pod_reading({"db-0": 900.0}, at=125.0, window=30.0))
    assert {} == ingest(cluster, pod_reading({"db-0": 200.0}, at=131.0, window=30.0))


def test_a_successor_seen_before_its_predecessor_is_removed() -> None:
    """Until then, two pods have the name."""
    cluster = cluster_of("a", "b", settings=BY_REQUESTS)
    cluster.upsert_pod(running_pod("db-0", "a", uid="old", started=-1000.0))
    ingest(cluster, reading({"a": 1000.0, "b": 1000.0}, at=100.0))
    cluster.upsert_pod(running_pod("db-0", "b", uid="new", started=100.0))
    cluster.age_load(150.0)
    cluster.delete_pod("old")
    assert {"earlier": 1} == ingest(cluster, pod_reading({"db-0": 900.0}, at=150.0))
    assert {} == ingest(cluster, pod_reading({"db-0": 200.0}, at=151.0))


def test_a_finished_pod_has_no_samples_though_it_still_exists() -> None:
    """And its name may be another pod's."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    job = running_pod("job", "a", uid="old", started=-1000.0)
    cluster.upsert_pod(job)
    ingest(cluster, reading({"a": 1000.0}, at=100.0), pod_reading({"job": 400.0}, at=100.0))
    cluster.upsert_pod(replace(job, version=2, phase="Succeeded"))
    assert {"a": 600.0} == expected(cluster)
    assert {"unknown": 1} == ingest(cluster, pod_reading({"job": 400.0}, at=105.0))
    assert {"a": 600.0} == expected(cluster)


def test_before_the_first_event_with_a_time_a_pod_is_as_old_as_its_object() -> None:
    """Just after a restart: its predecessor's sample is not its own, though no kubelet has started it."""
    cluster = cluster_of("a", settings=BY_REQUESTS)
    cluster.upsert_pod(replace(running_pod("db-0", "a"), created=90.0))
    assert {"earlier": 1} == ingest(
        cluster, reading({"a": 1000.0}, at=80.0), pod_reading({"db-0": 900.0}, at=80.0), at=100.0
    )
    assert {"a": 500.0} == unsampled(cluster)


def test_a_node_with_the_name_of_a_deleted_one() -> None:
    """Samples and history from before the deletion are rejected."""
    cluster = cluster_of("a", "b", settings=BY_REQUESTS)
    ingest(cluster, reading({"a": 3000.0, "b": 1000.0}, at=100.0))
    old = cluster.node_table.nodes[cluster.node_table.row["a"]]
    cluster.upsert_node(replace(old, uid="new", version=9))
    late = reading({"a": 3000.0, "b": 1100.0}, at=99.0)
    assert {"earlier": 1} == ingest(cluster, late, at=105.0)
    assert {"earlier": 1} == cluster.ingest_history((late,), 105.0)
    assert {"a": None, "b": 1000.0} == expected(cluster)
    assert {} == ingest(cluster, reading({"a": 10.0}, at=110.0))
    assert [10.0, 10.0] == [
        load[cluster.node_table.row["a"]] for load in (cluster.load.latest(CPU), cluster.load.mean(CPU))
    ]


LIVES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20), st.sampled_from("ab")), min_size=2, max_size=5)
LOOKS = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 30), st.sampled_from((0.0, 15.0, 60.0))), max_size=12)


@settings(max_examples=200, deadline=None)
@given(LIVES, LOOKS)
def test_a_pods_sample_is_its_own(lives: list[tuple[int, int, str]], looks: list[tuple[int, int, float]]) -> None:
    """One name is used again and again, on two nodes, each time with another usage. The source reports, late, the mean over a
    window of whichever pods had the name. Property: an accepted sample is what this pod alone used in that window."""
    cluster, spans, moment = cluster_of("a", "b", settings=BY_REQUESTS), list[tuple[float, float]](), 1000.0
    for length, gap, _ in lives:
        spans.append((moment, moment + length))
        moment += length + gap
    events = [(begin, 1, number) for number, (begin, _) in enumerate(spans)]
    events += [(end, 0, number) for number, (_, end) in enumerate(spans[:-1])]
    events += [(1000.0 + at, 2, number) for number, (at, _, _) in enumerate(looks)]
    for at, what, number in sorted(events):
        cluster.age_load(at)
        if what == 1:
            cluster.upsert_pod(running_pod("db-0", lives[number][2], uid=str(number), started=at))
        elif what == 0:
            cluster.delete_pod(str(number))
        else:
            _look(cluster, spans, at, *looks[number][1:])


def _look(cluster: Cluster, spans: list[tuple[float, float]], at: float, late: int, window: float) -> None:
    measured = at - late
    shown = [_use(number, span, measured, window) for number, span in enumerate(spans)]
    ingest(cluster, pod_reading({"db-0": sum(shown)}, at=measured, window=window), at=at)
    for uid, slot in cluster.pod_table.slot.items():
        if (
            pods_sampled_at(cluster).item(slot) == measured
            and cluster.load_store.accounting[CPU].pods.window.item(slot) == window
        ):
            assert math.isclose(
                shown[int(uid)], cluster.load_store.accounting[CPU].pods.sample.item(slot), abs_tol=1e-9
            )


def _use(number: int, span: tuple[float, float], measured: float, window: float) -> float:
    """The n-th pod uses 100 * (n + 1) while it runs."""
    begin, end = span
    if not window:
        return 100.0 * (number + 1) if begin <= measured <= end else 0.0
    return 100.0 * (number + 1) * max(min(measured, end) - max(measured - window, begin), 0.0) / window
