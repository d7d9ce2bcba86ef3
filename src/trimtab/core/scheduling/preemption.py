"""Preemption: runs the PostFilter plugins for an unschedulable pod, nominates a node and has its victims deleted.

    unschedulable ──candidate found──▶ nominated ──every victim seen terminating──▶ waits until they are gone ──▶ scheduled
      ▲                                    │                                              like any other pod, or fails again
      └──a delete failed: the nomination is cleared

A nomination counts from the moment it is made: pods of lower or equal priority leave that room alone. While victims are
not seen terminating the pod does not preempt again, but no longer than `TIMEOUT`, for answers can be lost. Afterwards the
plugins themselves see the terminating victims. A victim that is still in its binding cycle is rejected, not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
            self.state.recorder.preemption_attempted(
                len(answer.victims) if isinstance(answer, PreemptionCandidate) else 0
            )
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
        outranked = [each for each in cluster.nominated.values() if _outranked(each, pod, candidate.node)]
        outputs: list[Output] = [Nominate(pod.uid, pod.namespace, pod.name, candidate.node)]
        self.requeuer.wake(cluster.nominate(pod.uid, candidate.node), now)
        outputs += self.clear_nominations(outranked, now)
        outputs.append(pod_events.preempting(pod, len(candidate.victims), candidate.node))
        for victim in candidate.victims:
            cycle = self.bindings.by_uid.get(victim.uid)
            if cycle is not None and cycle.state is BindState.WAITING:
                freed |= self.requeuer.unreserve_and_requeue(victim.uid, now)
                outputs += self.requeuer.report(cycle.pod, f"preempted by pod {pod.uid} on node {candidate.node}")
            elif not victim.terminating and self.state.writes.get(Preempt, victim.uid) is None:
                outputs.append(self._delete(victim, pod, now))
        return PreemptionResult(verdict, outputs, freed)

    def _delete(self, victim: Pod, pod: Pod, now: float) -> Preempt:
        self.state.writes.begin(Preempt, victim.uid, now, owner=pod.uid)
        self.events[victim.uid] = pod_events.preempted(victim, pod)
        return Preempt(victim.uid, victim.namespace, victim.name, pod.uid, pod.scheduler_name)

    def pod_settled(self, uid: str, *, terminating: bool) -> None:
        """A pod has its node or is terminating: it preempts no other pod now, and if terminating it is no pending victim."""
        self.state.writes.end_owned(Preempt, uid)
        if terminating:
            self.state.writes.end(Preempt, uid)

    def lease_lost(self) -> None:
        """Another process preempts from now on: answers that still arrive change nothing."""
        self.state.writes.end_all(Preempt)

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
        if deletion is None or deletion.owner != event.preemptor:  # seen terminating all the same, or no longer awaited
            return []
        self.state.writes.end(Preempt, event.uid)
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
            self.requeuer.wake(self.state.cluster.nominate(pod.uid, ""), now)
            outputs.append(Nominate(pod.uid, pod.namespace, pod.name, ""))
            if wake:
                self.queue.wake_one(pod.uid, now)
        return outputs


def _outranked(other: Pod, pod: Pod, node: str) -> bool:
    return other.nominated_node == node and other.priority < pod.priority and other.uid != pod.uid


def _with(verdict: Unschedulable, reason: str) -> Unschedulable:
    return replace(verdict, preemption_message=f"preemption: {reason}") if reason else verdict
