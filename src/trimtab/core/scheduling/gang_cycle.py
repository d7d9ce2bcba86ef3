"""One scheduling cycle of a gang: all members that wait are attempted in one turn, and go on together or not at all.

    a member is next ─▶ all that wait are taken ─▶ may it be tried? ─▶ each: evaluate, assume, reserve ─▶ quorum? ─▶ Bind
                                                     │ no                                                │ no
                                                     ▼                                                   ▼
                        unschedulable, with one reason ◀────────────────────────── everything undone, last first

No member of an incomplete gang holds room, so two gangs cannot keep each other waiting. Members beyond the quorum are
ordinary pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from msgspec import Struct

from trimtab.core.controllers import EngineState, Output
from trimtab.core.framework.evaluation import PluginTimer
from trimtab.core.framework.interface import Gang, GangPlugin, Plugin, StageStatus
from trimtab.core.framework.profile import Profile
from trimtab.core.model.change import Change
from trimtab.core.model.objects import POD_GROUP_LABEL, pod_group_key
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.schedule_result import Decision, Placement, Unschedulable
from trimtab.core.scheduling import pod_events
from trimtab.core.scheduling.binding import BindingCycles, StageRejected
from trimtab.core.scheduling.cycle import PodCycle
from trimtab.core.scheduling.gang import GangHistory, Gangs, equivalence_key
from trimtab.core.scheduling.queue import queueing_hints
from trimtab.core.scheduling.queue.queue import SchedulingQueue
from trimtab.core.scheduling.queue.queued_pod import QueuedPod, QueueState
from trimtab.core.scheduling.queue.unschedulable import Equivalence

NOT_OURS = "the other members are gated, or belong to another scheduler or profile"


class GangAttempt(Struct, frozen=True):
    """One attempt: who takes part, in which order, and when."""

    gang: Gang
    plugin: GangPlugin
    profile: Profile
    entries: tuple[QueuedPod, ...]
    pods: tuple[Pod, ...]
    timer: PluginTimer
    now: float

    def decision(self, pod: Pod, entry: QueuedPod, verdict: Placement | Unschedulable) -> Decision:
        return Decision(pod.uid, pod.key, self.profile.name, self.now, entry.attempts, verdict)


class GangCycle:
    """The scheduling cycle of pods that are scheduled together."""

    def __init__(
        self, state: EngineState, queue: SchedulingQueue, bindings: BindingCycles, gangs: Gangs, pod_cycle: PodCycle
    ) -> None:
        self.state, self.queue, self.bindings, self.gangs = state, queue, bindings, gangs
        self.pod_cycle, self.requeuer, self.evaluator = pod_cycle, pod_cycle.requeuer, pod_cycle.evaluator

    def run(self, head: QueuedPod, pod: Pod, profile: Profile, timer: PluginTimer, now: float) -> list[Output] | None:
        """Decide on the pod's whole gang; None when the pod is in none that can be read, or its gang has its quorum."""
        key, plugin = pod_group_key(pod), profile.gang_plugin
        if not key or plugin is None or self.evaluator.waits_for_kind(pod, profile):
            return None
        gang = self.gangs.gang(key, now)
        if plugin.permit_gang(gang) is StageStatus.SUCCESS:
            return None
        entries = tuple(self._take(gang, head, profile, now))
        pods = sorted((self.state.cluster.pods[entry.uid] for entry in entries), key=_larger_first)
        attempt = GangAttempt(gang, plugin, profile, entries, tuple(pods), timer, now)
        try:
            return _notes(pod, head) + self._decide(attempt)
        except Exception as error:
            return [output for each in reversed(pods) for output in self._plugin_failed(each, attempt, error)]

    def _plugin_failed(self, pod: Pod, attempt: GangAttempt, error: Exception) -> list[Output]:
        return self.requeuer.plugin_failed(pod, attempt.profile, error, attempt.now)

    def _take(self, gang: Gang, head: QueuedPod, profile: Profile, now: float) -> Iterable[QueuedPod]:
        yield head
        for uid, pod in gang.members.items():
            entry = self.queue.pods.get(uid)
            if entry is None or entry is head or self.state.settings.profile_of(pod.scheduler_name) is not profile:
                continue
            if entry.state not in (QueueState.POPPED, QueueState.GATED):
                self.queue.take(uid, now)
                yield entry

    def _decide(self, attempt: GangAttempt) -> list[Output]:
        gang, now = attempt.gang, attempt.now
        if gang.group is None:
            return self._add_unschedulable(attempt, f"pod group {gang.key} does not exist", queueing_hints.ALWAYS, ())
        rejected = attempt.plugin.pre_filter_gang(self.state.cluster.view, attempt.pods[0], gang)
        if rejected is None:
            return self._try(attempt)
        message = f"pod group {gang.key}: {rejected.reason}"
        if gang.backing_off:
            for entry in attempt.entries:
                self.queue.add_backoff(entry.uid, now, self.gangs.history[gang.key].backoff_until)
            return self.requeuer.report(attempt.pods[0], message)
        plugin: Plugin = attempt.plugin  # type: ignore[assignment]
        lacks_room = len(gang.members) >= gang.group.min_member
        requeue_on = queueing_hints.ALWAYS | (plugin.requeue_on if lacks_room else Change.NOTHING)
        return self._add_unschedulable(attempt, message, requeue_on, (plugin.name,))

    def _try(self, attempt: GangAttempt) -> list[Output]:
        verdicts = {pod.uid: self._assume(pod, attempt) for pod in attempt.pods}
        assumed = [pod for pod in attempt.pods if isinstance(verdicts[pod.uid], Placement)]
        gang = self.gangs.gang(attempt.gang.key, attempt.now)
        nodes = len(self.state.cluster.node_table)
        failed = {uid: verdict for uid, verdict in verdicts.items() if isinstance(verdict, Unschedulable)}
        if attempt.plugin.permit_gang(gang) is StageStatus.SUCCESS:
            started = self._start(assumed, attempt.now)
            if not isinstance(started, StageRejected):
                return self._settle(attempt, verdicts) + started
            failed = {"": Unschedulable(nodes, note=started.rejection.reason, plugins=(started.plugin,))}
        for pod in reversed(assumed):
            self._undo(pod)
        needed = gang.group.min_member if gang.group is not None else 0
        failed = failed or {"": Unschedulable(nodes, note=NOT_OURS)}
        first = next(iter(failed.values()))
        message = f"pod group {gang.key}: {len(gang.placed)} of {needed} members fit; {first.message()}"
        requeue_on = reduce(
            or_, (queueing_hints.requeue_on(attempt.profile, each, in_gang=True) for each in failed.values())
        )
        plugins = tuple(dict.fromkeys(name for each in failed.values() for name in each.plugins))
        return self._add_unschedulable(attempt, message, requeue_on, plugins, attempt.plugin.gang_backoff(gang))

    def _assume(self, pod: Pod, attempt: GangAttempt) -> Placement | Unschedulable:
        verdict = self.evaluator.evaluate(pod, attempt.profile, attempt.timer)
        if isinstance(verdict, Unschedulable):
            return verdict
        self.state.cluster.assume(pod, verdict.node)
        rejected = self.bindings.reserve(pod, verdict.node, attempt.profile, attempt.now)
        if rejected is None:
            return verdict
        self._undo(pod)
        return Unschedulable(verdict.nodes, note=rejected.rejection.reason, plugins=(rejected.plugin,))

    def _undo(self, pod: Pod) -> None:
        self.bindings.end(pod.uid, bound=False)
        self.state.cluster.forget(pod.uid)

    def _start(self, pods: list[Pod], now: float) -> list[Output] | StageRejected:
        """Run the stages of each; a rejection of one keeps all from going on."""
        outputs: list[Output] = []
        for pod in pods:
            started = self.bindings.run_stages(self.bindings.by_uid[pod.uid], now)
            if isinstance(started, StageRejected):
                return started
            outputs += started
        return outputs

    def _settle(self, attempt: GangAttempt, verdicts: dict[str, Placement | Unschedulable]) -> list[Output]:
        """The gang goes on; members for which there was no room, and no need, wait like any other pod."""
        self.gangs.history.pop(attempt.gang.key, None)
        outputs: list[Output] = []
        for entry in attempt.entries:
            verdict, pod = verdicts[entry.uid], self.state.cluster.pods[entry.uid]
            if isinstance(verdict, Unschedulable):
                self.state.recorder.attempted(attempt.profile.name, "unschedulable", attempt.timer)
                outputs += self.pod_cycle.unschedulable(pod, attempt.profile, verdict, entry, attempt.now)
                continue
            self.state.recorder.attempted(attempt.profile.name, "scheduled", attempt.timer)
            outputs.append(attempt.decision(pod, entry, verdict))
            self.queue.scheduled(pod.uid, attempt.now)
        return outputs

    def _add_unschedulable(
        self,
        attempt: GangAttempt,
        message: str,
        requeue_on: Change,
        plugins: tuple[str, ...],
        backoff: float = 0.0,
    ) -> list[Output]:
        """None goes on: all wait as one group, so that the next attempt is one for all."""
        key, now = attempt.gang.key, attempt.now
        history = self.gangs.history.setdefault(key, GangHistory(now, now))
        history.last, history.message, history.backoff_until = now, message, now + backoff
        verdict = Unschedulable(len(self.state.cluster.node_table), note=message, plugins=plugins)
        outputs: list[Output] = []
        self.gangs.rekey(key, attempt.entries, now)
        group = Equivalence(equivalence_key(key), equivalence_key(key))
        for entry in attempt.entries:
            pod = self.state.cluster.pods[entry.uid]
            self.state.recorder.attempted(attempt.profile.name, "unschedulable", attempt.timer)
            self.state.recorder.unschedulable(attempt.profile.name, plugins)
            outputs.append(attempt.decision(pod, entry, verdict))
            self.queue.add_unschedulable(pod.uid, requeue_on, plugins, now, group, backoff)
            outputs += self.requeuer.report(pod, message)
        return outputs


def _larger_first(pod: Pod) -> tuple[float, float, float, str]:
    """Higher priority first; then the larger ones, which find a node less easily; then by name."""
    return (-pod.priority, -pod.requests.of(CPU), -pod.requests.of(MEMORY), pod.name)


def _notes(pod: Pod, head: QueuedPod) -> list[Output]:
    if head.attempts > 1 or POD_GROUP_LABEL in pod.labels:
        return []
    return [pod_events.deprecated_label(pod)]
