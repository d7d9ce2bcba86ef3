"""Explaining a node: what suggests it, why each pod moves or stays, and what past plans had to do with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests import build
from tests.core.engine_harness import OURS, EngineHarness, node
from tests.core.rescheduling.test_planner import PROFILE, measured
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.events import Tick
from trimtab.core.model.plan import Move, Plan, Refusal
from trimtab.core.model.resources import CPU
from trimtab.core.model.steps import finish
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.explain import NodeOutlook, explain_rescheduling, explain_steps
from trimtab.core.rescheduling.guards import GuardContext
from trimtab.core.rescheduling.plan_history import PLANS_KEPT, PlanHistory
from trimtab.core.rescheduling.settings import ReschedulingSettings

BUSY = (("large", "a", 2.8), ("middle", "a", 0.9), ("x", "b", 1.5), ("y", "c", 0.8))


def explained(cluster: Cluster, name: str = "a", **settings: Any) -> NodeOutlook:
    chosen = {"limits": {CPU: 0.8}, "allow_last_replica": True, "required_gain": 16.0, **settings}
    guards = GuardContext(cluster, ReschedulingSettings(**chosen), 1500.0)
    return finish(explain_steps(guards, {OURS: PROFILE}.get, name))


def test_a_hot_node() -> None:
    """Its usage, who suggests it, and each pod with its best target; the plan would move the same pod."""
    found = explained(measured(*BUSY))
    assert "default/middle should move to c, unless moves of other nodes gain more" == found.verdict
    assert [("cpu", pytest.approx(0.925), 0.8)] == [(use.resource, use.usage, use.limit) for use in found.uses]
    assert ["ResourceOptimization"] == [each.strategy for each in found.suggested] and not found.silent
    best, other = found.pods
    assert ("default/middle", "c", 16.0) == (best.pod, best.target, best.cost) and best.gain > best.cost
    assert "default/large" == other.pod and found.penalty is not None and found.penalty > 0


def test_a_calm_node() -> None:
    """The strategies that say nothing are named."""
    found = explained(measured(*BUSY), "c")
    assert ("no pod leaves it: no strategy suggests the node", ("ResourceOptimization",)) == (
        *(found.verdict,),
        found.silent,
    )


def test_guards_that_refuse() -> None:
    """Each pod says which one; all of them are the verdict."""
    found = explained(measured(*BUSY), excluded_namespaces=("default",))
    assert "no pod leaves it: guards refuse to move all 2" == found.verdict
    assert {"excluded namespace"} == {each.guard for each in found.pods}


def test_no_gain_is_worth_it() -> None:
    """The best move, with both figures."""
    found = explained(measured(*BUSY), required_gain=1e6)
    assert found.verdict.startswith("no pod leaves it: no move is worth its disruption (the best gains ")


def test_no_target() -> None:
    """Nodes that would be above a limit with the pod are none."""
    found = explained(measured(("one", "a", 3.0), ("two", "a", 0.9), ("x", "b", 3.0), ("y", "c", 3.0)))
    assert "no pod leaves it: no other node would take one within its limits" == found.verdict
    assert {""} == {each.target for each in found.pods}


def test_a_node_without_samples() -> None:
    """Missing is never zero: nothing is said about its pods."""
    cluster = measured(*BUSY)
    cluster.upsert_node(build.node("new"))
    found = explained(cluster, "new")
    assert ("no pod leaves or joins it: no sample of its cpu is trusted", None, ()) == (
        *(found.verdict, found.penalty),
        found.pods,
    )


def test_a_scheduler_that_nobody_knows() -> None:
    """As the plan says it."""
    context = GuardContext(measured(*BUSY), ReschedulingSettings(limits={CPU: 0.8}, allow_last_replica=True), 1500.0)
    found = finish(explain_steps(context, lambda name: None, "a"))
    assert {"scheduler"} == {each.guard for each in found.pods}


def engine(**settings: Any) -> tuple[EngineHarness, Rescheduling]:
    found = EngineHarness(rescheduling=ReschedulingSettings(**settings))
    found.upsert(node("a"))
    return found, found.engine.controller(Rescheduling)


def test_past_plans() -> None:
    """The newest first, with what refused all moves; a standby or a fork has its own."""
    found, controller = engine()
    found.at += 10.0
    found.engine.handle(Tick(found.at))
    outlook = explain_rescheduling(controller, "a")
    assert outlook is not None and outlook.verdict.startswith("no pod is moved at all: missing metrics: 1 of 1 nodes")
    (plan,) = outlook.plans
    assert (10.0, True) == (plan.at, plan.words.startswith("nothing was moved at all: missing metrics: "))
    assert [plan.at for plan in controller.history] == [
        each.at for each in found.engine.fork().controller(Rescheduling).history
    ]


def test_what_a_plan_had_to_do_with_a_node() -> None:
    """Pods that left it, pods that came, or nothing."""
    _, controller = engine()
    move = Move("u", "shop/web", "b", "a", "HotSpot", "cpu is hot", 40.0, 32.0)
    controller.history.keep(Plan(1.0, (move,), (Refusal("shop/db", "job", "no"),)))
    controller.history.keep(Plan(2.0, (Move("u", "shop/web", "a", "b", "HotSpot", "cpu is hot", 40.0, 32.0),)))
    controller.history.keep(Plan(3.0, (), (Refusal("shop/db", "job", "no"),)))
    outlook = explain_rescheduling(controller, "a")
    assert outlook is not None
    assert [
        "0 moves, none of this node; 1 pods of suggested nodes were refused",
        "moves shop/web to b (HotSpot: cpu is hot)",
        "takes shop/web from b",
    ] == [each.words for each in outlook.plans]


def test_the_ring_is_bounded() -> None:
    """Old plans are dropped."""
    history = PlanHistory()
    for at in range(PLANS_KEPT + 3):
        history.keep(Plan(float(at)))
    assert [float(at) for at in range(PLANS_KEPT + 2, 2, -1)] == [plan.at for plan in history]


def test_without_a_rescheduler() -> None:
    """There is nothing to say, and neither about a node that is not known."""
    bare = EngineHarness()
    bare.upsert(node("a"))
    assert explain_rescheduling(bare.engine.controller(Rescheduling), "a") is None
    assert explain_rescheduling(engine()[1], "other") is None
