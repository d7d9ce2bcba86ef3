"""Approved plans: a leader's moves are left to it, skipped moves have reasons, and a plan waits in the ledger."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import OURS, profile
from tests.core.rescheduling.measured_pods import NOW, large, readings, running
from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import (
    LeaseAcquired,
    LedgerFailed,
    LedgerRead,
    LedgerWritten,
    NodeUpserted,
    PlanApproved,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Evict, Instruction, ReadLedger, WriteLedger
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState, PublishedPlan
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.approval import APPROVAL_TTL, LOOK_INTERVAL
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.execution import Execution
from trimtab.core.rescheduling.settings import Method, Mode, ReschedulingSettings
from trimtab.core.settings import Settings

APPLIER, LEADER = -7, 3
MOVE = Move("uid-web", "default/web", "a", "b", "ResourceOptimization", "cpu at 90%, above 80%", 80.0, 32.0)
OTHER = Move("uid-other", "default/other", "a", "b", "ResourceOptimization", "cpu at 90%, above 80%", 80.0, 32.0)
QUIET: dict[str, Any] = {"strategies": ()}


class Scene:
    """Two nodes of ten cores, of which the first is hot, and a rescheduler of this term that has read an empty ledger."""

    def __init__(self, term: int = APPLIER, ledger: Ledger | None = None, **settings: Any) -> None:
        chosen = {"mode": Mode.APPROVE, "method": Method.EVICTION, "allow_last_replica": True, "interval": 300.0}
        rescheduling = ReschedulingSettings(**{**chosen, **settings})
        self.engine = Engine(Settings(profiles=(profile(),), rescheduling=rescheduling))
        self.at, self.version = NOW, 0
        self.outputs: list[Output] = []
        for kind in self.engine.state.settings.kinds:
            self.send(Synced(kind, NOW))
        self.send(*(NodeUpserted(each, NOW) for each in (large("a"), large("b"))))
        self.send(*(PodUpserted(self.pod(name), NOW) for name in ("web", "other", "rest")))
        usage = {"web": 3000.0, "other": 3000.0, "rest": 3000.0}
        cluster = self.engine.cluster
        measured = (*readings(cluster, CPU, usage, NOW), *readings(cluster, MEMORY, {}, NOW))
        self.send(SamplesRead(measured, NOW), LeaseAcquired(term, NOW), Tick(NOW))
        assert ReadLedger() in self.outputs
        self.send(LedgerRead(ledger or Ledger(), NOW, "0"))
        self.written()

    @staticmethod
    def pod(name: str) -> Pod:
        return replace(running(name, "a", name), scheduler_name=OURS, phase="Running")

    @property
    def execution(self) -> Execution:
        return self.engine.controller(Rescheduling).execution

    def send(self, *events: Any) -> list[Output]:
        self.outputs = [output for event in events for output in self.engine.handle(event)]
        return self.outputs

    def written(self) -> list[Output]:
        """The write that was asked for last has succeeded."""
        assert self.asked(WriteLedger)
        self.version += 1
        return self.send(LedgerWritten(str(self.version), self.at))

    def asked(self, kind: type[Instruction]) -> list[Any]:
        return [each for each in self.outputs if isinstance(each, kind)]

    def pass_time(self, seconds: float) -> list[Output]:
        self.at += seconds
        return self.send(Tick(self.at))

    def plan(self) -> list[Output]:
        """Let it plan itself, with as many turns as that takes."""
        found = list(self.send(Tick(self.at)))
        while self.engine.has_work():
            found += self.send(Turn(8, self.at))
        self.outputs = found
        return found


# --- an approved plan


def test_an_approved_plan_is_charged_and_sent() -> None:
    """Whatever age it has: who approves it has judged that."""
    scene = Scene(**QUIET)
    scene.send(PlanApproved(Plan(NOW - 500.0, (MOVE,)), NOW))
    (write,) = scene.asked(WriteLedger)
    assert [("uid-web", MoveState.CHARGED, APPLIER)] == [
        (each.uid, each.state, each.term) for each in write.ledger.records
    ]
    scene.written()
    assert ["uid-web"] == [each.uid for each in scene.asked(Evict)]


def test_skipped_moves_have_reasons() -> None:
    """By what has drifted, by a guard, and by a budget that an earlier move has spent; nothing is evicted for them."""
    scene = Scene(**QUIET, excluded_namespaces=("default",))
    gone = replace(MOVE, uid="uid-gone")
    assert [] == scene.send(PlanApproved(Plan(NOW, (gone, MOVE)), NOW))
    assert {
        "uid-gone": "there is no pod with its UID any more",
        "uid-web": "excluded namespace: default is excluded",
    } == {uid: reason.replace("namespace default", "default") for uid, reason in scene.execution.skipped.items()}


def test_only_a_rescheduler_that_may_move_pods_does() -> None:
    """In observe mode an approval has no effect."""
    scene = Scene(**QUIET)
    scene.engine.state.settings = Settings(profiles=(profile(),), rescheduling=ReschedulingSettings())
    assert [] == scene.send(PlanApproved(Plan(NOW, (MOVE,)), NOW))


def test_a_conflict_drops_what_was_not_charged() -> None:
    """Nothing is sent; once the ledger was read again nothing waits, and the plan may be submitted again."""
    scene = Scene(**QUIET)
    scene.send(PlanApproved(Plan(NOW, (MOVE,)), NOW))
    scene.send(LedgerFailed("conflict", NOW))
    assert [] == scene.asked(Evict)
    scene.pass_time(5.0)
    assert [ReadLedger()] == scene.outputs
    scene.send(LedgerRead(Ledger(), scene.at, "9"))
    scene.written()
    assert ([MoveState.CANCELLED], False) == (states(scene), scene.execution.is_waiting)
    scene.send(PlanApproved(Plan(NOW, (MOVE,)), scene.at))
    scene.written()
    assert ["uid-web"] == [each.uid for each in scene.asked(Evict)]


def states(scene: Scene) -> list[MoveState]:
    return [each.state for each in scene.execution.records.values()]


def record(term: int) -> MoveRecord:
    slot = ("default", "uid-other", "")
    names = ("uid-other", "default", "other", "ReplicaSet other", slot, "a", "b", "HotSpot")
    return MoveRecord(*names, NOW - 5.0, MoveState.EVICTED, term=term, left=NOW - 5.0)


@pytest.mark.parametrize(
    ("term", "of", "state"),
    [
        (APPLIER, LEADER, MoveState.EVICTED),
        (APPLIER, -5, MoveState.PLACED),
        (LEADER, -5, MoveState.PLACED),
        (LEADER, 2, MoveState.PLACED),
    ],
)
def test_who_follows_a_move(term: int, of: int, state: MoveState) -> None:
    """A leader all moves; who applies a plan none of a leader, which may run at the same time."""
    scene = Scene(term, Ledger(term=of, records=(record(of),)), **QUIET)
    fresh = replace(scene.pod("other"), uid="uid-new", name="new", node="", created=NOW, ready=False, version=1)
    scene.send(
        PodDeleted("uid-other", NOW), PodUpserted(fresh, NOW), PodUpserted(replace(fresh, node="b", version=2), NOW)
    )
    assert state is scene.execution.records["uid-other"].state


def test_who_applies_a_plan_need_not_wait_for_the_leader() -> None:
    """The ledger is the fence between them; a new leader waits until the one before has surely ended."""
    ledger = Ledger(term=1, records=(replace(record(1), state=MoveState.DONE),))
    assert "" == Scene(APPLIER, ledger, **QUIET).execution.why_stopped(NOW)
    assert "another process led until a moment ago" == Scene(LEADER, ledger, **QUIET).execution.why_stopped(NOW)


# --- a plan that waits


def waiting() -> tuple[Scene, PublishedPlan]:
    """A leader in approve mode has planned, and its plan is in the ledger's ConfigMap."""
    scene = Scene(LEADER, max_moves=1)
    scene.plan()
    (write,) = scene.asked(WriteLedger)
    assert isinstance(write.plan, PublishedPlan) and 1 == len(write.plan.moves)
    scene.written()
    return scene, write.plan


def test_a_plan_waits() -> None:
    """Nothing is charged; while it waits the ledger is read every few seconds, and an unchanged one changes nothing."""
    scene, _ = waiting()
    assert ([], {}) == (scene.asked(Evict), scene.execution.records)
    assert [ReadLedger()] == scene.pass_time(LOOK_INTERVAL)
    assert [] == scene.send(LedgerRead(Ledger(term=LEADER), scene.at, str(scene.version)))


def look(scene: Scene, approved: str) -> list[Output]:
    """The ConfigMap was annotated, so its version is another one."""
    scene.pass_time(LOOK_INTERVAL)
    scene.send(LedgerRead(Ledger(term=LEADER), scene.at, "99", approved=approved))
    return scene.outputs


def test_an_approved_plan_is_carried_out_once() -> None:
    """It is withdrawn with its approval first, then charged, then sent."""
    scene, plan = waiting()
    look(scene, plan.id)
    assert [None] == [each.plan for each in scene.asked(WriteLedger)]
    scene.written()
    (charge,) = scene.asked(WriteLedger)
    assert [plan.moves[0].uid] == [each.uid for each in charge.ledger.records]
    scene.written()
    assert [plan.moves[0].uid] == [each.uid for each in scene.asked(Evict)]


def test_the_approval_of_another_plan() -> None:
    """It has been replaced: the newer one goes on waiting."""
    scene, plan = waiting()
    look(scene, "0badc0de")
    assert [plan] == [each.plan for each in scene.asked(WriteLedger)]
    scene.written()
    assert {} == scene.execution.records


def test_a_plan_does_not_wait_for_ever() -> None:
    """It is withdrawn, and nobody looks for its approval any more."""
    scene, _ = waiting()
    scene.engine.controller(Rescheduling)._next_plan = 1e12
    scene.pass_time(APPROVAL_TTL + 1.0)
    assert [None] == [each.plan for each in scene.asked(WriteLedger)]
    scene.written()
    assert [] == scene.pass_time(LOOK_INTERVAL)


def test_an_approval_that_comes_too_late() -> None:
    """A conflict shows it: the plan is withdrawn all the same."""
    scene, plan = waiting()
    scene.pass_time(LOOK_INTERVAL)
    scene.send(LedgerRead(Ledger(term=LEADER), scene.at + APPROVAL_TTL + 1.0, "99", approved=plan.id))
    assert [None] == [each.plan for each in scene.asked(WriteLedger)]
    scene.written()
    assert {} == scene.execution.records


def test_the_same_moves_have_the_same_id() -> None:
    """Who has looked at a plan may approve it after it was made again."""
    (_, first), (_, second) = waiting(), waiting()
    assert first.id == second.id


def test_who_applies_a_plan_keeps_the_one_that_waits() -> None:
    """The leader must find it again."""
    plan = PublishedPlan("12345678", NOW, (OTHER,))
    scene = Scene(**QUIET)
    scene.execution._keeper.problem = "written by someone else"
    scene.pass_time(11.0)
    scene.send(LedgerRead(Ledger(), scene.at, "9", plan=plan))
    assert [plan] == [each.plan for each in scene.asked(WriteLedger)]
