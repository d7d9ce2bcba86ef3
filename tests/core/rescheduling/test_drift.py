"""What has changed since a plan was made is found move by move."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW, large, measured, running
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.node import Node
from trimtab.core.model.plan import Move
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.drift import drifted_moves
from trimtab.core.rescheduling.guards import GuardContext
from trimtab.core.rescheduling.settings import ReschedulingSettings

WEB = running("web", "a")
MOVE = Move("uid-web", "default/web", "a", "b", "ResourceOptimization", "cpu at 95%, above 80%", 80.0, 32.0)
GONE = "there is no pod with its UID any more"


def cluster(web: Pod = WEB, cpu: float = 9000.0, target: Node | None = None, busy: float = 0.0) -> Cluster:
    """Two nodes of ten cores; `web` uses a third of what the first one does."""
    nodes = (large("a"), target if target is not None else large("b"))
    usage = {"web": [cpu / 3] * 6, "rest": [cpu * 2 / 3] * 6, "there": [busy] * 6}
    return measured(*nodes, web, running("rest", "a", "rest"), running("there", "b", "there"), cpu=usage)


def drift(found: Cluster, *moves: Move) -> dict[str, str]:
    return drifted_moves(moves or (MOVE,), GuardContext(found, ReschedulingSettings(), NOW))


def test_nothing_has_changed() -> None:
    """A plan of this moment has no reason against it."""
    assert {} == drift(cluster())


def changed(**fields: Any) -> Move:
    return replace(MOVE, **fields)


@pytest.mark.parametrize(
    ("found", "move", "reason"),
    [
        (cluster(), changed(uid="earlier"), GONE),
        (cluster(running("web", "b")), MOVE, "it runs on b now, and not on a"),
        (cluster(replace(WEB, terminating=True)), MOVE, "it is being deleted"),
        (cluster(), changed(target="c"), "node c does not exist any more"),
        (cluster(), changed(target=""), "the plan has no target for it"),
        (cluster(target=replace(large("b"), unschedulable=True)), MOVE, "node b takes no pods now: it is cordoned"),
        (cluster(target=replace(large("b"), ready=False)), MOVE, "node b takes no pods now: it is cordoned"),
        (cluster(busy=6000.0), MOVE, "node b would be above its limits with it"),
        (cluster(cpu=3000.0), MOVE, "it would gain 0.3 now, which is not worth its cost of 32.0"),
    ],
)
def test_a_reason_for_each_change(found: Cluster, move: Move, reason: str) -> None:
    """Of the pod, of the target, and of the load."""
    assert drift(found, move)[move.uid].startswith(reason)


def test_a_move_that_was_not_planned_for_its_gain() -> None:
    """A node under maintenance is emptied even if the load does not get better."""
    assert {} == drift(cluster(cpu=3000.0), changed(gain=1.0))


def test_each_move_counts_for_the_next() -> None:
    """The node has room for one of them only."""
    second = Move("uid-rest", "default/rest", "a", "b", "ResourceOptimization", "cpu at 95%, above 80%", 80.0, 32.0)
    assert {"uid-rest": "node b would be above its limits with it"} == drift(cluster(busy=1000.0), MOVE, second)


def test_an_unmeasured_node() -> None:
    """Missing is never idle."""
    found = cluster()
    found.upsert_node(large("c"))
    assert {"uid-web": "no sample of the cpu of c is trusted"} == drift(found, changed(target="c"))
