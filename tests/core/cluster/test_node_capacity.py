"""Capacity columns are right whenever they are first read, and follow their nodes from then on."""

from __future__ import annotations

from msgspec.structs import replace

from tests.build import cluster, node
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.node import Node

GPU = "x.y/gpu"


def with_gpus(name: str, count: int, version: int = 1) -> Node:
    return replace(node(name), allocatable=(), capacity=((GPU, count),), version=version)


def gpus(held: Cluster) -> dict[str, int]:
    amounts = held.view.capacity(GPU).tolist()
    return {each.name: amounts[row] for row, each in enumerate(held.view.nodes)}


def test_a_column_follows_its_nodes() -> None:
    """Nodes are added (beyond the table's first size), updated and removed, and the last row moves."""
    held = cluster(with_gpus("a", 1), with_gpus("b", 2))
    assert {"a": 1, "b": 2} == gpus(held)
    for number in range(40):
        held.upsert_node(with_gpus(f"n{number}", 3))
    held.upsert_node(with_gpus("b", 5, version=2))
    held.delete_node("a")
    found = gpus(held)
    assert (41, 5, {3}) == (len(found), found.pop("b"), set(found.values()))


def test_read_late_or_on_a_fork_it_is_the_same() -> None:
    """A fork has columns of its own; what no node has is zero, and allocatable stands for a capacity that is missing."""
    held = cluster(with_gpus("a", 1), replace(node("b"), allocatable=((GPU, 7),), capacity=()))
    fork = held.fork()
    fork.upsert_node(with_gpus("a", 9, version=2))
    assert ({"a": 1, "b": 7}, {"a": 9, "b": 7}) == (gpus(held), gpus(fork))
    later = held.fork()
    later.upsert_node(with_gpus("a", 4, version=2))
    assert ({"a": 1, "b": 7}, {"a": 4, "b": 7}) == (gpus(held), gpus(later))
    assert [0, 0] == held.view.capacity("x.y/other").tolist()
