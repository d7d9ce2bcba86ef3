"""What follows a failed attempt: undo and back off, report it to people, and requeue pods when a change may help them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from trimtab.core.cluster.view import View
from trimtab.core.controllers import EngineState, Output
from trimtab.core.framework.choose import nominated_by_node
from trimtab.core.framework.pod_checks import victims_leaving
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

    def wake(self, change: Change, now: float, pods: Pods = None, event: str = "", gave_up: Pod | None = None) -> None:
        """Requeue the unschedulable pods (of these, if any are named) that the change may help.

        `gave_up` is the pod whose nomination was taken back, if it is one.
        """
        if not change:
            return
        cluster, queued = self.state.cluster, self.queue.pods
        rows = self.log_reader.read(cluster.node_table)
        if change & Change.NOMINATED and gave_up is not None:
            self._nomination_given_up(gave_up, now, event)
            change &= ~Change.NOMINATED

        def may_help(uid: str, plugins: tuple[str, ...], view: View = cluster.view) -> bool:
            return self._may_help(uid, plugins, change, rows, view)

        beside = self._beside_nominated(rows.include, lambda uid, view: may_help(uid, queued[uid].plugins, view))
        self.queue.wake(change, now, may_help, pods, event, beside)

    def _nomination_given_up(self, gave_up: Pod, now: float, event: str) -> None:
        """Requeue those that this nomination kept away: none of higher priority."""
        cluster, given_up = self.state.cluster, self.state.cluster.view.row(gave_up.nominated_node)

        def passes(uid: str, view: View) -> bool:
            pod = cluster.pods[uid]
            profile = self.state.settings.profile_of(pod.scheduler_name)
            return profile is None or given_up is None or queueing_hints.passes_row(view, pod, profile, given_up)

        beside = self._beside_nominated(lambda row: row == given_up, passes)
        self.queue.wake(
            Change.NOMINATED,
            now,
            event=event,
            may_wake=lambda uid: cluster.pods[uid].priority <= gave_up.priority and beside(uid),
        )

    def _beside_nominated(
        self, changed: Callable[[int], bool], passes: Callable[[str, View], bool]
    ) -> Callable[[str], bool]:
        """Whether a pod may be woken by a change of these rows: one that has a nomination only if that may help it.

        It preempts no more while its victims leave, so it needs room that is promised to no other. Pods with equal answers
        from the filters are asked about once.
        """
        cluster = self.state.cluster
        answers: dict[Hashable, bool] = {}

        def may_wake(uid: str) -> bool:
            pod = cluster.nominated.get(uid)
            if pod is None:
                return True
            entry, row = self.queue.pods[uid], cluster.view.row(pod.nominated_node)
            own = row is None or changed(row)
            if own and (row is None or not victims_leaving(cluster.view, pod)):
                return True
            key = (uid if own else "", entry.equivalence.hints, entry.plugins, pod.priority)
            if key not in answers:
                promised = nominated_by_node(cluster.view, pod, self.evaluator.nominated())
                answers[key] = passes(uid, cluster.view.with_pods(promised))
            return answers[key]

        return may_wake

    def _may_help(
        self, uid: str, plugins: tuple[str, ...], change: Change, changed_rows: queueing_hints.ChangedRows, view: View
    ) -> bool:
        pod = self.state.cluster.pods[uid]
        profile = self.state.settings.profile_of(pod.scheduler_name)
        try:
            if profile is None:
                return True
            in_gang = self.gangs.waits_in_gang(pod, profile)
            return any(
                queueing_hints.may_help(view, each, profile, plugins, change, changed_rows, in_gang)
                for each in self.gangs.representatives(pod, profile)
            )
        except Exception as error:  # a plugin that fails here fails again in the cycle, and is reported there
            self.state.recorder.plugin_failed(repr(error))
            return True
