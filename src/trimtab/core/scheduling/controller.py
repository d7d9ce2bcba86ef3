"""The scheduling controller: keeps the queue of pending pods, and schedules and binds them in the engine's turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, ClassVar, cast

from trimtab.core.controllers import Changed, Controller, EngineState, Output
from trimtab.core.framework.profile import Profile
from trimtab.core.model.change import Change
from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    GetPodFailed,
    LeaseLost,
    NodeDeleted,
    ObjectDeleted,
    ObjectUpserted,
    PodDeleted,
    PodUpserted,
    PreemptDone,
    PreemptFailed,
    SettingsRead,
    StageAnswered,
    Synced,
)
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Decision
from trimtab.core.scheduling import pod_events
from trimtab.core.scheduling.binding import AWAITING_ANSWER, BindingCycle, BindingCycles, BindState
from trimtab.core.scheduling.cycle import PodCycle
from trimtab.core.scheduling.evaluator import Evaluator
from trimtab.core.scheduling.gang import Gangs
from trimtab.core.scheduling.gang_cycle import GangCycle
from trimtab.core.scheduling.plugin_state import PodObservers
from trimtab.core.scheduling.preemption import Preemption
from trimtab.core.scheduling.queue.pods_by_claim import Pods, PodsByClaim
from trimtab.core.scheduling.queue.queue import SchedulingQueue
from trimtab.core.scheduling.queue.queue_events import cluster_event
from trimtab.core.scheduling.queue.queued_pod import QueuedPod, QueueState
from trimtab.core.scheduling.requeue import ERROR, Requeuer
from trimtab.core.scheduling.waiting import waiting_of

MAX_DECISIONS = 10_000
READ_BACK = frozenset({BindFailure.UNKNOWN, BindFailure.CONFLICT})
Handler = Callable[[Any], Sequence[Output]]
AnswerHandler = Callable[[Any], Sequence[Output | PodDeleted]]


class Scheduling(Controller):
    """Schedules the pods that name one of the profiles."""

    answers: ClassVar[frozenset[type]] = frozenset(
        {BindDone, BindFailed, GetPodDone, GetPodFailed, PreemptDone, PreemptFailed, StageAnswered}
    )

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.queue = SchedulingQueue(recorder=state.recorder)
        self.pods_by_claim = PodsByClaim()
        self.decisions: deque[Decision] = deque(maxlen=MAX_DECISIONS)  # the newest, for explanations
        self.observers = PodObservers(state)
        self.evaluator = Evaluator(state)
        self._compose(BindingCycles(state))
        self._apply_settings()

    def _compose(self, bindings: BindingCycles) -> None:
        state, queue = self.state, self.queue
        self.bindings = bindings
        self.gangs = Gangs(state, queue)
        self.requeuer = Requeuer(state, queue, bindings, self.evaluator, self.gangs)
        self.preemption = Preemption(state, queue, bindings, self.evaluator, self.requeuer)
        self.pod_cycle = PodCycle(state, queue, bindings, self.evaluator, self.preemption, self.requeuer)
        self.gang_cycle = GangCycle(state, queue, bindings, self.gangs, self.pod_cycle)
        self._on_change: Mapping[type, Handler] = {
            PodUpserted: self._pod_upserted,
            PodDeleted: self._pod_deleted,
            NodeDeleted: self._node_deleted,
            ObjectUpserted: self._object_changed,
            ObjectDeleted: self._object_changed,
            LeaseLost: self._lease_lost,
            SettingsRead: self._settings_read,
            Synced: self._kind_readable,
        }
        self._on_answer: Mapping[type, AnswerHandler] = {
            BindDone: self._bind_done,
            BindFailed: self._bind_failed,
            GetPodDone: self._pod_read,
            GetPodFailed: self._read_failed,
            PreemptDone: self.preemption.answered,
            PreemptFailed: self.preemption.answered,
            StageAnswered: self._stage_answered,
        }

    def fork(self, state: EngineState) -> Scheduling:
        """Cached evaluations are not copied, for they can be computed again."""
        copied = object.__new__(Scheduling)
        copied.state, copied.queue = state, self.queue.copy(state.recorder)
        copied.pods_by_claim = self.pods_by_claim.copy()
        copied.decisions, copied.evaluator = self.decisions.copy(), Evaluator(state)
        copied.observers = self.observers.fork(state)
        copied._compose(self.bindings.fork(state))
        copied.gangs.copy_from(self.gangs)
        copied.preemption.copy_from(self.preemption)
        copied.requeuer.last_reported = self.requeuer.last_reported.copy()
        copied.requeuer.log_reader = self.requeuer.log_reader.copy()
        return copied

    def on_change(self, changed: Changed) -> Sequence[Output]:
        handler = self._on_change.get(type(changed.event))
        return handler(changed) if handler is not None else self._wake_waiting(changed)

    def on_answer(self, answer: Event) -> Sequence[Output | PodDeleted]:
        return self._on_answer[type(answer)](answer)

    def _wake_waiting(self, changed: Changed, also: Change = Change.NOTHING, pods: Pods = None) -> list[Output]:
        """Wake those that wait for this change, or what else changed with it (of these pods, if any are named)."""
        change, before = changed.change | also, changed.before
        if not change:
            return []
        event = cluster_event(change, before, changed.after)
        gave_up = before if isinstance(before, Pod) else None
        self.requeuer.wake(change, changed.event.at, pods, event, gave_up)
        return self._resume_waiting(change, changed.event.at, pods)

    def _wake_after(self, freed: Change, now: float) -> list[Output]:
        """Wake those that wait for what a binding cycle gave back."""
        self.requeuer.wake(freed, now)
        return self._resume_waiting(freed, now)

    def _resume_waiting(self, change: Change, now: float, pods: Pods = None) -> list[Output]:
        outputs: list[Output] = []
        for cycle in self.bindings.waiting_for(change, pods):
            outputs += self._resume(cycle, now)
        return outputs

    def _resume(self, cycle: BindingCycle, now: float, error: str = "") -> list[Output]:
        """Run the stages again, unless the cycle has ended or its bind was sent meanwhile."""
        cycles = self.bindings.by_uid
        if cycle.state is not BindState.WAITING or cycles.get(cycle.pod.uid) is not cycle:
            return []
        outputs = self.pod_cycle.resume(cycle, now, error)
        if cycle.pod.uid in cycles:
            return outputs
        return outputs + self._wake_after(Change.POD_DELETED | Change.PLUGIN_STATE, now)

    # --- turns and ticks

    def has_work(self) -> bool:
        return self.bindings.below_cap() and self.queue.has_ready()

    def turn(self, budget: int, now: float) -> Sequence[Output]:
        """Of pods that back off it tries one at most: there may be thousands, and what arrives next need not wait."""
        self.queue.tick(now)
        outputs: list[Output] = []
        for _ in range(budget):
            if not self.bindings.below_cap() or (entry := self.queue.pop(now)) is None:
                break
            outputs += self._schedule_one(entry, now)
            if not self.queue.has_active():
                break
        self._keep_decisions(outputs, now)
        return outputs

    def _keep_decisions(self, outputs: Sequence[Output], now: float) -> None:
        explains = self.state.recorder.wants_explanations()
        for output in outputs:
            if isinstance(output, Decision):
                self.decisions.append(output)
                pod = self.state.cluster.pods.get(output.uid)
                if explains and (waited := waiting_of(self.queue, output.uid, pod)) is not None:
                    steps = "; ".join(f"{now - each.at:.3f} s ago {each.queue}: {each.cause}" for each in waited.steps)
                    self.state.recorder.waited(output.pod, now - waited.since, waited.attempts, steps)

    def _schedule_one(self, entry: QueuedPod, now: float) -> list[Output]:
        """A plugin that raises costs its own pod this attempt; the others go on."""
        pod = self.state.cluster.pods[entry.uid]
        profile = self.state.settings.profile_of(pod.scheduler_name)
        if profile is None:
            self.queue.delete(pod.uid, now)
            return []
        timer = self.state.recorder.timer()
        notes = self.gangs.ignored_label(pod, profile) if entry.attempts == 1 else []
        try:
            outputs = self.gang_cycle.run(entry, pod, profile, timer, now)  # None: it is in no gang that waits
            return notes + (outputs if outputs is not None else self.pod_cycle.run(pod, profile, entry, timer, now))
        except Exception as error:
            self.state.recorder.attempted(profile.name, "error", timer)
            return self.requeuer.plugin_failed(pod, profile, error, now)

    def tick(self, now: float) -> Sequence[Output]:
        self.queue.tick(now)
        outputs: list[Output] = []
        for cycle in self.bindings.due(now):
            outputs += self._resume(cycle, now)
        if self.state.may_decide:
            outputs += self.bindings.overdue(now) + self.gangs.overdue(now)
        return outputs

    # --- pods

    def _pod_upserted(self, changed: Changed) -> list[Output]:
        before, pod, now = changed.before, changed.after, changed.event.at
        assert isinstance(pod, Pod) and (before is None or isinstance(before, Pod))
        observed = self.observers.pod_changed(before, pod)
        self.requeuer.last_reported.pop(pod.uid, None)
        self.gangs.pod_changed(before, pod, now)
        pending = pod.pending
        self.pods_by_claim.update(pod, pending=pending)
        if not pending:
            freed, outputs = self._pod_settled(pod, now)
            return outputs + self._wake_waiting(changed, observed | freed)
        self._enqueue(pod, before, now)
        cycle = self.bindings.by_uid.get(pod.uid)
        if cycle is not None and cycle.retry_on & Change.OWN_POD_UPDATED:
            cycle.pod = pod
            return self._resume(cycle, now) + self._wake_waiting(changed, observed)
        return self._wake_waiting(changed, observed)

    def _enqueue(self, pod: Pod, before: Pod | None, now: float) -> None:
        """Let the queue know of a pod that waits for a node."""
        profile = self.state.settings.profile_of(pod.scheduler_name)
        if profile is None:
            self.queue.delete(pod.uid, now)
        elif pod.uid not in self.bindings.by_uid:
            self._pre_enqueue(pod, before, profile, now)

    def _pre_enqueue(self, pod: Pod, before: Pod | None, profile: Profile, now: float) -> None:
        entry = self.queue.pods.get(pod.uid)
        since = entry.since if entry is not None else now
        try:
            key = self.gangs.queue_key(pod, profile, since)
            gated = next(filter(None, (gate.pre_enqueue(pod) for gate in profile.pre_enqueues)), "")
        except Exception as error:  # the plugin's answer is not guessed: the pod stays gated until it is edited
            key, gated = (since,), f"a PreEnqueue plugin failed: {type(error).__name__}"
            self.state.recorder.plugin_failed(repr(error))
        if gated:
            self.queue.gate(pod.uid, key, now, gated)
        elif entry is None or entry.state is QueueState.GATED:
            self.queue.add(pod.uid, key, now)
        elif before is not None and affects_scheduling(before, pod):
            self.queue.wake_one(pod.uid, now)

    def _pod_settled(self, pod: Pod, now: float) -> tuple[Change, list[Output]]:
        """The pod has a node, has finished, or is terminating: it leaves the queue. What it frees, and what is reported."""
        entry = self.queue.delete(pod.uid, now)
        self.preemption.pod_settled(pod.uid, terminating=pod.terminating or pod.finished)
        cycle = self.bindings.by_uid.get(pod.uid)
        if cycle is None:
            return Change.NOTHING, []
        if not (pod.node or pod.finished) and cycle.state is not BindState.WAITING:
            return Change.NOTHING, []  # a bind that was sent may still arrive
        if pod.node != cycle.node:
            return self.requeuer.unreserve_and_requeue(pod.uid, now), []
        self.bindings.end(pod.uid, bound=True)
        outputs = self._bound(cycle, entry, now) if cycle.state in AWAITING_ANSWER else []
        if self.state.cluster.view.row(pod.node) is None:
            self.state.recorder.bound_to_missing_node()
            outputs.append(pod_events.bound_to_missing_node(pod))
        return Change.NOTHING, outputs

    def _bound(self, cycle: BindingCycle, entry: QueuedPod | None, now: float) -> list[Output]:
        """Reported once for each cycle, on whichever comes first: the answer to our bind, or the watch."""
        if entry is not None:
            self.state.recorder.bound(
                cycle.profile.name, entry.attempts, now - entry.first_attempt_at, now - cycle.started_at
            )
        return [pod_events.scheduled(cycle.pod, cycle.node)]

    def _pod_deleted(self, changed: Changed) -> list[Output]:
        before = changed.before
        assert isinstance(changed.event, PodDeleted) and (before is None or isinstance(before, Pod))
        uid, now = changed.event.uid, changed.event.at
        self.queue.delete(uid, now)
        self.requeuer.last_reported.pop(uid, None)
        self.preemption.pod_settled(uid, terminating=True)
        freed = self.requeuer.unreserve_and_requeue(uid, now) | self.observers.pod_changed(before, None)
        self.gangs.pod_changed(before, None, now)
        if before is not None:
            self.pods_by_claim.update(before, pending=False)
        return self._wake_waiting(changed, freed)

    # --- nodes, other objects, leadership and settings

    def _node_deleted(self, changed: Changed) -> list[Output]:
        assert isinstance(changed.event, NodeDeleted)
        name, now = changed.event.name, changed.event.at
        for pod in self.state.cluster.nominated.values():
            if pod.nominated_node == name:  # its nomination is void
                self.queue.wake_one(pod.uid, now)
        outputs: list[Output] = []
        for cycle in self.bindings.waiting():
            if cycle.node == name:
                outputs += self._resume(cycle, now, f"node {name} no longer exists")
        return outputs + self._wake_waiting(changed)

    def _object_changed(self, changed: Changed) -> list[Output]:
        change, now = changed.change, changed.event.at
        before, after = cast(Object | None, changed.before), cast(Object | None, changed.after)
        known = after or before
        if change & Change.POD_GROUPS and known is not None:
            self.gangs.group_changed(known.key, now)
        if not change & Change.STORAGE:
            return self._wake_waiting(changed)
        return self._wake_waiting(changed, pods=self.pods_by_claim.affected_by(self.state.cluster, before, after))

    def _lease_lost(self, changed: Changed) -> list[Output]:
        """The next leader may decide on the pods in Permit and PreBind; those whose bind was sent are still followed up."""
        now = changed.event.at
        self.preemption.lease_lost()
        freed = [self.requeuer.unreserve_and_requeue(cycle.pod.uid, now) for cycle in self.bindings.waiting()]
        return self._wake_waiting(changed, reduce(or_, freed, Change.NOTHING))

    def _settings_read(self, changed: Changed) -> list[Output]:
        now = changed.event.at
        self._apply_settings()
        for pod in self.state.cluster.pods.values():
            if pod.pending:
                self._enqueue(pod, None, now)
        self.queue.wake_all(now)
        return []

    def _kind_readable(self, changed: Changed) -> list[Output]:
        """A kind that was forbidden can be listed now: the pods that wait for it try again."""
        self.evaluator.cache.clear()
        self.queue.wake_all(changed.event.at)
        return []

    def _apply_settings(self) -> None:
        settings = self.state.settings
        self.observers.apply_settings()
        self.gangs.apply_settings()
        self.evaluator.cache.clear()
        self.queue.initial_backoff, self.queue.max_backoff = settings.initial_backoff, settings.max_backoff
        self.queue.max_unschedulable_wait = settings.max_unschedulable_wait

    # --- answers

    def _bind_done(self, event: BindDone) -> list[Output]:
        cycle = self.bindings.by_uid.get(event.uid)
        if cycle is None or cycle.state not in AWAITING_ANSWER:
            return []
        self.bindings.accepted(cycle, event.at)
        return self._bound(cycle, self.queue.delete(event.uid, event.at), event.at)

    def _bind_failed(self, event: BindFailed) -> Sequence[Output | PodDeleted]:
        cycle = self.bindings.by_uid.get(event.uid)
        if cycle is None or cycle.state is not BindState.SENT:
            return []
        self.state.recorder.bind_failed(cycle.profile.name, event.reason.value, event.at - cycle.started_at)
        if event.reason in READ_BACK:
            return self.bindings.outcome_unknown(cycle, event.at, conflicted=event.reason is BindFailure.CONFLICT)
        if event.reason is BindFailure.GONE:
            return [PodDeleted(event.uid, event.at)]
        return self._requeue(cycle, event.message if event.reason is BindFailure.REFUSED else "", event.at)

    def _pod_read(self, event: GetPodDone) -> list[Output]:
        """What was read is in the cluster state already."""
        self.bindings.read_ended(event.uid)
        cycle = self.bindings.by_uid.get(event.uid)
        if event.pod is None or cycle is None or cycle.state is not BindState.UNKNOWN:
            return []  # our request may still arrive, or was accepted since
        if not cycle.read_is_conclusive:
            return self.bindings.read_unbound(cycle, event.at)
        return self._requeue(cycle, "", event.at)

    def _read_failed(self, event: GetPodFailed) -> list[Output]:
        """Still unknown: the pod stays assumed, and a later tick reads it again."""
        self.bindings.read_ended(event.uid)
        return []

    def _stage_answered(self, event: StageAnswered) -> list[Output]:
        cycle = self.bindings.by_uid.get(event.uid)
        return self._resume(cycle, event.at, event.error) if cycle is not None else []

    def _requeue(self, cycle: BindingCycle, message: str, now: float) -> list[Output]:
        """The bind did not happen: the room is given back, others may want it, and the pod tries again later."""
        change = self.requeuer.unreserve_and_requeue(cycle.pod.uid, now)
        reported = self.requeuer.report(cycle.pod, f"binding rejected: {message}", ERROR) if message else []
        return reported + self._wake_after(change, now)


def affects_scheduling(before: Pod, after: Pod) -> bool:
    """Whether an edit of a pending pod could change where it may go; a mere status patch does not."""
    return (
        (before.spec is not after.spec and before.spec != after.spec)
        or before.requests != after.requests
        or before.labels != after.labels
        or before.nominated_node != after.nominated_node
        or before.scheduling_gates != after.scheduling_gates
        or before.priority != after.priority
        or before.spec_error != after.spec_error
    )
