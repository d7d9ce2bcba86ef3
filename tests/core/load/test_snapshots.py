"""Snapshots of pods: aligned over the cluster, kept for a week, and inherited by whoever replaces a pod."""

from __future__ import annotations

import numpy as np

from tests.core.load.builders import cluster_of, ingest, pod_reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.history import FIVE_MINUTES
from trimtab.core.load.snapshots import HOURLY, RECENT, PodSnapshots, Workloads, common_times
from trimtab.core.model.duration import HOUR
from trimtab.core.model.resources import CPU

NOTHING = np.array([-1.0])
NO_OWNERS = Workloads(np.full(3, -1), {})


def add(snapshots: PodSnapshots, at: float, values: dict[int, float]) -> None:
    snapshots.add(at, np.array(list(values), dtype=np.intp), np.array(list(values.values())))


def line(snapshots: PodSnapshots, slot: int = 0) -> list[float]:
    (found,) = snapshots.filled(common_times([snapshots]), np.array([slot]), NOTHING, NO_OWNERS).tolist()
    return [round(each, 3) for each in found]


def snapshots_of(cluster: Cluster) -> PodSnapshots:
    return cluster.load_store.snapshots[CPU]


def filled(cluster: Cluster, name: str, instead: float = -1.0) -> list[float]:
    """Of this pod, as filled for all pods."""
    slots = np.flatnonzero(cluster.load_store.placed_pods.in_use)
    snapshots = snapshots_of(cluster)
    workloads = cluster.load_store.workloads
    found = snapshots.filled(common_times([snapshots]), slots, np.full(len(slots), instead), workloads)
    number = slots.tolist().index(cluster.pod_table.slot[f"uid-{name}"])
    return [round(each, 3) for each in found[number].tolist()]


def test_recent_means_come_first_and_the_newest_before_older_ones() -> None:
    """Samples of five minutes are averaged; the first mean of each hour is also kept by the hour."""
    snapshots = PodSnapshots(1)
    for minute in range(20):
        add(snapshots, 60.0 * minute, {0: float(minute)})
    assert [17.0, 12.0, 7.0, 2.0, 2.0] == line(snapshots)


def test_six_recent_and_a_week_of_hours_are_kept() -> None:
    """After ten days there are as many as ever, and the oldest is a week old."""
    snapshots = PodSnapshots(1)
    for number in range(int(10 * 24 * HOUR / FIVE_MINUTES)):
        add(snapshots, number * FIVE_MINUTES, {0: float(number)})
    values = line(snapshots)
    assert RECENT + HOURLY == len(values)
    assert [2879.0 - number for number in range(RECENT)] == values[:RECENT]
    assert (2868.0, 2868.0 - 12 * (HOURLY - 1)) == (values[RECENT], values[-1])


def test_history_that_is_read_later_is_sorted_in() -> None:
    """As if it had come before the live samples; what is older than everything kept is left out."""
    live, late = PodSnapshots(1), PodSnapshots(1)
    times = [number * FIVE_MINUTES for number in range(30)]
    for at in times:
        add(live, at, {0: at})
    for at in (times[-1], *times[:-1]):
        add(late, at, {0: at})
    assert line(live) == line(late)


def test_a_gap_has_the_pods_own_mean_and_an_unmeasured_pod_what_is_given() -> None:
    """A gap is never zero."""
    snapshots = PodSnapshots(3)
    add(snapshots, 0.0, {0: 4.0, 1: 1.0})
    add(snapshots, 300.0, {1: 1.0})
    add(snapshots, 600.0, {0: 1.0, 1: 1.0})
    assert [1.0, 3.0, 4.0, 4.0] == line(snapshots)  # the mean counts its first sample by the hour, too
    assert [-1.0, -1.0, -1.0, -1.0] == line(snapshots, 2)


def test_a_replacement_inherits_from_the_pod_that_left() -> None:
    """Of the same owner and revision, by owner UID; a pod of another owner inherits nothing."""
    cluster = cluster_of("a", "b")
    cluster.load_store.keep_snapshots(True)
    cluster.upsert_pod(running_pod("old", "a", owner="web", started=-1000.0))
    for at, used in ((0.0, 100.0), (300.0, 400.0)):
        ingest(cluster, pod_reading({"old": used}, at))
    cluster.delete_pod("uid-old")
    cluster.upsert_pod(running_pod("new", "b", owner="web", version=2))
    cluster.upsert_pod(running_pod("other", "b", owner="db", version=3))
    assert [400.0, 100.0, 100.0] == filled(cluster, "new")
    assert [-1.0, -1.0, -1.0] == filled(cluster, "other")


def test_siblings_stand_in_at_the_times_that_a_pod_lacks() -> None:
    """Their mean at that time, so that what the application does together is known of its new pod, too."""
    cluster = cluster_of("a", "b")
    cluster.load_store.keep_snapshots(True)
    for name in ("one", "two"):
        cluster.upsert_pod(running_pod(name, "a", owner="web", started=-1000.0))
    ingest(cluster, pod_reading({"one": 100.0, "two": 300.0}, 0.0))
    cluster.upsert_pod(running_pod("three", "b", owner="web", started=0.0, version=2))
    ingest(cluster, pod_reading({"one": 500.0, "two": 500.0, "three": 50.0}, 300.0))
    assert [50.0, 200.0, 200.0] == filled(cluster, "three")


def test_a_pod_without_an_owner_has_no_siblings() -> None:
    """Another pod without one, which was measured all the time, does not stand in for it."""
    cluster = cluster_of("a")
    cluster.load_store.keep_snapshots(True)
    for name in ("one", "two"):
        cluster.upsert_pod(running_pod(name, "a", owner="", started=-1000.0))
    ingest(cluster, pod_reading({"one": 100.0}, 0.0))
    ingest(cluster, pod_reading({"one": 500.0, "two": 50.0}, 300.0))
    assert [50.0, 50.0, 50.0] == filled(cluster, "two")


def test_pods_that_were_placed_before_snapshots_were_kept_have_siblings() -> None:
    """As after a reload that turns the rescheduler on."""
    cluster = cluster_of("a", "b")
    for name, node in (("one", "a"), ("two", "b")):
        cluster.upsert_pod(running_pod(name, node, owner="web", started=-1000.0))
    cluster.load_store.keep_snapshots(True)
    ingest(cluster, pod_reading({"one": 100.0}, 0.0))
    ingest(cluster, pod_reading({"one": 500.0, "two": 50.0}, 300.0))
    assert [50.0, 100.0, 100.0] == filled(cluster, "two")
    cluster.delete_pod("uid-one")
    cluster.delete_pod("uid-two")
    cluster.upsert_pod(running_pod("three", "b", owner="web", version=2))
    assert [50.0, 50.0, 50.0] == filled(cluster, "three")


def test_snapshots_are_kept_only_when_asked_for() -> None:
    """They cost 1.4 kB a pod."""
    cluster = cluster_of("a")
    assert {} == cluster.load_store.snapshots
    cluster.load_store.keep_snapshots(True)
    assert {"cpu", "memory"} == set(cluster.load_store.snapshots)
    cluster.load_store.keep_snapshots(False)
    assert {} == cluster.load_store.snapshots


def test_a_fork_has_its_own() -> None:
    """What is measured later is not seen by the fork, and what the fork forgets stays known here."""
    cluster = cluster_of("a")
    cluster.load_store.keep_snapshots(True)
    cluster.upsert_pod(running_pod("web", "a", owner="web", started=-1000.0))
    ingest(cluster, pod_reading({"web": 100.0}, 0.0))
    fork = cluster.fork()
    ingest(cluster, pod_reading({"web": 300.0}, 300.0))
    fork.delete_pod("uid-web")
    assert [300.0, 100.0, 100.0] == filled(cluster, "web")
    fork.upsert_pod(running_pod("new", "a", owner="web", version=5))
    assert [100.0, 100.0] == filled(fork, "new")


def test_resources_that_were_measured_at_other_times_are_aligned() -> None:
    """One that is late, or has gaps, has its mean at the times that only the other one has."""
    cpu, memory = PodSnapshots(1), PodSnapshots(1)
    for number in range(4):
        add(cpu, 300.0 * number, {0: float(number)})
    add(memory, 300.0, {0: 5.0})
    times = common_times([cpu, memory])
    assert [3.0, 2.0, 1.0, 0.0, 0.0] == cpu.filled(times, np.array([0]), NOTHING, NO_OWNERS)[0].tolist()
    assert [5.0] * 5 == memory.filled(times, np.array([0]), NOTHING, NO_OWNERS)[0].tolist()
