"""Preemption: runs the PostFilter plugins for an unschedulable pod, nominates a node and has its victims deleted.

    unschedulable ──candidate found──▶ nominated ──every victim seen terminating──▶ waits until they are gone ──▶ scheduled
      ▲                                    │                                              like any other pod, or fails again
      └──a delete failed: the nomination is cleared

A nomination counts from the moment it is made: pods of lower or equal priority leave that room alone, and are the ones to
be woken when it is taken back. While victims are not seen terminating the pod is held in the queue, without attempts that
could only fail, but no longer than `TIMEOUT`, for answers can be lost. Afterwards the plugins themselves see the terminating
victims. A victim that is still in its binding cycle is rejected, not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from trimtab.core.controllers import EngineState, Output
from trimtab.core.framework.forbidden_kinds import plugin_waits_for
from trimtab.core.framework.interface import PreemptionCandidate, Reject
from trimtab.core.framework.profile import Profile
from trimtab.core.model.change import Change
from trimtab.core.model.events import PreemptDone, PreemptFailed
from trimtab.core.model.instructions import EmitEvent, Nominate, Preempt
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Unschedulable
from trimtab.core.scheduling import pod_events
from trimtab.core.scheduling.binding import BindingCycles, BindState
from trimtab.core.scheduling.evaluator import Evaluator
from trimtab.core.scheduling.queue.queue import SchedulingQueue
from trimtab.core.scheduling.queue.queue_events import FORCE_ACTIVATE
from trimtab.core.scheduling.requeue import Requeuer

TIMEOUT = 60.0
FORBIDDEN_FOR = 300.0
WAITING = "waiting for the preemption for this pod to be finished"
GRANTED_BY = "deploy/rbac-preemption.yaml allows it"
FORBIDDEN = f"deleting pods is forbidden; {GRANTED_BY}"


class PreemptionResult(NamedTuple):
    """The verdict, perhaps with the reason why preemption cannot help, what to do, and what was freed at once."""

    verdict: Unschedulable
    outputs: Sequence[Output] = ()
    freed: Change = Change.NOTHING


class Preemption:
    """Preemptions under way: the deletions of victims are writes that end when a victim is seen terminating."""

    def __init__(
        self,
        state: EngineState,
        queue: SchedulingQueue,
        bindings: BindingCycles,
        evaluator: Evaluator,
        requeuer: Requeuer,
    ) -> None:
        self.state, self.queue, self.bindings = state, queue, bindings
        self.evaluator, self.requeuer = evaluator, requeuer
        self.events: dict[str, EmitEvent] = {}  # by victim: the Event to write once its deletion was accepted
        self.forbidden_until, self.forbidden_reason = 0.0, FORBIDDEN

    def copy_from(self, other: Preemption) -> None:
        self.events = other.events.copy()
        self.forbidden_until, self.forbidden_reason = other.forbidden_until, other.forbidden_reason

    def try_preempt(self, pod: Pod, profile: Profile, verdict: Unschedulable, now: float) -> PreemptionResult:
        """Run the PostFilter plugins; without a candidate the verdict comes back with their reason."""
        if not profile.post_filters:
            return PreemptionResult(verdict)
        if reason := self._blocked_reason(pod, profile, now):
            return PreemptionResult(_with(verdict, reason))
        status = self.evaluator.filter_status(pod, profile)
        rejections: list[Reject] = []
        for plugin in profile.post_filters:
            answer = plugin.post_filter(self.state.cluster.view, pod, status)
            self.state.recorder.preemption_attempted()
            if isinstance(answer, PreemptionCandidate):
                return self._nominate(pod, answer, verdict, now)
            rejections.append(answer)
        void = pod.nominated_node and all(each.unresolvable for each in rejections)
        return PreemptionResult(
            _with(verdict, rejections[0].reason), self.clear_nominations([pod], now) if void else []
        )

    def _blocked_reason(self, pod: Pod, profile: Profile, now: float) -> str:
        deletions = self.state.writes.owned(Preempt, pod.uid)
        if any(now - each.sent_at < TIMEOUT for each in deletions):
            return WAITING
        self.state.writes.end_owned(Preempt, pod.uid)
        if now < self.forbidden_until:
            return self.forbidden_reason
        return next(filter(None, (plugin_waits_for(each, self.state.forbidden) for each in profile.post_filters)), "")

    def _nominate(
        self, pod: Pod, candidate: PreemptionCandidate, verdict: Unschedulable, now: float
    ) -> PreemptionResult:
        cluster, freed = self.state.cluster, Change.NOTHING
        displaced = self._displaced(pod, candidate)
        outputs: list[Output] = [Nominate(pod.uid, pod.namespace, pod.name, candidate.node)]
        self.requeuer.wake(cluster.nominate(pod.uid, candidate.node), now, gave_up=pod)
        outputs += self.clear_nominations(displaced, now)
        outputs.append(pod_events.preempting(pod, len(candidate.victims), candidate.node))
        victims = 0  # without those that are leaving already
        for victim in candidate.victims:
            cycle = self.bindings.by_uid.get(victim.uid)
            if cycle is not None and cycle.state is BindState.WAITING:
                freed |= self.requeuer.unreserve_and_requeue(victim.uid, now)
                outputs += self.requeuer.report(cycle.pod, f"preempted by pod {pod.uid} on node {candidate.node}")
                victims += 1
            elif not victim.terminating and self.state.writes.get(Preempt, victim.uid) is None:
                outputs.append(self._delete(victim, pod, now))
                victims += 1
        if victims:
            self.state.recorder.preempted(victims)
        return PreemptionResult(verdict, outputs, freed)

    def _displaced(self, pod: Pod, candidate: PreemptionCandidate) -> list[Pod]:
        """The pods of lower priority that lose their nomination: they do not fit beside this one without all victims."""
        node, victims = candidate.node, {each.uid for each in candidate.victims}
        nominated = [each for each in self.state.cluster.nominated.values() if each.nominated_node == node]
        displaced: list[Pod] = []
        staying = [each for each in nominated if each.priority >= pod.priority and each.uid != pod.uid]
        staying.append(pod)
        outranked = (each for each in nominated if each.priority < pod.priority)
        for each in sorted(outranked, key=lambda other: -other.priority):
            (staying if self._fits_beside(each, staying, node, victims) else displaced).append(each)
        return displaced

    def _fits_beside(self, pod: Pod, others: list[Pod], node: str, victims: Set[str]) -> bool:
        """Whether the node passes all filters with these pods on it, without these victims and those that are leaving."""
        view, profile = self.state.cluster.view, self.state.settings.profile_of(pod.scheduler_name)
        row = view.row(node)
        if profile is None or row is None:
            return False
        asked = self.state.writes.of(Preempt)
        leaving = [
            each for each in view.pods_on(node).values() if each.terminating or each.uid in victims or each.uid in asked
        ]
        beside, rows = view.with_pods({node: others}, {node: leaving}), np.array([row], dtype=np.intp)
        return not any(plugin.filter(beside, pod, rows)[0] for plugin in profile.filters)

    def _delete(self, victim: Pod, pod: Pod, now: float) -> Preempt:
        self.state.writes.begin(Preempt, victim.uid, now, owner=pod.uid)
        self.queue.hold(pod.uid, now + TIMEOUT)
        self.events[victim.uid] = pod_events.preempted(victim, pod)
        return Preempt(victim.uid, victim.namespace, victim.name, pod.uid, pod.scheduler_name)

    def pod_settled(self, uid: str, *, terminating: bool) -> None:
        """A pod has its node or is terminating: it preempts no other pod now, and if terminating it is no pending victim."""
        self.state.writes.end_owned(Preempt, uid)
        if terminating:
            self._end_deletion(uid)

    def _end_deletion(self, victim: str) -> None:
        """The victim is no longer awaited; if it was the last one, attempts of its preemptor make sense again."""
        deletion = self.state.writes.end(Preempt, victim)
        if deletion is not None and not self.state.writes.owned(Preempt, deletion.owner):
            self.queue.release(deletion.owner)

    def lease_lost(self) -> None:
        """Another process preempts from now on: answers that still arrive change nothing."""
        for victim in list(self.state.writes.of(Preempt)):
            self._end_deletion(victim)

    def answered(self, event: PreemptDone | PreemptFailed) -> list[Output]:
        """Report what became of the victim: on the victim itself, or on the pod that cannot have its room."""
        planned = self.events.pop(event.uid, None)
        if isinstance(event, PreemptFailed):
            return self._failed(event, planned)
        return [planned] if planned is not None else []

    def _failed(self, event: PreemptFailed, planned: EmitEvent | None) -> list[Output]:
        """Clear the nomination and let the pod try again, but not soon if a permission is missing."""
        if event.forbidden:
            self.forbidden_until = event.at + FORBIDDEN_FOR
            self.forbidden_reason = f"{event.message}; {GRANTED_BY}" if event.message else FORBIDDEN
        deletion = self.state.writes.get(Preempt, event.uid)
        if deletion is None or deletion.owner not in ("", event.preemptor):  # seen terminating, or asked for again
            return []
        self._end_deletion(event.uid)
        if not deletion.owner:  # the pod had lost its nomination
            return []
        pod = self.state.cluster.pods.get(event.preemptor)
        if pod is None or pod.uid not in self.queue.pods:
            return []
        victim = f"{planned.namespace}/{planned.name}" if planned is not None else event.uid
        failed = pod_events.preemption_failed(pod, victim, event.message or FORBIDDEN)
        cleared = self.clear_nominations([pod], event.at, wake=not event.forbidden) if pod.nominated_node else []
        return [failed, *cleared]

    def clear_nominations(self, pods: Iterable[Pod], now: float, *, wake: bool = True) -> list[Output]:
        """These pods are nominated no more; each may look for another node at once."""
        outputs: list[Output] = []
        for pod in pods:
            self.requeuer.wake(self.state.cluster.nominate(pod.uid, ""), now, gave_up=pod)
            outputs.append(Nominate(pod.uid, pod.namespace, pod.name, ""))
            self.state.writes.disown(Preempt, pod.uid)
            self.queue.release(pod.uid)
            if wake:
                self.queue.wake_one(pod.uid, now, FORCE_ACTIVATE)
        return outputs


def _with(verdict: Unschedulable, reason: str) -> Unschedulable:
    return replace(verdict, preemption_message=f"preemption: {reason}") if reason else verdict
