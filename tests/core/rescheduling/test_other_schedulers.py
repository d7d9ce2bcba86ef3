"""Pods that another process schedules: every node that its scheduler could choose must be worth the move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from tests import build
from tests.core.rescheduling.move_stage import EVICTING, MoveStage, workload_pod
from tests.core.rescheduling.test_planner import Placed, measured, moves
from trimtab.config.registry import default_profile
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.instructions import Evict
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.resources import CPU
from trimtab.core.rescheduling.guards import GuardContext
from trimtab.core.rescheduling.planner import Planner
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import Strategy
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

STOCK = default_profile("default-scheduler")
HOT: tuple[Placed, ...] = (("large", "a", 2.5), ("middle", "a", 0.9))


def cluster_of(
    *placed: Placed, nodes: Sequence[str] = ("a", "b", "c"), requests: dict[str, int] | None = None
) -> Cluster:
    """Pods of default-scheduler, which request little unless it is given in millicores."""
    cluster = measured(*placed, nodes=nodes)
    for pod in tuple(cluster.pods.values()):
        wanted = build.pod(pod.name, cpu=f"{(requests or {}).get(pod.name, 100)}m").requests
        cluster.upsert_pod(replace(pod, scheduler_name="default-scheduler", requests=wanted, version=9))
    return cluster


def plan(
    cluster: Cluster, *strategies: Strategy, others: tuple[str, ...] = ("default-scheduler",), **more: Any
) -> Plan:
    settings = ReschedulingSettings(
        limits={CPU: 0.8},
        required_gain=16.0,
        allow_last_replica=True,
        strategies=strategies or (ResourceOptimization(),),
    )
    planner = Planner(GuardContext(cluster, settings, 1500.0), {"default-scheduler": STOCK}.get, frozenset(others))
    for _ in planner.steps():
        pass
    assert planner.plan is not None
    return planner.plan


def reasons(found: Plan) -> dict[str, tuple[str, str]]:
    return {each.subject.removeprefix("default/"): (each.guard, each.reason) for each in found.refusals}


def test_the_target_is_the_node_that_the_scheduler_prefers() -> None:
    """By requests it is b, though c is emptier by load: ours would be nominated to c."""
    cluster = cluster_of(*HOT, ("x", "b", 0.5), ("y", "c", 0.1), requests={"large": 2000, "y": 2000})
    found = plan(cluster)
    assert [("middle", "a", "b")] == moves(found)
    assert ("b",) == found.moves[0].could_choose
    ours = plan(cluster, others=())
    assert [("middle", "a", "c")] == moves(ours)
    assert () == ours.moves[0].could_choose


def test_tied_nodes_must_all_be_worth_it() -> None:
    """Then the gain is the least of theirs, and all of them are named."""
    cluster = cluster_of(*HOT, ("x", "b", 1.6), ("y", "c", 0.5), requests={"large": 2000})
    (move,) = plan(cluster).moves
    assert ("default/middle", {"b", "c"}, move.could_choose[0]) == (move.pod, set(move.could_choose), move.target)
    (ours,) = plan(cluster, others=()).moves
    assert ("c", True) == (ours.target, ours.gain > move.gain)


def test_one_bad_choice_refuses_the_move() -> None:
    """b would be above its limit, and the scheduler does not know that."""
    cluster = cluster_of(*HOT, ("x", "b", 2.6), ("y", "c", 0.5), requests={"large": 2000})
    found = plan(cluster)
    assert [] == moves(found)
    assert ("scheduler's choice", "default-scheduler could choose b, which would exceed its limits") == reasons(found)[
        "middle"
    ]
    assert [("middle", "a", "c")] == moves(plan(cluster, others=()))


def test_a_pod_that_would_come_back_stays() -> None:
    """Its node has the fewest requests, however hot it is."""
    cluster = cluster_of(*HOT, ("x", "b", 0.5), ("y", "c", 0.5), requests={"x": 2000, "y": 2000})
    found = plan(cluster)
    assert [] == moves(found)
    assert ("scheduler's choice", "default-scheduler could choose a, where it is now") == reasons(found)["middle"]


def test_a_choice_that_gains_too_little() -> None:
    """b has room below its limit, but is nearly as hot as a; c would be the better one."""
    pods: tuple[Placed, ...] = (("large", "a", 2.65), ("middle", "a", 0.6), ("x", "b", 2.59), ("y", "c", 0.1))
    cluster = cluster_of(*pods, requests={"large": 2000, "y": 2000})
    assert [("middle", "a", "c")] == moves(plan(cluster, others=()))
    guard, reason = reasons(plan(cluster))["middle"]
    assert "scheduler's choice" == guard
    assert reason.startswith("default-scheduler could choose b, where it would gain ")
    assert reason.endswith(", which is not worth its cost of 16.0")


def test_a_node_without_metrics_could_be_chosen() -> None:
    """It is no target, and the scheduler does not care."""
    cluster = cluster_of(*HOT, ("x", "b", 0.5), requests={"large": 2000, "x": 2000}, nodes=("a", "b"))
    cluster.upsert_node(replace(cluster.node_table.nodes[0], name="unknown", uid="unknown", version=9))
    why = "default-scheduler could choose unknown, to which no pod should be moved"
    assert ("scheduler's choice", why) == reasons(plan(cluster))["middle"]


def test_each_move_counts_for_the_next_choice() -> None:
    """Two pods leave; by requests the second one goes where the first one did not."""
    pods = tuple((f"p{number}", "a", 0.9) for number in range(5))
    cluster = cluster_of(*pods, requests={name: 700 for name, _, _ in pods})
    found = plan(cluster)
    assert {"b", "c"} == {target for _, _, target in moves(found)[:2]}
    assert {"b", "c"} == set(found.moves[0].could_choose)
    assert (found.moves[1].target,) == found.moves[1].could_choose


@pytest.mark.parametrize(
    ("could_choose", "words"),
    [
        (("cold", "cool"), ""),
        (("cold", "mild"), "other could choose cool now"),
        (("cold",), "other could choose cool now"),
        ((), ""),  # Trimtab places it
    ],
)
def test_a_choice_that_was_not_planned(could_choose: tuple[str, ...], words: str) -> None:
    """Both emptier nodes are alike. If one of them was not found worth the move, the plan does not hold any more."""
    pod = replace(workload_pod("web-old"), scheduler_name="other")
    stage = MoveStage(pod, workload_pod("db-old"), **EVICTING)
    stage.state.settings = replaced(stage.state.settings, other_profiles=(default_profile("other"),))
    move = Move(pod.uid, pod.key, "hot", "cold", "s", "cpu at 95 %", 50.0, 32.0, could_choose=could_choose)
    stage.tell(stage.execution.carry_out(Plan(stage.at, (move,)), stage.at))
    assert words in stage.execution.skipped.get(pod.uid, "") and (not words) == bool(stage.take(Evict))
