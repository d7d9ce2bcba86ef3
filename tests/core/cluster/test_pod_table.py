"""Slots of the pod table; property tests over random clusters are in tests/laws."""

from __future__ import annotations

from unittest.mock import patch

from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.core.cluster import pod_table as module
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.cluster.pod_table import NOT_STARTED
from trimtab.core.tables import NO_ROW


def test_a_slot_holds_its_pods_values() -> None:
    """Row, priority, start and requests."""
    started = replace(pod("web", cpu="2", on="b", priority=7), started=9.0)
    held = cluster(node("a"), node("b"), started, pod("db", on="a", memory="1Gi")).pod_table
    slot, other = held.slot["uid-web"], held.slot["uid-db"]
    assert (1, 7, 9.0, 2000) == tuple(
        column[slot] for column in (held.row, held.priority, held.started, held.requested["cpu"].array)
    )
    assert (0, NOT_STARTED, 0, 1 << 30) == tuple(
        column[other]
        for column in (held.row, held.started, held.requested["cpu"].array, held.requested["memory"].array)
    )


def test_slots_are_reused() -> None:
    """A removed pod leaves an empty slot, which the next one gets."""
    held = cluster(node("a"), pod("web", cpu="1", on="a"))
    slot = held.pod_table.slot["uid-web"]
    held.delete_pod("uid-web")
    assert (NO_ROW, None) == (held.pod_table.row[slot], held.pod_table.pods[slot])
    assert {} == held.pod_table.requested
    held.upsert_pod(pod("db", on="a"))
    assert slot == held.pod_table.slot["uid-db"]
    assert [] == check_invariants(held)


def test_a_node_added_after_its_pods() -> None:
    """A pod on an unknown node has no row until the node is added, and again once it is removed."""
    held = cluster(node("a"), pod("web", on="b"))
    row = held.pod_table.row
    slot = held.pod_table.slot["uid-web"]
    assert NO_ROW == row[slot]
    held.upsert_node(node("b"))
    assert 1 == row[slot]
    held.delete_node("a")
    assert 0 == row[slot]
    held.delete_node("b")
    assert NO_ROW == row[slot]


def test_more_pods_than_slots() -> None:
    """The table grows, and every pod keeps its slot."""
    held = cluster(node("a"), *(pod(f"p{number}", on="a", cpu="1") for number in range(150)))
    assert 150 == len(set(held.pod_table.slot.values()))
    assert [] == check_invariants(held)


def test_a_fork_is_independent() -> None:
    """In both directions."""
    held = cluster(node("a"), pod("web", on="a"))
    fork = held.fork()
    fork.upsert_pod(pod("db", on="a"))
    held.delete_pod("uid-web")
    assert ({"uid-web", "uid-db"}, set()) == (set(fork.pod_table.slot), set(held.pod_table.slot))
    assert ([], []) == (check_invariants(fork), check_invariants(held))


def test_ids_of_unused_label_sets_are_dropped() -> None:
    """Labels that no pod has any more do not accumulate, and counts stay correct."""
    with patch.object(module, "MIN_IDS", 8):
        held = cluster(node("a"), pod("stays", on="a", labels={"number": "0"}))
        for number in range(1, 50):
            held.upsert_pod(pod("comes", on="a", labels={"number": str(number)}, version=number))
        assert len(held.pod_table.label_sets) < 20
        assert [] == check_invariants(held)
