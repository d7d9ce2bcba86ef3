"""While the cluster is sick, its metrics cannot be trusted, or it is the wrong time, no pod is moved."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.build import cluster, node
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.node import Node
from trimtab.core.model.plan import Refusal
from trimtab.core.model.readings import Reading, Unit
from trimtab.core.rescheduling.calendar import Window
from trimtab.core.rescheduling.guards import GuardContext, cluster_refusal
from trimtab.core.rescheduling.settings import ReschedulingSettings

NOW = 10_000.0
NAMES = tuple(f"n-{each}" for each in range(10))


def measured(*nodes: Node, found: Cluster | None = None, at: float = NOW, **fields: Any) -> Cluster:
    """Ten nodes, or others of the same names; of those in `names` the CPU and memory usage is known."""
    given, names = {each.name: each for each in nodes}, fields.get("names", NAMES)
    found = found if found is not None else cluster(*(given.get(name) or node(name) for name in NAMES))
    shares = (fields.get("share", 0.5),) * len(names)
    for resource in ("cpu", "memory"):
        source = fields.get("source", "source")
        reading = Reading(source, resource, names, shares, (at,) * len(names), unit=Unit.FRACTION)
        found.ingest_samples((reading,), at)
    return found


def asked(found: Cluster, now: float = NOW, forbidden: dict[str, str] | None = None, **settings: Any) -> Refusal | None:
    found.age_load(now)
    return cluster_refusal(GuardContext(found, ReschedulingSettings(**settings), now, forbidden=forbidden or {}))


def refusal(guard: str, reason: str) -> Refusal:
    return Refusal("cluster", guard, reason)


def test_a_healthy_cluster_is_planned_for() -> None:
    """All nodes ready and measured."""
    assert asked(measured()) is None


@pytest.mark.parametrize(
    ("unready", "limit", "is_refused"), [(2, 0.2, False), (3, 0.2, True), (3, 0.3, False), (1, 0, True)]
)
def test_many_unready_nodes(unready: int, limit: float, is_refused: bool) -> None:
    """Above the share of the settings; a cluster that falls apart needs its pods where they are."""
    nodes = [replace(node(name), ready=False) for name in NAMES[:unready]]
    expected = refusal("unready nodes", f"{unready} of 10 nodes are not ready") if is_refused else None
    assert expected == asked(measured(*nodes), max_unready_nodes=limit)


@pytest.mark.parametrize(("unready", "is_refused"), [(3, True), (2, True), (1, False)])
def test_nodes_that_become_ready_again(unready: int, is_refused: bool) -> None:
    """After there were too many unready nodes, half as many are still too many."""
    found = measured(*(replace(node(name), ready=False) for name in NAMES[:unready]))
    context = GuardContext(found, ReschedulingSettings(max_unready_nodes=0.2), NOW, too_many_unready=True)
    assert is_refused == (cluster_refusal(context) is not None)


def test_many_nodes_without_metrics() -> None:
    """Above `most_missing` of the load settings, half of the nodes."""
    assert asked(measured(names=NAMES[:5])) is None
    expected = refusal("missing metrics", "6 of 10 nodes have no usable metrics of cpu")
    assert expected == asked(measured(names=NAMES[:4]))


def test_old_metrics() -> None:
    """The newest of them decides; those of a single resource are enough."""
    assert asked(measured(at=NOW - 180)) is None
    expected = refusal("old metrics", "the newest metrics of cpu are 181 s old")
    assert expected == asked(measured(at=NOW - 181))


def test_no_metrics_at_all() -> None:
    """Missing data never reads as idle."""
    assert refusal("missing metrics", "10 of 10 nodes have no usable metrics of cpu") == asked(measured(names=()))


def test_metrics_that_jump() -> None:
    """All nodes become idle at once: while that is held back nothing is moved; once it is accepted, or old, it is over."""
    found = measured(at=NOW - 60)
    measured(share=0.0, at=NOW, found=found)
    expected = refusal("jump", "the metrics of nearly all nodes have jumped, and are held back")
    assert expected == asked(found)
    for step in range(1, 4):
        measured(share=0.0, at=NOW + 30 * step, found=found)
    assert asked(found, NOW + 90) is None


def test_a_jump_of_a_source_that_no_longer_answers() -> None:
    """What was held back longer ago than samples are trusted says nothing about the present."""
    found = measured(at=NOW - 60)
    measured(share=0.0, at=NOW, found=found)
    assert (
        "jump" == (asked(measured(at=NOW + 299, found=found, source="other"), NOW + 299) or Refusal("", "", "")).guard
    )
    assert asked(measured(at=NOW + 301, found=found, source="other"), NOW + 301) is None


def test_kinds_that_cannot_be_listed() -> None:
    """Without disruption budgets no guard could keep them."""
    found = asked(measured(), forbidden={"poddisruptionbudgets": "forbidden to list", "services": "x"})
    assert refusal("unreadable kinds", "poddisruptionbudgets cannot be listed: forbidden to list") == found
    assert asked(measured(), forbidden={"services": "x"}) is None


def test_windows() -> None:
    """10,000 s after the start of 1970 it is a quarter to three, UTC."""
    assert asked(measured(), windows=(Window("0 2 * * *", 3600.0),)) is None
    expected = refusal("window", "no window that allows moves is open")
    assert expected == asked(measured(), windows=(Window("0 3 * * *", 3600.0),))
