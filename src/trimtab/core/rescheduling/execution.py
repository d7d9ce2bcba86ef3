"""Carries out the moves of a plan: each is charged to the ledger first, then sent, then followed until it ends.

    plan ─▶ queue ─▶ guards and budgets again ─▶ WriteLedger ──written──▶ guards again ─▶ Evict or StartSurge ─▶ following.py
              │                  │                   └─failed─▶ cancelled, and the plan is dropped
              └─ too old ────────┴─▶ dropped

`ledger_keeper.py` reads and writes the ledger. A new leader takes over the moves under way; what it cannot know counts as
moved. States are in `core/model/ledger.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType

from msgspec.structs import replace

from trimtab.core.controllers import EngineState, Output
from trimtab.core.model.events import (
    EvictDone,
    EvictFailed,
    LedgerFailed,
    LedgerRead,
    LedgerWritten,
    SurgeDone,
    SurgeFailed,
)
from trimtab.core.model.instructions import EmitEvent, Evict, StartSurge
from trimtab.core.model.ledger import MoveRecord, MoveState
from trimtab.core.model.node import ZONE
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.drift import drifted_moves
from trimtab.core.rescheduling.following import WAITS_FOR_NODE, Following
from trimtab.core.rescheduling.grading import grade_moves
from trimtab.core.rescheduling.guards import (
    GuardContext,
    UnderWay,
    can_surge,
    cluster_refusal,
    owner_slot,
    refusal,
    workload_name,
)
from trimtab.core.rescheduling.guards.cluster import unready_nodes
from trimtab.core.rescheduling.ledger_keeper import NOT_READ, LedgerKeeper
from trimtab.core.rescheduling.move_budgets import SEND_WITHIN, holds, spent_budget
from trimtab.core.rescheduling.rehearsal import Rehearsal
from trimtab.core.rescheduling.reservations import with_replacements
from trimtab.core.rescheduling.settings import Method, Mode, ReschedulingSettings

__all__ = ["NOT_READ", "Execution"]

PLAN_TTL = 120.0  # seconds after which what is left of a plan is dropped
SCHEDULER_SHOWN = 3600.0  # for how long a replacement that got a node shows that its scheduler is at work
NONE_SKIPPED: Mapping[str, str] = MappingProxyType({})


class Execution:
    """The moves of this process, while it leads."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.pause = ""
        self.scheduler_problems: dict[str, str] = {}  # by the scheduler's name; empty for one that is at work
        self._keeper = LedgerKeeper()
        self._following = Following(state, self._keeper)
        self._too_many_unready = False
        self._queue: list[Move] = []
        self._planned_at = -inf
        self.skipped: dict[str, str] = {}  # why moves of the last plan were not charged, by UID

    def fork(self, state: EngineState) -> Execution:
        copied = Execution(state)
        copied.pause, copied._keeper.records = self.pause, self._keeper.records.copy()
        copied.scheduler_problems = self.scheduler_problems.copy()
        return copied

    @property
    def settings(self) -> ReschedulingSettings:
        settings = self.state.settings.rescheduling
        assert settings is not None
        return settings

    @property
    def records(self) -> dict[str, MoveRecord]:
        """The ledger as it is known here: the last attempt to move a pod by its UID, earlier ones by UID and time."""
        return self._keeper.records

    @property
    def problem(self) -> str:
        return self._keeper.problem

    @property
    def is_active(self) -> bool:
        """Whether this process follows moves that have not ended, or has not written how they ended."""
        return self._leads and bool(self._following.under_way or self._keeper.is_dirty)

    # --- what guards need to know

    def guard_context(self, now: float, besides: str = "", evicting: bool = False) -> GuardContext:
        """With all moves but that of the pod `besides`."""
        records = {uid: each for uid, each in self.records.items() if uid != besides}
        context = GuardContext(
            self.state.cluster,
            self.settings,
            now,
            holds(sorted(records.values(), key=lambda each: each.at), self.settings.cooldown),
            {each.uid: self._under_way(each) for each in records.values() if each.under_way},
            self.state.forbidden,
            self.why_stopped(now),
            evicting,
            tuple(self.records.values()),
            self.scheduler_problems,
            self._too_many_unready,
        )
        self._too_many_unready = bool(unready_nodes(context))
        return context

    def _under_way(self, record: MoveRecord) -> UnderWay:
        """Its room on the target counts until the replacement has a node."""
        target = record.target if record.state in WAITS_FOR_NODE else ""
        return UnderWay(record.slot, record.replacement, target, self._following.leaving.get(record.uid))

    def why_stopped(self, now: float) -> str:
        if self.pause:
            return f"moves are paused: {self.pause}"
        if self.settings.mode is Mode.OBSERVE:
            return ""  # nothing depends on the ledger
        if self.state.unsynced and self._keeper.term is not None:
            return f"{', '.join(sorted(self.state.unsynced))} must be listed first"
        return self._keeper.why_stopped(now) or self._following.stuck(now)

    # --- the ledger

    def lead(self, term: int) -> Sequence[Output]:
        if self._keeper.term == term:
            return ()
        self.stop()
        return self._keeper.lead(term)

    def stop(self) -> None:
        """This process does not lead."""
        self._queue = []
        self._keeper.stop()
        self._following.stop()

    def drop_plan(self, reason: str, now: float) -> None:
        """Nothing of it is sent any more."""
        self._queue = []
        unsent, self._following.unsent = self._following.unsent, []
        for uid in unsent:
            self._following.cancel(self.records[uid], reason, now)

    def settings_changed(self, now: float) -> None:
        """What was planned by other settings is neither sent nor waits for approval any more."""
        self.drop_plan("the settings have changed", now)
        if self._keeper.approval.waiting is not None and self._keeper.is_leader:
            self._keeper.approval.waiting, self._keeper.is_dirty = None, True

    def ledger_read(self, event: LedgerRead) -> Sequence[Output]:
        if not self._keeper.read(event):
            return ()
        approved = self._check_approval(event)
        return [*approved, *self._following.take_over(event.at), *self._keeper.write(event.at, self.settings)]

    @property
    def ledger_problem(self) -> str:
        """Why moves wait for the ledger; empty if they do not, or are not carried out here."""
        return self.problem if self._leads else ""

    def ledger_written(self, event: LedgerWritten) -> Sequence[Output]:
        if not self._keeper.written(event):
            return ()
        unsent, self._following.unsent = self._following.unsent, []
        outputs = [output for uid in unsent for output in self._send(self.records[uid], event.at)]
        return [*outputs, *self._charge(event.at)]

    def ledger_failed(self, event: LedgerFailed) -> Sequence[Output]:
        """Somebody else wrote it, or the answer was lost: nothing is sent, and the ledger is read again."""
        if self._keeper.failed(event):
            self.drop_plan(self._keeper.problem, event.at)
        return ()

    # --- plans of others

    def publish(self, plan: Plan, now: float) -> Sequence[Output]:
        """Let the plan wait for approval."""
        if not self._keeper.is_leader:
            return ()
        self._keeper.approval.publish(plan, now)
        self._keeper.is_dirty = True
        return self._keeper.write(now, self.settings)

    def _check_approval(self, event: LedgerRead) -> Sequence[Output]:
        approval = self._keeper.approval
        if not self._keeper.is_leader:
            approval.waiting = event.plan  # of the leader, which must find it again
        elif self.settings.mode is Mode.APPROVE and (plan := approval.take(event)) is not None:
            return self.approve(plan, event.at)
        return ()

    def approve(self, plan: Plan, now: float) -> Sequence[Output]:
        """Carry out what is left of an earlier plan: what has changed since is checked move by move."""
        skipped = drifted_moves(plan.moves, self.guard_context(now))
        return self.carry_out(replace(plan, at=now), now, skipped)

    # --- from the plan to the API server

    @property
    def is_waiting(self) -> bool:
        """Whether moves wait to be sent, or changes to be written."""
        return bool(self._queue or self._following.unsent or self._keeper.is_busy or self._keeper.is_dirty)

    def carry_out(self, plan: Plan, now: float, skipped: Mapping[str, str] = NONE_SKIPPED) -> Sequence[Output]:
        """`skipped`: the reasons why some of its moves are left out, by UID."""
        self._queue = [each for each in plan.moves if each.uid not in skipped]
        self._planned_at, self.skipped = plan.at, dict(skipped)
        return self._charge(now)

    def _charge(self, now: float) -> Sequence[Output]:
        """Charge as many moves as may be in progress."""
        if now - self._planned_at > PLAN_TTL:
            self.skipped.update((each.uid, "the plan is too old") for each in self._queue)
            self._queue = []
        if not self._queue or self._keeper.term is None or self._keeper.is_busy:
            return ()
        room = self._room(now)
        context = self.guard_context(now)
        if room <= 0 or cluster_refusal(context) is not None:
            return ()
        reserved, live = with_replacements(self.state.cluster, context.under_way), self.state.cluster
        fork = live.fork() if reserved is live else reserved
        rehearsal = Rehearsal(fork, self.state.settings.any_profile_of)
        while self._queue and room > 0:
            move = self._queue.pop(0)
            record = self._record_of(move, rehearsal, now)
            if isinstance(record, str):
                self.skipped[move.uid] = record
            else:
                self._following.begin(record, now)
                room -= 1
        return self._keeper.write(now, self.settings)

    def _room(self, now: float) -> int:
        """How many more moves may be in progress: one, until a replacement of late has shown that a scheduler is at work."""
        shown = any(each.node and each.at > now - SCHEDULER_SHOWN for each in self.records.values())
        return (self.settings.max_in_progress if shown else 1) - self._in_progress()

    def _in_progress(self) -> int:
        return sum(each.state in WAITS_FOR_NODE for each in self.records.values())

    def _record_of(self, move: Move, rehearsal: Rehearsal, now: float) -> MoveRecord | str:
        """Or the reason that the cluster, or an earlier move of this plan, gives now."""
        pod = self.state.cluster.pods.get(move.uid)
        if pod is None or pod.owner is None or pod.node != move.source:
            return f"it does not run on {move.source} any more"
        known = self.records.get(pod.uid)
        if known is not None and known.under_way:
            return "it is being moved"
        if (refused := refusal(self.guard_context(now), pod)) is not None:
            return f"{refused.guard}: {refused.reason}"
        if misfit := rehearsal.misfit(pod, move):
            return misfit
        surge = self.settings.method is not Method.EVICTION and can_surge(pod)
        if not surge and self.settings.method is Method.REPLACEMENT_ONLY:
            return "its workload cannot have a further replica, and method replacementOnly never evicts"
        record = MoveRecord(
            uid=pod.uid,
            namespace=pod.namespace,
            pod=pod.name,
            workload=workload_name(pod, pod.owner),
            slot=owner_slot(pod),
            source=move.source,
            target=move.target,
            strategy=move.strategy,
            at=now,
            state=MoveState.CHARGED,
            reason=move.reason,
            gain=move.gain,
            cost=move.cost,
            zone=self._zone(move.source),
            term=self._keeper.term or 0,
            surge=surge,
            attempt=f"{self._keeper.term or 0}-{now:.3f}",
            promised=move.promised,
            relief=move.relief,
        )
        if spent := spent_budget(self.settings.budgets, self.records.values(), record):
            return spent
        if move.target:
            rehearsal.move(pod, move.target)
        return record

    def _zone(self, node: str) -> str:
        table = self.state.cluster.node_table
        row = table.row.get(node)
        return "" if row is None else dict(table.nodes[row].labels).get(ZONE, "")

    def _send(self, record: MoveRecord, now: float) -> Sequence[Output]:
        """The charge is written; guards are asked for the last time."""
        reason = self._why_not(record, now)
        if reason:
            self._following.cancel(record, reason, now)
            return ()
        self._following.put(record, now)
        if record.target:
            self.state.cluster.reserve(self.state.cluster.pods[record.uid], record.target)
        until = record.at + SEND_WITHIN
        if record.surge:
            kind, _, name = record.workload.partition(" ")
            return (StartSurge(record.uid, record.namespace, kind, name, until),)
        note = f"Moving it from node {record.source} to {record.target or 'another node'}: {record.reason}"
        return (
            Evict(record.uid, record.namespace, record.pod, record.reason, int(self.settings.grace_period), until),
            EmitEvent(record.uid, record.namespace, record.pod, "Rescheduled", note, action="Rescheduling"),
        )

    def _why_not(self, record: MoveRecord, now: float) -> str:
        pod = self.state.cluster.pods.get(record.uid)
        if pod is None:
            return "it is gone"
        if now > record.at + SEND_WITHIN:
            return "the ledger took too long"
        context = self.guard_context(now, besides=record.uid, evicting=not record.surge)
        refused = cluster_refusal(context) or refusal(context, pod)
        return refused.reason if refused is not None else ""

    # --- answers, and what the watch shows

    def evict_done(self, event: EvictDone) -> Sequence[Output]:
        return self._following.evict_done(event) if self._leads else ()

    def evict_failed(self, event: EvictFailed) -> Sequence[Output]:
        return [*self._following.evict_failed(event), *self._charge(event.at)] if self._leads else ()

    def surge_done(self, event: SurgeDone) -> Sequence[Output]:
        return self._following.surge_done(event) if self._leads else ()

    def surge_failed(self, event: SurgeFailed) -> Sequence[Output]:
        """Where a workload cannot have one replica more, its pod is evicted, if that is allowed."""
        record = self.records.get(event.uid)
        charged = record is not None and record.surge and record.state is MoveState.CHARGED
        if record is None or not charged or not self._leads or record.uid in self._following.unsent:
            return ()
        if event.unknown:
            self._following.put(replace(record, message=event.message), event.at)
        elif not event.impossible:
            self._following.cancel(record, event.message, event.at)
        elif self.settings.method is Method.REPLACEMENT_ONLY:
            refused = replace(record, state=MoveState.REFUSED, message=event.message, ended=event.at)
            self._following.put(refused, event.at)
        else:
            instead = replace(record, surge=False, message=f"not replaced first: {event.message}")
            return self._send(instead, event.at)
        return self._charge(event.at)

    def pod_upserted(self, before: Pod | None, pod: Pod, now: float) -> Sequence[Output]:
        if not self._leads or not self._following.has_moves:
            return ()
        waiting = self._in_progress()
        outputs = self._following.pod_upserted(before, pod, now)
        return [*outputs, *self._charge(now)] if self._in_progress() < waiting else outputs

    def pod_deleted(self, uid: str, now: float) -> Sequence[Output]:
        return self._following.pod_deleted(uid, now) if self._leads and self._following.has_moves else ()

    @property
    def _leads(self) -> bool:
        return self._keeper.term is not None

    # --- time

    def tick(self, now: float) -> list[Output]:
        if not self._leads:
            return []
        outputs = self._following.tick(now)
        outputs += self._charge(now)
        self._grade(now)
        outputs += self._keeper.tick(now, self.settings)
        return outputs

    def _grade(self, now: float) -> None:
        if self._keeper.problem or not self._keeper.is_leader:
            return
        for record, grade in grade_moves(self.state.cluster, self.settings, tuple(self.records.values()), now):
            graded = replace(record, grades=(*record.grades, grade))
            self._keeper.put(graded)
            self.state.recorder.move_graded(graded, grade)
