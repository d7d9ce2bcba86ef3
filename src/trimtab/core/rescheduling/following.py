"""Follows each move after its charge, by the answers of the API server and by what the watch shows, until it ends.

    by eviction:         CHARGED ─▶ EVICTED ─▶ PLACED ─▶ DONE, or FAILED
    replacement first:   CHARGED ─▶ SURGED ─▶ PLACED ─▶ LEAVING ─▶ DONE
                            └──────────┴─────────┴─▶ UNDOING ─▶ FAILED

A move is overdue after a time that depends on its state. A further replica is taken back until the API server confirms it:
before that neither a move that is LEAVING nor one that is UNDOING can end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from trimtab.core.controllers import EngineState, Output
from trimtab.core.model.events import EvictDone, EvictFailed, SurgeDone
from trimtab.core.model.instructions import EndSurge, Nominate
from trimtab.core.model.ledger import MoveRecord, MoveState
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.guards import owner_slot
from trimtab.core.rescheduling.ledger_keeper import LedgerKeeper

RETRY, LEAVE_TIMEOUT = 10.0, 60.0
TIMEOUTS: Mapping[MoveState, float] = MappingProxyType(
    {
        MoveState.CHARGED: 60.0,  # longer than the answer to a request may take
        MoveState.EVICTED: 300.0,
        MoveState.SURGED: 300.0,
        MoveState.PLACED: 600.0,
        MoveState.LEAVING: RETRY,
        MoveState.UNDOING: RETRY,
    }
)
GIVE_UP_AFTER = 1800.0  # since the charge, if one replacement after the other is lost
STUCK_AFTER = 60.0  # a replacement without a node for so long stops all moves
BEFORE_LEAVING = frozenset({MoveState.SURGED, MoveState.PLACED})
WAITS_FOR_NODE = frozenset({MoveState.CHARGED, MoveState.EVICTED, MoveState.SURGED})
MAX_MESSAGE = 300


class Following:
    """`leaving` are the pods of moves under way, as they were, by UID; `unsent` the moves whose charge is not written yet."""

    def __init__(self, state: EngineState, keeper: LedgerKeeper) -> None:
        self.state, self.keeper = state, keeper
        self.leaving: dict[str, Pod] = {}
        self.unsent: list[str] = []
        self._since: dict[str, float] = {}  # when a move came into its state, or was last tried

    def stop(self) -> None:
        for uid in self.leaving:
            self.state.cluster.release_reservation(uid)
        self.leaving, self.unsent, self._since = {}, [], {}

    @property
    def under_way(self) -> list[MoveRecord]:
        return [each for each in self.keeper.records.values() if each.under_way and self.keeper.follows(each)]

    @property
    def has_moves(self) -> bool:
        """Whether any move is followed; asked at each change of any pod."""
        return bool(self._since)

    def stuck(self, now: float) -> str:
        """A replacement, or a pod that nobody replaces, in words."""
        for each in self.under_way:
            waited = now - self._since.get(each.uid, now)
            if waited > STUCK_AFTER and self._misses_node(each):
                return f"the replacement of {each.key} has no node for {waited:.0f} s: is its scheduler running?"
        return ""

    def _misses_node(self, record: MoveRecord) -> bool:
        """A pod that terminates slowly is not replaced yet."""
        evicted = record.state is MoveState.EVICTED and (record.replacement or record.uid not in self._pods)
        return bool(evicted) or record.state is MoveState.SURGED

    @property
    def _pods(self) -> Mapping[str, Pod]:
        return self.state.cluster.pods

    def begin(self, record: MoveRecord, now: float) -> None:
        """A move was charged; it is sent when the ledger is written."""
        self.keeper.begin(record)
        self.leaving[record.uid] = self._pods[record.uid]
        self.unsent.append(record.uid)
        self._since[record.uid] = now
        self.state.recorder.move_changed(record)

    def put(self, record: MoveRecord, now: float) -> None:
        """The record as it is now; its time to the next state begins anew."""
        before = self.keeper.records.get(record.uid)
        record = replace(record, message=record.message[:MAX_MESSAGE], reason=record.reason[:MAX_MESSAGE])
        self.keeper.put(record)
        self._since[record.uid] = now
        if not record.under_way:
            self._forget(record.uid)
        if before is None or before.state is not record.state:
            self.state.recorder.move_changed(record)

    def _forget(self, uid: str) -> None:
        self.state.cluster.release_reservation(uid)
        self._since.pop(uid, None)
        self.leaving.pop(uid, None)

    def cancel(self, record: MoveRecord, reason: str, now: float) -> None:
        self.put(replace(record, state=MoveState.CANCELLED, message=reason, ended=now), now)

    # --- moves of an earlier leader

    def take_over(self, now: float) -> list[Output]:
        """What happened in the meantime is seen in the cluster; whether a charged move was sent, nobody knows."""
        outputs: list[Output] = []
        for uid in [uid for uid in self._since if not self._is_under_way(uid)]:
            self._forget(uid)
        for each in self.under_way:
            if each.uid not in self._since:
                outputs += self._resume(each, now)
        return outputs

    def _is_under_way(self, uid: str) -> bool:
        record = self.keeper.records.get(uid)
        return record is not None and record.under_way

    def _resume(self, record: MoveRecord, now: float) -> Sequence[Output]:
        self._since[record.uid] = now
        pod = self._pods.get(record.uid)
        if pod is not None:
            self.leaving[record.uid] = pod
        match record.state:
            case MoveState.LEAVING if record.left:
                return self._check_left(record, now)
            case MoveState.LEAVING:
                return (self._end_surge(record, record.pod),)
            case MoveState.UNDOING:
                return (self._end_surge(record, self._superfluous(record)),)
        if record.replacement not in self._pods:
            return self._seek_replacement(self._left_already(record, now), now)
        return self._replacement_changed(record, self._pods[record.replacement], now)

    def _left_already(self, record: MoveRecord, now: float) -> MoveRecord:
        if record.state is not MoveState.CHARGED or record.surge or not self._is_leaving(record.uid):
            return record
        evicted = replace(record, state=MoveState.EVICTED, left=now)
        self.put(evicted, now)
        return evicted

    # --- answers

    def evict_done(self, event: EvictDone) -> Sequence[Output]:
        record = self._charged(event.uid)
        if record is not None:
            self.put(replace(record, state=MoveState.EVICTED, left=event.at), event.at)
        return ()

    def evict_failed(self, event: EvictFailed) -> Sequence[Output]:
        """A disruption budget that is spent now is no fault of the workload: it is not held longer for it."""
        record = self._charged(event.uid)
        if record is None:
            return ()
        if event.unknown:
            self.put(replace(record, message=event.message), event.at)
        elif event.by_budget or not event.sent:
            self.cancel(record, event.message, event.at)
        else:
            self.put(replace(record, state=MoveState.REFUSED, message=event.message, ended=event.at), event.at)
        return ()

    def _charged(self, uid: str) -> MoveRecord | None:
        record = self.keeper.records.get(uid)
        return record if record is not None and record.state is MoveState.CHARGED and uid not in self.unsent else None

    def surge_done(self, event: SurgeDone) -> Sequence[Output]:
        record = self.keeper.records.get(event.uid)
        if record is None or not record.surge or event.uid in self.unsent:
            return ()
        return self._surge_ended(record, event.at) if event.ended else self._surge_started(record, event.at)

    def _surge_started(self, record: MoveRecord, now: float) -> Sequence[Output]:
        """Perhaps only after the move was given up: then it is undone at once."""
        if record.state is MoveState.CHARGED:
            surged = replace(record, state=MoveState.SURGED)
            self.put(surged, now)
            return self._seek_replacement(surged, now)
        return () if record.under_way or record.state is MoveState.DONE else self._fail(record, record.message, now)

    def _surge_ended(self, record: MoveRecord, now: float) -> Sequence[Output]:
        if record.state is MoveState.LEAVING and not record.left:
            record = replace(record, left=now)
            self.put(record, now)
            return self._check_left(record, now)
        if record.state is MoveState.UNDOING:
            self.put(replace(record, state=MoveState.FAILED, ended=now), now)
        return ()

    # --- what the watch shows

    def pod_upserted(self, before: Pod | None, pod: Pod, now: float) -> Sequence[Output]:
        for record in self.under_way:
            if record.uid == pod.uid:
                return self._old_pod_changed(record, now) if pod.terminating else ()
            if record.replacement == pod.uid:
                return self._replacement_changed(record, pod, now)
        for record in self.under_way if before is None and not (pod.terminating or pod.finished) else ():
            if self._awaits(record) and owner_slot(pod) == record.slot:
                return self._adopt(record, pod, now)
        return ()

    def pod_deleted(self, uid: str, now: float) -> Sequence[Output]:
        for record in self.under_way:
            if record.uid == uid:
                return self._old_pod_changed(record, now)
            if record.replacement == uid:
                return self._replacement_lost(record, now)
        return ()

    def _old_pod_changed(self, record: MoveRecord, now: float) -> Sequence[Output]:
        """It terminates, or is gone; the answer to its eviction was lost, or comes later."""
        if record.state is MoveState.CHARGED and not record.surge and record.uid not in self.unsent:
            self.put(replace(record, state=MoveState.EVICTED, left=now), now)
        elif record.state is MoveState.EVICTED and record.uid not in self._pods:
            self._since[record.uid] = now
        elif record.state is MoveState.LEAVING and record.left:
            return self._check_left(record, now)
        elif record.surge and record.state in BEFORE_LEAVING and self._is_leaving(record.uid):
            return self._fail(record, "it left before its replacement was ready", now)
        return ()

    def _is_leaving(self, uid: str) -> bool:
        pod = self._pods.get(uid)
        return pod is None or pod.terminating

    def _awaits(self, record: MoveRecord) -> bool:
        """Whether the next new pod of its owner is the replacement."""
        if record.replacement or record.uid in self.unsent:
            return False
        if record.surge:  # before it has a further replica, a new pod replaces another one
            return record.state is MoveState.SURGED
        return record.state in WAITS_FOR_NODE and self._is_leaving(record.uid)

    def _seek_replacement(self, record: MoveRecord, now: float) -> Sequence[Output]:
        """Among the pods that exist already; if there is none, it is waited for."""
        if record.replacement:
            if record.replacement in self._pods:
                return ()
            record = self._without_replacement(record, now)
        taken = {each.replacement for each in self.under_way}
        found = (pod for pod in self._pods.values() if pod.uid not in taken and _could_replace(pod, record))
        pod = next(found, None) if self._awaits(record) else None
        return self._adopt(record, pod, now) if pod is not None else ()

    def _adopt(self, record: MoveRecord, pod: Pod, now: float) -> Sequence[Output]:
        """The owner has created the replacement: it is nominated to the planned node."""
        state = record.state
        if state is MoveState.CHARGED:
            state = MoveState.SURGED if record.surge else MoveState.EVICTED
        left = 0.0 if record.surge else record.left or now
        record = replace(record, replacement=pod.uid, state=state, left=left)
        self.put(record, now)
        self.state.cluster.release_reservation(record.uid)
        if pod.pending and record.target:
            self.state.cluster.nominate(pod.uid, record.target)
            return (Nominate(pod.uid, pod.namespace, pod.name, record.target),)
        return self._replacement_changed(record, pod, now)

    def _replacement_changed(self, record: MoveRecord, pod: Pod, now: float) -> Sequence[Output]:
        if pod.terminating or pod.finished:
            return self._replacement_lost(record, now)
        if pod.node and record.state in WAITS_FOR_NODE:
            record = replace(record, state=MoveState.PLACED, node=pod.node)
            if pod.node == record.source:
                return self._fail(record, "its replacement came back to the node", now)
            self.put(record, now)
        if pod.ready and record.state is MoveState.PLACED:
            return self._replacement_ready(record, now)
        return ()

    def _replacement_lost(self, record: MoveRecord, now: float) -> Sequence[Output]:
        """Before it was ready: its owner creates another. One that was ready has done its part."""
        if record.state in (MoveState.LEAVING, MoveState.UNDOING):
            return ()
        if now - record.at > GIVE_UP_AFTER:
            return self._fail(record, "none of its replacements became ready", now)
        return self._seek_replacement(self._without_replacement(record, now), now)

    def _without_replacement(self, record: MoveRecord, now: float) -> MoveRecord:
        state = MoveState.SURGED if record.surge else MoveState.EVICTED
        waiting = replace(record, state=state, replacement="", node="")
        self.put(waiting, now)
        return waiting

    def _replacement_ready(self, record: MoveRecord, now: float) -> Sequence[Output]:
        if not record.surge:
            return self._finish(record, now)
        self.put(replace(record, state=MoveState.LEAVING), now)
        return (self._end_surge(record, record.pod),)

    def _check_left(self, record: MoveRecord, now: float) -> Sequence[Output]:
        return self._finish(record, now) if self._is_leaving(record.uid) else ()

    # --- the end

    def _finish(self, record: MoveRecord, now: float) -> Sequence[Output]:
        unready = 0.0 if record.surge else max(now - record.left, 0.0)
        self.put(replace(record, state=MoveState.DONE, ended=now, unready=unready), now)
        return ()

    def _fail(self, record: MoveRecord, reason: str, now: float) -> Sequence[Output]:
        """A further replica is taken back; whether there is one, its workload says."""
        record = replace(record, message=reason, ended=0.0)
        if not record.surge:
            self.put(replace(record, state=MoveState.FAILED, ended=now), now)
            return ()
        self.put(replace(record, state=MoveState.UNDOING), now)
        return (self._end_surge(record, self._superfluous(record)),)

    def _end_surge(self, record: MoveRecord, leaves: str) -> EndSurge:
        kind, _, name = record.workload.partition(" ")
        return EndSurge(record.uid, record.namespace, kind, name, leaves)

    def _superfluous(self, record: MoveRecord) -> str:
        """The pod to give up when a further replica is taken back: the replacement, or none in particular if the old pod has
        left anyway."""
        pod = None if self._is_leaving(record.uid) else self._pods.get(record.replacement)
        return pod.name if pod is not None else ""

    # --- time

    def tick(self, now: float) -> list[Output]:
        return [output for each in self._overdue(now) for output in self._give_up(each, now)]

    def _overdue(self, now: float) -> Iterator[MoveRecord]:
        for each in self.under_way:
            timeout = LEAVE_TIMEOUT if each.state is MoveState.LEAVING and each.left else TIMEOUTS[each.state]
            if each.uid in self._since and now >= self._since[each.uid] + timeout and each.uid not in self.unsent:
                yield each

    def _give_up(self, record: MoveRecord, now: float) -> Sequence[Output]:
        match record.state:
            case MoveState.CHARGED:
                return self._fail(record, record.message or "its outcome is not known", now)
            case MoveState.EVICTED:
                gone = record.uid not in self._pods
                why = "nobody replaced it in time" if gone else "it did not terminate in time"
                return self._fail(record, "its replacement got no node in time" if record.replacement else why, now)
            case MoveState.SURGED:
                return self._fail(record, "its replacement got no node in time", now)
            case MoveState.PLACED:
                return self._fail(record, "its replacement was not ready in time", now)
            case MoveState.LEAVING if record.left:
                self.put(replace(record, state=MoveState.FAILED, message="another pod left", ended=now), now)
                return ()
            case MoveState.LEAVING:
                self._since[record.uid] = now
                return (self._end_surge(record, record.pod),)
            case _:
                self._since[record.uid] = now
                return (self._end_surge(record, self._superfluous(record)),)


def _could_replace(pod: Pod, record: MoveRecord) -> bool:
    return (
        pod.uid != record.uid
        and owner_slot(pod) == record.slot
        and not pod.terminating
        and not pod.finished
        and pod.created >= int(record.at)
    )
