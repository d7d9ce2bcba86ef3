"""Moves in doubt: what changes around them must neither evict a pod nor leave a record or a replica behind."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import profile
from tests.core.rescheduling.measured_pods import NOW
from tests.core.rescheduling.move_stage import EVICTING, MoveStage, charged_record, workload_pod
from tests.core.rescheduling.test_approval import LEADER, MOVE, QUIET, Scene, waiting
from tests.core.rescheduling.test_following import NEW, OLD, UID, ended, surging
from trimtab.core.controllers import Output
from trimtab.core.model.events import (
    LedgerFailed,
    LedgerRead,
    LedgerWritten,
    NodeDeleted,
    PlanApproved,
    SettingsRead,
    SurgeDone,
    SurgeFailed,
)
from trimtab.core.model.instructions import Evict, Nominate, ReadLedger, StartSurge, WriteLedger
from trimtab.core.model.ledger import Ledger, MoveState, PublishedPlan
from trimtab.core.model.plan import Plan
from trimtab.core.rescheduling.settings import Method, Mode, ReschedulingSettings
from trimtab.core.settings import Settings


def observe(scene: Scene) -> None:
    """The file was changed, and reloaded."""
    settings = ReschedulingSettings(mode=Mode.OBSERVE, method=Method.EVICTION, allow_last_replica=True)
    scene.send(SettingsRead(Settings(profiles=(profile(),), rescheduling=settings), scene.at))


def approving(scene: Scene, plan: PublishedPlan, seconds: float) -> list[Output]:
    """What is asked for while somebody has approved the plan."""
    sent: list[Output] = []
    version = 50
    for _ in range(int(seconds / 5)):
        outputs = scene.pass_time(5.0)
        while outputs:
            sent += outputs
            answers: list[Output] = []
            for each in outputs:
                if isinstance(each, ReadLedger):
                    read = LedgerRead(Ledger(term=LEADER), scene.at, str(version), plan=plan, approved=plan.id)
                    answers += scene.send(read)
                elif isinstance(each, WriteLedger):
                    version += 1
                    answers += scene.send(LedgerWritten(str(version), scene.at))
            outputs = answers
    return sent


def test_no_plan_is_carried_out_in_observe_mode() -> None:
    """A plan that waits is withdrawn with the settings that it was made by, though a move is still followed."""
    scene, plan = waiting()
    scene.execution.records["x"] = replace(charged_record("x-y", scene.at, MoveState.PLACED), uid="x")
    scene.execution._following._since["x"] = scene.at
    observe(scene)
    assert [] == [each for each in approving(scene, plan, 60.0) if isinstance(each, Evict)]


def test_observing_does_not_depend_on_the_ledger() -> None:
    """Plans go on, though the ledger could not be written while moves were carried out."""
    scene = Scene(LEADER, mode=Mode.AUTO)
    scene.plan()
    scene.send(LedgerFailed("forbidden", scene.at))
    observe(scene)
    plans: list[Plan] = []
    for _ in range(20):
        scene.at += 30
        plans += [each for each in scene.plan() if isinstance(each, Plan)]
    assert plans and "stopped" not in {each.guard for each in plans[-1].refusals}


def test_the_source_is_gone() -> None:
    """Its pod is still there until somebody collects it."""
    scene = Scene(**QUIET)
    scene.send(NodeDeleted("a", NOW))
    scene.send(PlanApproved(Plan(NOW, (MOVE,)), NOW))
    assert {MOVE.uid: "node a does not exist any more"} == scene.execution.skipped


@pytest.mark.parametrize("step", [0.2, -0.2])
def test_a_clock_that_was_set_makes_no_second_record(step: float) -> None:
    """What is read back has other times than what was written."""
    scene = surging()
    scene.creates(NEW)
    scene.advance(10)
    assert scene.store.ledger is not None
    scene.store.ledger = scene.store.ledger.shifted(step)
    scene.store.version += 1
    scene.becomes_ready(NEW)
    scene.advance(30)
    ended(scene)
    scene.terminates(OLD)
    scene.deletes(OLD)
    scene.advance(60)
    assert [MoveState.DONE] == [each.state for each in scene.execution.records.values() if each.uid == UID]


def test_a_pod_that_replaces_another_is_no_replacement() -> None:
    """Its owner created it before it had a further replica; where that is impossible, the move goes its own way."""
    scene = MoveStage(workload_pod(OLD), workload_pod("web-b", "cool"))
    scene.charge(OLD)
    assert scene.take(StartSurge)
    scene.deletes("web-b")
    scene.creates("web-c")
    assert ({OLD: "charged"}, []) == (scene.states, scene.take(Nominate))
    impossible = SurgeFailed(UID, "HorizontalPodAutoscaler web sets its replicas", scene.at, impossible=True)
    scene.tell(scene.execution.surge_failed(impossible))
    assert MoveState.SURGED is not scene.record(OLD).state


def test_a_pod_is_moved_once_at_a_time() -> None:
    """Whatever the cool-down allows."""
    scene = MoveStage(
        workload_pod(OLD), *(workload_pod(f"web-{number}", "cool") for number in range(30)), cooldown=10.0
    )
    scene.charge(OLD)
    scene.tell(scene.execution.surge_done(SurgeDone(UID, scene.at)))
    scene.advance(15)
    scene.charge(OLD)
    assert {UID: "it is being moved"} == scene.execution.skipped
    assert 1 == sum(each.uid == UID for each in scene.execution.records.values())


def test_replacements_that_keep_dying() -> None:
    """After half an hour the further replica is taken back."""
    scene = surging()
    for number in range(8):
        scene.creates(f"web-n{number}")
        scene.shows(replace(scene.pod(f"web-n{number}"), node="cold", phase="Running"))
        scene.advance(290)
        scene.deletes(f"web-n{number}")
    assert {OLD: "undoing"} == scene.states


def test_a_replacement_that_failed() -> None:
    """The kubelet evicted it, so that it is Failed, and not deleted: the next one counts."""
    scene = surging()
    scene.creates(NEW)
    scene.shows(replace(scene.pod(NEW), node="cold", phase="Failed", ready=False))
    scene.creates("web-n2")
    scene.becomes_ready("web-n2")
    assert {OLD: "leaving"} == scene.states


def test_what_is_left_of_an_old_plan_has_a_reason() -> None:
    """Moves that were never charged are not forgotten without a word."""
    names = [f"w{number}-x" for number in range(4)]
    scene = MoveStage(*(workload_pod(name) for name in names), lead=True, max_in_progress=1, **EVICTING)
    scene.charge(*names)
    scene.advance(130)
    assert "the plan is too old" in scene.execution.skipped.values()
