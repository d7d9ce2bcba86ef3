"""Carries out the moves of a plan: each is charged to the ledger first, then sent, then followed until it ends.

    plan ─▶ queue ─▶ guards and budgets again ─▶ WriteLedger ──written──▶ Evict ─▶ EVICTED ─▶ PLACED ─▶ DONE
              │                  │                   └─conflict─▶ read again, the plan is dropped       └─▶ FAILED
              └─ too old ────────┴─▶ dropped
                                             or, replacement first:  StartSurge ─▶ SURGED ─▶ PLACED ─▶ EndSurge ─▶ DONE

A new leader reads the ledger and writes it with its own term, so that the writes of an earlier leader fail, and takes over
the moves under way. What it cannot know counts as moved. States are in `core/model/ledger.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from trimtab.core.model.instructions import EmitEvent, EndSurge, Evict, Nominate, ReadLedger, StartSurge, WriteLedger
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState, OwnerSlot
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.approval import Approval
from trimtab.core.rescheduling.drift import drifted_moves
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
from trimtab.core.rescheduling.move_budgets import longest_window, spent_budget
from trimtab.core.rescheduling.rehearsal import Rehearsal
from trimtab.core.rescheduling.settings import Method, ReschedulingSettings

PLAN_TTL = 120.0  # seconds after which what is left of a plan is dropped
ANSWER_TIMEOUT = 60.0  # for the outcome of an eviction or a surge
REPLACEMENT_TIMEOUT, READY_TIMEOUT, LEAVE_TIMEOUT = 300.0, 600.0, 60.0
STUCK_AFTER = 60.0  # a replacement without a node for so long stops all moves
TAKEOVER_WAIT = 15.0  # the lease of an earlier leader
RETRY, WRITE_INTERVAL = 10.0, 2.0
MAX_DOUBLINGS = 6
MIN_KEPT, KEPT_SECONDS = 200, 86_400.0
NOT_READ = "the ledger of moves has not been read"
WAITS_FOR_NODE = frozenset({MoveState.CHARGED, MoveState.EVICTED, MoveState.SURGED})
NONE_SKIPPED: Mapping[str, str] = MappingProxyType({})
ZONE_LABEL = "topology.kubernetes.io/zone"


class Execution:
    """The moves of this process, while it leads; `records` are the ledger as it is known here, by the UID of the pod that
    leaves."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.records: dict[str, MoveRecord] = {}
        self.pause = ""
        self.problem = NOT_READ
        self._term: int | None = None
        self._version = ""
        self._reading = self._writing = self._dirty = False
        self._not_before = self._next_write = self._next_read = -inf
        self._queue: list[Move] = []
        self._planned_at = -inf
        self.approval = Approval()
        self.skipped: dict[str, str] = {}  # why moves of the last plan were not charged, by UID
        self._charged: list[str] = []  # sent when the write under way has succeeded
        self._deadlines: dict[str, float] = {}
        self._leaving: dict[str, Pod] = {}  # the pods of moves under way, as they were

    def fork(self, state: EngineState) -> Execution:
        copied = Execution(state)
        copied.records, copied.pause = self.records.copy(), self.pause
        return copied

    @property
    def settings(self) -> ReschedulingSettings:
        settings = self.state.settings.rescheduling
        assert settings is not None
        return settings

    # --- what guards need to know

    def guard_context(self, now: float, besides: str = "", evicting: bool = False) -> GuardContext:
        """With all moves but that of the pod `besides`."""
        under_way = {
            uid: self._under_way(each) for uid, each in self.records.items() if each.under_way and uid != besides
        }
        return GuardContext(
            self.state.cluster,
            self.settings,
            now,
            self.holds(besides),
            under_way,
            self.state.forbidden,
            self.why_stopped(now),
            evicting,
            tuple(self.records.values()),
        )

    def _under_way(self, record: MoveRecord) -> UnderWay:
        """Its room on the target counts until the replacement has a node."""
        target = record.target if record.state in WAITS_FOR_NODE else ""
        return UnderWay(record.slot, record.replacement, target, self._leaving.get(record.uid))

    def holds(self, besides: str = "") -> dict[OwnerSlot, float]:
        """Until when each owner's pods stay where they are; after each failure in a row twice as long."""
        holds: dict[OwnerSlot, float] = {}
        failures: dict[OwnerSlot, int] = {}
        for uid, each in self.records.items():
            if uid == besides or each.state is MoveState.CANCELLED:
                continue
            failed = each.state in (MoveState.FAILED, MoveState.REFUSED)
            failures[each.slot] = failures.get(each.slot, 0) + 1 if failed else 0
            doubled = 2 ** min(failures[each.slot], MAX_DOUBLINGS)
            holds[each.slot] = max(holds.get(each.slot, 0.0), each.at + self.settings.cooldown * doubled)
        return holds

    def why_stopped(self, now: float) -> str:
        if self.pause:
            return f"moves are paused: {self.pause}"
        if self._term is None:
            return ""
        if self.problem:
            return self.problem
        if now < self._not_before:
            return "another process led until a moment ago"
        stuck = next((each for each in self._waiting() if now - each.left > STUCK_AFTER), None)
        if stuck is not None:
            return f"the replacement of {stuck.key} has no node for {now - stuck.left:.0f} s: is its scheduler running?"
        return ""

    def _waiting(self) -> Iterator[MoveRecord]:
        """Moves whose pod has left, or whose workload has a further replica, and whose replacement has no node."""
        states = (MoveState.EVICTED, MoveState.SURGED)
        return (each for each in self.records.values() if each.state in states)

    # --- the ledger

    def lead(self, term: int) -> Sequence[Output]:
        if self._term == term:
            return ()
        self.stop()
        self._term, self.problem = term, NOT_READ
        return self._read()

    def stop(self) -> None:
        """This process does not lead: all that it knows may change without it."""
        self._term = None
        self._reading = self._writing = self._dirty = False
        self._queue, self._charged, self._deadlines, self._leaving = [], [], {}, {}
        self.approval = Approval()

    def _read(self) -> Sequence[Output]:
        if self._reading:
            return ()
        self._reading = True
        return (ReadLedger(),)

    def ledger_read(self, event: LedgerRead) -> Sequence[Output]:
        if self._term is None or not self._reading:
            return ()
        self._reading = False
        if event.ledger is None:
            self.problem, self._next_read = event.problem, event.at + RETRY
            return ()
        if not self.problem and event.version == self._version:
            return ()
        known, self.records, self.problem = self.records, {}, NOT_READ
        for each in event.ledger.records:
            mine = known.get(each.uid)
            self.records[each.uid] = mine if mine is not None and mine.term == self._term and mine.under_way else each
        if event.ledger.term != self._term and event.ledger.records and self._leads:
            self._not_before = event.at + TAKEOVER_WAIT
        self._version, self._dirty = event.version, True
        for each in self._followed():
            self._resume(each, event.at)
        self._charged = []
        self._check_approval(event)
        return self._write(event.at)

    @property
    def _leads(self) -> bool:
        """Without a lease, as in `trimtab apply`, the term is negative, and a leader may move other pods at the same time."""
        return self._term is None or self._term >= 0

    def _followed(self) -> list[MoveRecord]:
        """The moves under way that this process may take further: the leader all of them, others none of a leader's."""
        return [each for each in self.records.values() if each.under_way and (self._leads or each.term < 0)]

    @property
    def is_waiting(self) -> bool:
        """Whether moves wait to be sent, or changes to be written."""
        return bool(self._queue or self._charged or self._writing or self._reading or self._dirty)

    @property
    def is_ready(self) -> bool:
        """Whether the ledger is ours."""
        return self._term is not None and not self.problem

    def _resume(self, record: MoveRecord, now: float) -> None:
        """A move of an earlier leader, or one that was charged by a write whose answer was lost."""
        if record.uid in self._charged:
            self._put(replace(record, state=MoveState.CANCELLED, message="the ledger was written by someone else"), now)
            return
        if record.at > now:
            record = self.records[record.uid] = replace(record, at=now)
        self._deadlines.setdefault(record.uid, now + ANSWER_TIMEOUT)
        if not record.replacement:
            found = (pod for pod in self.state.cluster.pods.values() if self._replaces(pod, record))
            if (pod := next(found, None)) is not None:
                self._adopt(record, pod, now)

    @staticmethod
    def _replaces(pod: Pod, record: MoveRecord) -> bool:
        return pod.uid != record.uid and owner_slot(pod) == record.slot and pod.created >= int(record.at)

    def _write(self, now: float) -> Sequence[Output]:
        if self._term is None or self._writing or self._reading or not self._dirty:
            return ()
        if self.problem not in ("", NOT_READ):
            return ()
        self._prune(now)
        self._writing, self._dirty, self._next_write = True, False, now + WRITE_INTERVAL
        ledger = Ledger(term=self._term, records=tuple(self.records.values()))
        return (WriteLedger(ledger, self._version, self.approval.waiting),)

    def _prune(self, now: float) -> None:
        """Records that no budget, hold or grade needs go, the oldest first."""
        since = now - max(KEPT_SECONDS, longest_window(self.settings.budgets))
        surplus = len(self.records) - MIN_KEPT
        for uid in [uid for uid, each in self.records.items() if not each.under_way and each.at < since][
            : max(surplus, 0)
        ]:
            del self.records[uid]

    def ledger_written(self, event: LedgerWritten) -> Sequence[Output]:
        if self._term is None or not self._writing:
            return ()
        self._writing, self._version, self.problem = False, event.version, ""
        charged, self._charged = self._charged, []
        outputs = [output for uid in charged for output in self._send(self.records[uid], event.at)]
        return [*outputs, *self._charge(event.at)]

    def ledger_failed(self, event: LedgerFailed) -> Sequence[Output]:
        """Somebody else wrote it, or the answer was lost: nothing is sent, and the ledger is read again."""
        if self._term is None or not self._writing:
            return ()
        self._writing, self._queue = False, []
        self.problem = f"the ledger of moves was not written: {event.message}"
        self._next_read = event.at + WRITE_INTERVAL
        return ()

    # --- plans of others

    def publish(self, plan: Plan, now: float) -> Sequence[Output]:
        """Let the plan wait for approval."""
        if not self._leads:
            return ()
        self.approval.publish(plan, now)
        self._dirty = True
        return self._write(now)

    def _look_for_approval(self, now: float) -> Sequence[Output]:
        if self.problem or self._writing or not self._leads:
            return ()
        self._dirty |= self.approval.expire(now)
        return self._read() if self.approval.look_is_due(now) else ()

    def _check_approval(self, event: LedgerRead) -> None:
        if not self._leads:
            self.approval.waiting = event.plan  # of the leader, which must find it again
        elif (plan := self.approval.take(event)) is not None:
            self.approve(plan, event.at)

    def approve(self, plan: Plan, now: float) -> Sequence[Output]:
        """Carry out what is left of an earlier plan: what has changed since is checked move by move."""
        skipped = drifted_moves(plan.moves, self.guard_context(now))
        return self.carry_out(replace(plan, at=now), now, skipped)

    # --- from the plan to the API server

    def carry_out(self, plan: Plan, now: float, skipped: Mapping[str, str] = NONE_SKIPPED) -> Sequence[Output]:
        """`skipped`: the reasons why some of its moves are left out, by UID."""
        self._queue = [each for each in plan.moves if each.uid not in skipped]
        self._planned_at, self.skipped = plan.at, dict(skipped)
        return self._charge(now)

    def _charge(self, now: float) -> Sequence[Output]:
        """Charge as many moves as may be in progress."""
        if now - self._planned_at > PLAN_TTL:
            self._queue = []
        if self._writing or self._reading or not self._queue or self._term is None:
            return ()
        if cluster_refusal(self.guard_context(now)) is not None:
            return ()
        room = self.settings.max_in_progress - sum(each.state in WAITS_FOR_NODE for each in self.records.values())
        rehearsal = Rehearsal(self.state.cluster, self.state.settings.any_profile_of)
        while self._queue and room > 0:
            move = self._queue.pop(0)
            record = self._record_of(move, rehearsal, now)
            if isinstance(record, str):
                self.skipped[move.uid] = record
            else:
                self.records.pop(record.uid, None)  # an earlier attempt that was cancelled
                self._put(record, now, ANSWER_TIMEOUT)
                self._charged.append(record.uid)
                room -= 1
        return self._write(now)

    def _record_of(self, move: Move, rehearsal: Rehearsal, now: float) -> MoveRecord | str:
        """Or the reason that the cluster, or an earlier move of this plan, gives now."""
        pod = self.state.cluster.pods.get(move.uid)
        if pod is None or pod.owner is None or pod.node != move.source:
            return f"it does not run on {move.source} any more"
        if (refused := refusal(self.guard_context(now), pod)) is not None:
            return f"{refused.guard}: {refused.reason}"
        if not self._still_fits(pod, move, rehearsal):
            return f"its scheduler would not place it on {move.target} any more"
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
            term=self._term or 0,
            surge=surge,
            promised=move.promised,
            relief=move.relief,
        )
        if spent := spent_budget(self.settings.budgets, self.records.values(), record):
            return spent
        self._leaving[pod.uid] = pod
        return record

    def _still_fits(self, pod: Pod, move: Move, rehearsal: Rehearsal) -> bool:
        if not move.target:
            return True
        feasible, row = rehearsal.feasible(pod), self.state.cluster.node_table.row.get(move.target)
        return feasible is not None and row is not None and bool(feasible[row])

    def _zone(self, node: str) -> str:
        table = self.state.cluster.node_table
        row = table.row.get(node)
        return "" if row is None else dict(table.nodes[row].labels).get(ZONE_LABEL, "")

    def _send(self, record: MoveRecord, now: float) -> Sequence[Output]:
        """The charge is written; guards are asked for the last time."""
        pod = self.state.cluster.pods.get(record.uid)
        context = self.guard_context(now, besides=record.uid, evicting=not record.surge)
        refused = None if pod is None else cluster_refusal(context) or refusal(context, pod)
        if pod is None or refused is not None:
            reason = "it is gone" if refused is None else refused.reason
            self._put(replace(record, state=MoveState.CANCELLED, message=reason), now)
            return ()
        self._deadlines[record.uid] = now + ANSWER_TIMEOUT
        if record.surge:
            kind, _, name = record.workload.partition(" ")
            return (StartSurge(record.uid, record.namespace, kind, name),)
        return self._evict(record)

    def _evict(self, record: MoveRecord) -> Sequence[Output]:
        note = f"Moving it from node {record.source} to {record.target or 'another node'}: {record.reason}"
        return (
            Evict(record.uid, record.namespace, record.pod, record.reason),
            EmitEvent(record.uid, record.namespace, record.pod, "Rescheduled", note, action="Rescheduling"),
        )

    # --- answers

    def evict_done(self, event: EvictDone) -> Sequence[Output]:
        record = self.records.get(event.uid)
        if record is not None and record.state is MoveState.CHARGED:
            self._put(replace(record, state=MoveState.EVICTED, left=event.at), event.at, REPLACEMENT_TIMEOUT)
        return ()

    def evict_failed(self, event: EvictFailed) -> Sequence[Output]:
        """A disruption budget that is spent now is no fault of the workload: it is not held longer for it."""
        record = self.records.get(event.uid)
        if record is None or record.state is not MoveState.CHARGED:
            return ()
        if event.unknown:
            self._put(replace(record, message=event.message), event.at, ANSWER_TIMEOUT)
        else:
            state = MoveState.CANCELLED if event.by_budget else MoveState.REFUSED
            self._put(replace(record, state=state, message=event.message), event.at)
        return self._charge(event.at)

    def surge_done(self, event: SurgeDone) -> Sequence[Output]:
        record = self.records.get(event.uid)
        if record is None:
            return ()
        match record.state:
            case MoveState.CHARGED:
                self._put(replace(record, state=MoveState.SURGED, left=event.at), event.at, REPLACEMENT_TIMEOUT)
            case MoveState.LEAVING:
                self._deadlines[record.uid] = event.at + LEAVE_TIMEOUT
                return self._check_left(replace(record, left=event.at), event.at)
            case MoveState.UNDOING:
                self._put(replace(record, state=MoveState.FAILED, ended=event.at), event.at)
        return ()

    def surge_failed(self, event: SurgeFailed) -> Sequence[Output]:
        """Where a workload cannot have one replica more, its pod is evicted, if that is allowed."""
        record = self.records.get(event.uid)
        if record is None or record.state is not MoveState.CHARGED:
            return ()  # sent again after its deadline
        if event.unknown:
            return self._undo(replace(record, message=event.message), event.at)
        if self.settings.method is Method.REPLACEMENT_ONLY:
            self._put(replace(record, state=MoveState.REFUSED, message=event.message), event.at)
            return ()
        evicting = replace(record, surge=False, message=f"not replaced first: {event.message}")
        self._put(evicting, event.at)
        return self._send(evicting, event.at)

    # --- what the watch shows

    def pod_upserted(self, before: Pod | None, pod: Pod, now: float) -> Sequence[Output]:
        for record in self._followed():
            if record.uid == pod.uid:
                return self._old_pod_changed(record, pod, now)
            if record.replacement == pod.uid:
                return self._replacement_changed(record, pod, now)
            awaited = record.state in WAITS_FOR_NODE and not record.replacement
            if awaited and before is None and not pod.terminating and owner_slot(pod) == record.slot:
                return self._adopt(record, pod, now)
        return ()

    def pod_deleted(self, uid: str, now: float) -> Sequence[Output]:
        for record in self._followed():
            if record.uid == uid and record.state is MoveState.LEAVING:
                return self._finish(record, now)
            if record.replacement == uid:  # its owner will create another
                state = MoveState.SURGED if record.surge else MoveState.EVICTED
                if record.state is not MoveState.UNDOING:
                    self._put(replace(record, state=state, replacement="", node=""), now, REPLACEMENT_TIMEOUT)
        return ()

    def _old_pod_changed(self, record: MoveRecord, pod: Pod, now: float) -> Sequence[Output]:
        if not pod.terminating:
            return ()
        if record.state is MoveState.CHARGED and not record.surge:  # its answer was lost, or comes later
            self._put(replace(record, state=MoveState.EVICTED, left=now), now, REPLACEMENT_TIMEOUT)
        elif record.state is MoveState.LEAVING:
            return self._finish(record, now)
        return ()

    def _adopt(self, record: MoveRecord, pod: Pod, now: float) -> Sequence[Output]:
        """The owner has created the replacement: it is nominated to the planned node."""
        state = record.state
        if state is MoveState.CHARGED:
            state = MoveState.SURGED if record.surge else MoveState.EVICTED
        record = replace(record, replacement=pod.uid, state=state, left=record.left or now)
        self._put(record, now, REPLACEMENT_TIMEOUT)
        if pod.pending and record.target:
            self.state.cluster.nominate(pod.uid, record.target)
            return (Nominate(pod.uid, pod.namespace, pod.name, record.target),)
        return self._replacement_changed(record, pod, now)

    def _replacement_changed(self, record: MoveRecord, pod: Pod, now: float) -> Sequence[Output]:
        outputs: list[Output] = []
        if pod.node and record.state in WAITS_FOR_NODE:
            record = replace(record, state=MoveState.PLACED, node=pod.node)
            if pod.node == record.source:
                return self._fail(replace(record, message="its replacement came back to the node"), now)
            self._put(record, now, READY_TIMEOUT)
            outputs += self._charge(now)
        if pod.ready and record.state is MoveState.PLACED:
            outputs += self._replacement_ready(record, now)
        return outputs

    def _replacement_ready(self, record: MoveRecord, now: float) -> Sequence[Output]:
        if not record.surge:
            return self._finish(record, now)
        self._put(replace(record, state=MoveState.LEAVING, left=0.0), now, RETRY)  # until it is given up
        return (self._end_surge(record, record.pod),)

    def _check_left(self, record: MoveRecord, now: float) -> Sequence[Output]:
        pod = self.state.cluster.pods.get(record.uid)
        self.records[record.uid] = record
        return self._finish(record, now) if pod is None or pod.terminating else ()

    def _finish(self, record: MoveRecord, now: float) -> Sequence[Output]:
        unready = 0.0 if record.surge else max(now - record.left, 0.0)
        self._put(replace(record, state=MoveState.DONE, ended=now, unready=unready), now)
        return ()

    def _fail(self, record: MoveRecord, now: float) -> Sequence[Output]:
        if record.surge:
            return self._undo(record, now)
        self._put(replace(record, state=MoveState.FAILED, ended=now), now)
        return ()

    def _undo(self, record: MoveRecord, now: float) -> Sequence[Output]:
        """Take the further replica back; whether there is one, its workload says."""
        self._put(replace(record, state=MoveState.UNDOING), now, RETRY)
        return (self._end_surge(record, self._replacement_name(record)),)

    def _end_surge(self, record: MoveRecord, leaves: str) -> EndSurge:
        kind, _, name = record.workload.partition(" ")
        return EndSurge(record.uid, record.namespace, kind, name, leaves)

    def _replacement_name(self, record: MoveRecord) -> str:
        pod = self.state.cluster.pods.get(record.replacement)
        return pod.name if pod is not None else ""

    # --- time

    def tick(self, now: float) -> list[Output]:
        outputs: list[Output] = []
        for uid, deadline in list(self._deadlines.items()):
            if now >= deadline:
                del self._deadlines[uid]
                outputs += self._overdue(self.records[uid], now) if uid in self.records else ()
        if self._term is not None and self.problem and not self._writing and now >= self._next_read:
            self._next_read = now + RETRY
            outputs += self._read()
        outputs += [*self._look_for_approval(now), *self._charge(now)]
        self._grade(now)
        if now >= self._next_write:
            outputs += self._write(now)
        return outputs

    def _grade(self, now: float) -> None:
        if not self.is_ready or not self._leads:
            return
        for record, grade in grade_moves(self.state.cluster, self.settings, tuple(self.records.values()), now):
            graded = self.records[record.uid] = replace(record, grades=(*record.grades, grade))
            self._dirty = True
            self.state.recorder.move_graded(graded, grade)

    def _overdue(self, record: MoveRecord, now: float) -> Sequence[Output]:
        pod = self.state.cluster.pods.get(record.uid)
        match record.state:
            case MoveState.CHARGED:
                return self._fail(replace(record, message=record.message or "its outcome is not known"), now)
            case MoveState.EVICTED:
                reason = "nobody replaced it in time" if pod is None else "it did not terminate in time"
                return self._fail(replace(record, message=reason), now)
            case MoveState.SURGED:
                return self._fail(replace(record, message="its replacement got no node in time"), now)
            case MoveState.PLACED:
                return self._fail(replace(record, message="its replacement was not ready in time"), now)
            case MoveState.LEAVING if record.left:
                self._put(replace(record, state=MoveState.FAILED, message="another pod left", ended=now), now)
            case MoveState.LEAVING:
                self._deadlines[record.uid] = now + RETRY
                return (self._end_surge(record, record.pod),)
            case MoveState.UNDOING:
                self._deadlines[record.uid] = now + RETRY
                return (self._end_surge(record, self._replacement_name(record)),)
        return ()

    def _put(self, record: MoveRecord, now: float, timeout: float | None = None) -> None:
        """The record as it is now; `timeout` seconds until it is overdue, None once the move has ended."""
        before = self.records.get(record.uid)
        self.records[record.uid], self._dirty = record, True
        if timeout is None or not record.under_way:
            self._deadlines.pop(record.uid, None)
            self._leaving.pop(record.uid, None)
        else:
            self._deadlines[record.uid] = now + timeout
        if before is None or before.state is not record.state:
            self.state.recorder.move_changed(record)
