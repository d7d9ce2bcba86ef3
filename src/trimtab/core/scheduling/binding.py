"""Binding cycles: pods that have a node and are not yet known to be bound, from Reserve to the watch's confirmation.

    reserved ─▶ Permit ─▶ PreBind ─▶ sent ──201──▶ accepted ───────────────────────────▶ (bound)
                  │ Wait: run again    │                  seen or read on our node ─────▶ (bound)
                  ▼ on answer, change  └─ unknown, 409 ─▶ unknown ── on another ─────────▶ (ended)
               waiting  or deadline                         └────── on none, surely ─▶ requeued

    any rejection, also of a node that no longer fits after a wait: unreserved in reverse order, room given back, requeued

The pod's resources stay assumed in every state above; only the API server's own answer, or a rejection of ours, frees them.
A bind with an unknown outcome is read back at once (`GetPod`), and so is every bind that is neither answered nor confirmed
within `bind_timeout`. Each read is answered once, if only by its failure, so no pod is read twice at a time. When may a pod
that was read without a node be requeued? After a 409 at once, if the read was sent after it. After an unknown outcome only
when a second read, sent `REREAD_DELAY` seconds after the first was answered, says the same: a request whose connection
broke may still be on its way through a server that had been stuck, and arrive just after the first.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.controllers import EngineState, Output
from trimtab.core.framework.interface import Log, Reject, Reserve, StageStatus, Wait, Warn
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.model.change import Change
from trimtab.core.model.instructions import Bind, GetPod
from trimtab.core.model.pod import Pod
from trimtab.core.recorder import StageReport
from trimtab.core.scheduling import pod_events
from trimtab.core.scheduling.queue.pods_by_claim import Pods

REREAD_DELAY = 5.0


class BindState(Enum):
    """How far a binding cycle has come."""

    WAITING = "waiting"
    SENT = "sent"
    UNKNOWN = "unknown"
    ACCEPTED = "accepted"


AWAITING_ANSWER = frozenset({BindState.SENT, BindState.UNKNOWN})


class BindingCycle(Struct):
    """One pod on its way to a node; `stage` counts the Permit and PreBind plugins that have succeeded."""

    pod: Pod
    node: str
    profile: Profile
    started_at: float = 0.0
    state: BindState = BindState.WAITING
    stage: int = 0
    reserved: tuple[Reserve, ...] = ()
    wait_until: float | None = None
    waited: bool = False
    retry_on: int = 0
    conflicted: bool = False  # the server answered 409: our request did not bind the pod
    unbound_at: float | None = None  # when the pod was first read without a node
    read_is_conclusive: bool = False  # the read was sent late enough to tell that the bind did not happen


class StageRejected(Struct, frozen=True):
    """A plugin of the binding cycle said no; the pod is requeued with this reason."""

    plugin: str
    rejection: Reject


class BindingCycles:
    """All binding cycles by pod UID. Never two for one pod."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.by_uid: dict[str, BindingCycle] = {}

    def __len__(self) -> int:
        return len(self.by_uid)

    @property
    def timeout(self) -> float:
        return self.state.settings.bind_timeout

    def below_cap(self) -> bool:
        """Pods that wait in Permit or PreBind do not count: a gang larger than the cap could never come together."""
        cap = self.state.settings.max_binds_in_flight
        return len(self) < cap or len(self) - len(self.waiting()) < cap

    def start(self, pod: Pod, node: str, profile: Profile, now: float) -> list[Output] | StageRejected:
        """Reserve, then run the stages as far as they go."""
        rejected = self.reserve(pod, node, profile, now)
        return self.run_stages(self.by_uid[pod.uid], now) if rejected is None else rejected

    def reserve(self, pod: Pod, node: str, profile: Profile, now: float) -> StageRejected | None:
        """The first stage alone, for pods that are to start together."""
        cluster = self.state.cluster
        cycle = self.by_uid[pod.uid] = BindingCycle(pod, node, profile, now)
        for plugin in profile.reserves:
            name = plugin_name(plugin)
            memory, answer = plugin.reserve(cluster.view, cluster.plugin_state.get(name), pod, node)
            cluster.set_plugin_state(name, memory)
            cycle.reserved = (*cycle.reserved, plugin)
            if isinstance(answer, Reject):
                self._report(cycle, "Reserve", name, answer)
                return StageRejected(name, answer)
        return None

    def run_stages(self, cycle: BindingCycle, now: float, error: str = "") -> list[Output] | StageRejected:
        """Run the stages that have not succeeded yet, and then bind; an error counts as the current stage's rejection."""
        cluster = self.state.cluster
        stages = [each.permit for each in cycle.profile.permits] + [each.pre_bind for each in cycle.profile.pre_binds]
        plugins = (*cycle.profile.permits, *cycle.profile.pre_binds)
        if error:
            return StageRejected(plugin_name(plugins[cycle.stage]), Reject(error, unresolvable=False))
        warnings: list[Output] = []
        while cycle.stage < len(stages):
            answer = stages[cycle.stage](cluster.view, cycle.pod, cycle.node)
            if isinstance(answer, Reject | Warn | Log):
                stage = "Permit" if cycle.stage < len(cycle.profile.permits) else "PreBind"
                self._report(cycle, stage, plugin_name(plugins[cycle.stage]), answer)
            if isinstance(answer, Reject):
                return StageRejected(plugin_name(plugins[cycle.stage]), answer)
            if isinstance(answer, Wait):
                waited = self._wait(cycle, answer, plugin_name(plugins[cycle.stage]), now)
                return waited if isinstance(waited, StageRejected) else [*warnings, *waited]
            if isinstance(answer, Warn):
                warnings.append(pod_events.warning(cycle.pod, answer.reason, answer.message))
            else:
                assert answer is StageStatus.SUCCESS or isinstance(answer, Log)
            cycle.stage, cycle.wait_until = cycle.stage + 1, None
        misfit = _recheck_filters(cluster, cycle) if cycle.waited else None
        return misfit if misfit is not None else [*warnings, self._bind(cycle, now)]

    def _report(self, cycle: BindingCycle, stage: str, plugin: str, answer: Reject | Warn | Log) -> None:
        result, message = "noted", ""
        if isinstance(answer, Reject):
            result, message = "rejected", answer.reason
        elif isinstance(answer, Warn):
            result, message = "warned", answer.message
        report = StageReport(stage, plugin, cycle.pod.key, cycle.node, result, message, answer.figures)
        self.state.recorder.stage_reported(report)

    def _bind(self, cycle: BindingCycle, now: float) -> Bind:
        cycle.state = BindState.SENT
        self.state.writes.begin(Bind, cycle.pod.uid, now, deadline=now + self.timeout)
        return Bind(cycle.pod.uid, cycle.pod.namespace, cycle.pod.name, cycle.node)

    def _wait(self, cycle: BindingCycle, wait: Wait, plugin: str, now: float) -> list[Output] | StageRejected:
        """The deadline runs from the first Wait of a stage, however often it is run again."""
        first = cycle.wait_until is None
        cycle.waited = True
        if cycle.wait_until is None:
            cycle.wait_until = now + wait.seconds
        if now >= cycle.wait_until and not first:
            return StageRejected(plugin, Reject("timed out waiting", unresolvable=False))
        cycle.retry_on = int(wait.retry_on)
        return list(wait.instructions) if first else []

    def waiting(self) -> list[BindingCycle]:
        """Pods in Permit or PreBind: nothing was sent for them yet."""
        return [each for each in self.by_uid.values() if each.state is BindState.WAITING]

    def waiting_for(self, change: Change, pods: Pods = None) -> list[BindingCycle]:
        """Those of these pods, or of all, whose stage may answer differently after the change."""
        candidates = self.waiting() if pods is None else [each for each in map(self.by_uid.get, sorted(pods)) if each]
        return [each for each in candidates if each.state is BindState.WAITING and each.retry_on & int(change)]

    def due(self, now: float) -> list[BindingCycle]:
        """Stages whose deadline has come."""
        return [each for each in self.waiting() if each.wait_until is not None and each.wait_until <= now]

    def overdue(self, now: float) -> list[Output]:
        """Read back the binds that were not answered, or not confirmed by the watch, in time."""
        late = self.state.writes.overdue(Bind, now)
        reading = self.state.writes.of(GetPod)
        return [self.read_back(self.by_uid[call.target], now) for call in late if call.target not in reading]

    def read_back(self, cycle: BindingCycle, now: float) -> GetPod:
        uid, writes = cycle.pod.uid, self.state.writes
        writes.begin(GetPod, uid, now)
        writes.begin(Bind, uid, now, deadline=now + self.timeout)
        seen_twice = cycle.unbound_at is not None and now >= cycle.unbound_at + REREAD_DELAY
        cycle.read_is_conclusive = cycle.conflicted or seen_twice
        return GetPod(uid, cycle.pod.namespace, cycle.pod.name)

    def read_ended(self, uid: str) -> None:
        self.state.writes.end(GetPod, uid)

    def outcome_unknown(self, cycle: BindingCycle, now: float, *, conflicted: bool) -> list[Output]:
        """Read the pod back; a read that is under way already was sent too early to tell."""
        cycle.state, cycle.conflicted = BindState.UNKNOWN, conflicted
        reading = self.state.writes.get(GetPod, cycle.pod.uid)
        return [] if reading is not None else [self.read_back(cycle, now)]

    def read_unbound(self, cycle: BindingCycle, now: float) -> list[Output]:
        """The pod was read without a node, by a read that cannot tell: read it again, now or after `REREAD_DELAY`."""
        if cycle.conflicted:
            return [self.read_back(cycle, now)]
        if cycle.unbound_at is None:
            cycle.unbound_at = now
        self.state.writes.begin(Bind, cycle.pod.uid, now, deadline=cycle.unbound_at + REREAD_DELAY)
        return []

    def accepted(self, cycle: BindingCycle, now: float) -> None:
        cycle.state = BindState.ACCEPTED
        self.state.writes.done(Bind, cycle.pod.uid, now + self.timeout)

    def end(self, uid: str, *, bound: bool) -> BindingCycle | None:
        """Take the cycle out; unless the pod is bound, undo what was reserved, last first."""
        cycle = self.by_uid.pop(uid, None)
        self.state.writes.end(Bind, uid)
        if cycle is not None and not bound:
            for plugin in reversed(cycle.reserved):
                self._unreserve(plugin, cycle)
        return cycle

    def _unreserve(self, plugin: Reserve, cycle: BindingCycle) -> None:
        name, cluster = plugin_name(plugin), self.state.cluster
        try:
            cluster.set_plugin_state(name, plugin.unreserve(cluster.plugin_state.get(name), cycle.pod, cycle.node))
        except Exception as error:  # the room and the others' reservations must be given back all the same
            self.state.recorder.plugin_failed(repr(error))

    def fork(self, state: EngineState) -> BindingCycles:
        copied = BindingCycles(state)
        copied.by_uid = {uid: replace(cycle) for uid, cycle in self.by_uid.items()}
        return copied


def _recheck_filters(cluster: Cluster, cycle: BindingCycle) -> StageRejected | None:
    """While the pod waited its node may have gone, shrunk or been filled; the API server would bind it all the same."""
    row = cluster.view.row(cycle.node)
    if row is None:
        return StageRejected("Bind", Reject(f"node {cycle.node} no longer exists"))
    without = cluster.view.with_pods({}, {cycle.node: [cluster.placements[cycle.pod.uid].pod]})
    for plugin in cycle.profile.filters:
        code = int(plugin.filter(without, cycle.pod, np.array([row], dtype=np.intp))[0])
        if code:
            return StageRejected(plugin_name(plugin), Reject(", ".join(plugin.reasons(without, cycle.pod, code))))
    return None
