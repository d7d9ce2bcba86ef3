"""What follows a failed attempt: undo and back off, report it to people, and requeue pods when a change may help them."""

from __future__ import annotations

from trimtab.core.controllers import EngineState, Output
from trimtab.core.framework.profile import Profile
from trimtab.core.model.change import Change
from trimtab.core.model.instructions import SetUnschedulable
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling import pod_events
from trimtab.core.scheduling.binding import BindingCycles, StageRejected
from trimtab.core.scheduling.evaluator import Evaluator
from trimtab.core.scheduling.gang import Gangs
from trimtab.core.scheduling.queue import queueing_hints
from trimtab.core.scheduling.queue.pods_by_claim import Pods
from trimtab.core.scheduling.queue.queue import SchedulingQueue

UNSCHEDULABLE = "Unschedulable"  # the cluster autoscaler adds nodes for this reason
ERROR = "SchedulerError"  # and not for this one


class Requeuer:
    """Takes failed pods back into the queue, and wakes those that a change may help."""

    def __init__(
        self, state: EngineState, queue: SchedulingQueue, bindings: BindingCycles, evaluator: Evaluator, gangs: Gangs
    ) -> None:
        self.state, self.queue, self.bindings = state, queue, bindings
        self.evaluator, self.gangs = evaluator, gangs
        self.last_reported: dict[str, tuple[str, str]] = {}  # since the pod was last seen
        self.log_reader = queueing_hints.LogReader()

    # --- failed attempts

    def unreserve_and_requeue(self, uid: str, now: float) -> Change:
        """A binding cycle ends without a bind: everything is undone, and a pod that still waits backs off."""
        cycle = self.bindings.end(uid, bound=False)
        freed = Change.PLUGIN_STATE if cycle is not None and cycle.reserved else Change.NOTHING
        freed |= self.state.cluster.forget(uid)
        if uid in self.queue.pods:
            self.gangs.dropped(self.queue.pods[uid], now)
            self.queue.add_backoff(uid, now)
            self.state.recorder.queued("backoff", "ScheduleAttemptFailure")
        return freed

    def rejected_by_stage(self, pod: Pod, rejected: StageRejected, now: float) -> list[Output]:
        self.unreserve_and_requeue(pod.uid, now)
        return self.report(pod, f"{rejected.plugin}: {rejected.rejection.reason}")

    def plugin_failed(self, pod: Pod, profile: Profile, error: Exception, now: float) -> list[Output]:
        self.unreserve_and_requeue(pod.uid, now)
        self.evaluator.cache.clear()  # an evaluation may be half updated
        self.state.recorder.plugin_failed(repr(error))
        message = f"a plugin of profile {profile.name} failed: {type(error).__name__}: {error}"
        return self.report(pod, message, ERROR)

    def report(self, pod: Pod, message: str, reason: str = UNSCHEDULABLE) -> list[Output]:
        """A FailedScheduling Event each time, and the PodScheduled condition when it changes."""
        outputs: list[Output] = [pod_events.failed_scheduling(pod, message)]
        shown = self.state.cluster.pods.get(pod.uid, pod).unschedulable_condition
        if (reason, message) != self.last_reported.get(pod.uid, shown):
            outputs.append(SetUnschedulable(pod.uid, pod.namespace, pod.name, reason, message))
        self.last_reported[pod.uid] = (reason, message)
        return outputs

    # --- changes that may help

    def wake(self, change: Change, now: float, pods: Pods = None) -> list[str]:
        """Requeue the unschedulable pods (of these, if any are named) that the change may help."""
        if not change:
            return []
        changed_rows = self.log_reader.read(self.state.cluster.node_table)
        return self.queue.wake(
            change, now, lambda uid, plugins: self._may_help(uid, plugins, change, changed_rows), pods
        )

    def _may_help(
        self, uid: str, plugins: tuple[str, ...], change: Change, changed_rows: queueing_hints.ChangedRows
    ) -> bool:
        pod = self.state.cluster.pods[uid]
        profile = self.state.settings.profile_of(pod.scheduler_name)
        try:
            return profile is None or any(
                queueing_hints.may_help(self.state.cluster.view, each, profile, plugins, change, changed_rows)
                for each in self.gangs.representatives(pod, profile)
            )
        except Exception as error:  # a plugin that fails here fails again in the cycle, and is reported there
            self.state.recorder.plugin_failed(repr(error))
            return True
