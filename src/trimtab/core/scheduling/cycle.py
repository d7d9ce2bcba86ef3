"""The scheduling cycle of one pod: evaluate, assume, start the binding cycle; or preempt, report and queue it again."""

from __future__ import annotations

from trimtab.core.controllers import EngineState, Output
from trimtab.core.framework.evaluation import PluginTimer
from trimtab.core.framework.pod_checks import unknown_topology_keys
from trimtab.core.framework.profile import Profile
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Decision, Unschedulable
from trimtab.core.scheduling.binding import BindingCycle, BindingCycles, StageRejected
from trimtab.core.scheduling.evaluator import NOT_EVALUATED, Evaluator
from trimtab.core.scheduling.preemption import Preemption, PreemptionResult
from trimtab.core.scheduling.queue import queueing_hints
from trimtab.core.scheduling.queue.queue import SchedulingQueue
from trimtab.core.scheduling.queue.queued_pod import QueuedPod
from trimtab.core.scheduling.requeue import Requeuer


class PodCycle:
    """The scheduling cycle of pods that are scheduled one by one."""

    def __init__(
        self,
        state: EngineState,
        queue: SchedulingQueue,
        bindings: BindingCycles,
        evaluator: Evaluator,
        preemption: Preemption,
        requeuer: Requeuer,
    ) -> None:
        self.state, self.queue, self.bindings = state, queue, bindings
        self.evaluator, self.preemption, self.requeuer = evaluator, preemption, requeuer

    def run(self, pod: Pod, profile: Profile, entry: QueuedPod, timer: PluginTimer, now: float) -> list[Output]:
        verdict = self.evaluator.evaluate(pod, profile, timer)
        if isinstance(verdict, Unschedulable):
            self.state.recorder.attempted(profile.name, "unschedulable", timer)
            return self.unschedulable(pod, profile, verdict, entry, now)
        self.state.recorder.attempted(profile.name, "scheduled", timer)
        decision = Decision(pod.uid, pod.key, profile.name, now, entry.attempts, verdict)
        self.state.cluster.assume(pod, verdict.node)
        started = self.bindings.start(pod, verdict.node, profile, now)
        if isinstance(started, StageRejected):
            return [decision, *self.requeuer.rejected_by_stage(pod, started, now)]
        self.queue.scheduled(pod.uid, now)
        return [decision, *started]

    def resume(self, cycle: BindingCycle, now: float, error: str = "") -> list[Output]:
        """Run the stages of a waiting pod again, unless what one of them asked for has failed."""
        try:
            outputs = self.bindings.run_stages(cycle, now, error)
        except Exception as failure:
            return self.requeuer.plugin_failed(cycle.pod, cycle.profile, failure, now)
        if isinstance(outputs, StageRejected):
            return self.requeuer.rejected_by_stage(cycle.pod, outputs, now)
        return outputs

    def unschedulable(
        self, pod: Pod, profile: Profile, verdict: Unschedulable, entry: QueuedPod, now: float
    ) -> list[Output]:
        """No node is feasible: try preemption, and queue the pod until a change may help it."""
        self.state.recorder.unschedulable(profile.name, verdict.plugins)
        evaluated = verdict.nodes and verdict.plugins not in NOT_EVALUATED
        result = self.preemption.try_preempt(pod, profile, verdict, now) if evaluated else PreemptionResult(verdict)
        decision = Decision(pod.uid, pod.key, profile.name, now, entry.attempts, result.verdict)
        reported = self._add_unschedulable(pod, profile, result.verdict, now)
        self.requeuer.wake(result.freed, now)
        return [decision, *result.outputs, *reported]

    def _add_unschedulable(self, pod: Pod, profile: Profile, verdict: Unschedulable, now: float) -> list[Output]:
        cluster = self.state.cluster
        nominated = bool(pod.nominated_node) or pod.uid in cluster.nominated
        kind = queueing_hints.equivalence_of(pod, profile, verdict, nominated)
        self.queue.add_unschedulable(pod.uid, queueing_hints.requeue_on(profile, verdict), verdict.plugins, now, kind)
        return self.requeuer.report(pod, verdict.message() + unknown_topology_keys(cluster.view, pod))
