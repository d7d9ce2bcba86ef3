"""Lets an engine schedule the pods of a live cluster without acting, and compares what it decides with what happens.

    pod pending ──▶ the engine schedules it, and its instructions are dropped ──▶ the pod is assumed on the policy's node
        │ (bound by a real scheduler, seen by the watch)
        ▼
    compared ──▶ one-step: the engine moves the pod to its real node, and later pods are decided on the real state
            └──▶ cumulative: the pod stays where the policy has put it, and so does its measured usage

In one-step mode each decision is one step from reality: placements of the policy do not add up, except for pods that still
wait in reality, which have no other place. Of a burst most pods wait so: where two schedulers break one tie differently, all
that follows differs, though both follow the same policy. Therefore a second engine, which decides nothing, holds the real
state alone, and is asked when a pod is bound: a node that is among the best ones there is no difference.

In cumulative mode the engine lives in the policy's own world. It is told that a pod is bound where the policy would have
bound it, and what was measured of a node arrives without the usage of the pods that would be elsewhere, and with that of
those it would have. A pod for which the policy finds no node is on its real node there, too.

A pod that is bound before it was decided, or for which no node was feasible until then, is decided at that moment, on the
state without it. Bound pods of the first list were scheduled before, and mirror pods by nobody: they are not compared.
What a real scheduler has nominated is its own plan, and is left out.

Pure, as the simulator is: whoever drives it supplies the events and the clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from msgspec import structs

from trimtab.core.engine import Engine
from trimtab.core.framework.choose import best_nodes
from trimtab.core.framework.evaluation import NO_TIMER
from trimtab.core.framework.profile import Profile
from trimtab.core.model.events import Event, PodDeleted, PodUpserted, SamplesRead, Turn
from trimtab.core.model.instructions import Instruction, Preempt
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.core.model.schedule_result import Decision, Placement, Unschedulable
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.evaluator import INVALID
from trimtab.core.scheduling.explain import view_without_pod
from trimtab.core.settings import Settings
from trimtab.sim.shadow.load_comparison import RESOURCES, LoadComparison, moved_usage, with_slots
from trimtab.sim.shadow.outcomes import Counts, Outcome, compare

MAX_DIFFERENCES = 1_000  # of the newest that are kept
MIRROR_OWNER = "Node"  # of the pods that stand for a kubelet's static ones

Verdict = Placement | Unschedulable


def shadow_settings(settings: Settings) -> Settings:
    """No answer to a bind ever comes, so nothing may wait for one; and nobody labels nodes or moves pods."""
    return replace(settings, max_binds_in_flight=1 << 30, bind_timeout=inf, labels=None, rescheduling=None)


@dataclass
class WaitingPod:
    """A pod that no real scheduler has bound yet, and what the policy has decided so far."""

    scheduler: str  # as its own spec names it
    verdict: Verdict | None = None
    best: tuple[str, ...] = ()
    at: float = 0.0
    preempts: bool = False


class Shadow:
    """Give `take` every event but ticks and turns, and let the engine's driver call `perform` and `on_decision`."""

    def __init__(self, settings: Settings, *, cumulative: bool = False) -> None:
        self.cumulative = cumulative
        self.engine = Engine(shadow_settings(settings))
        self.real = Engine(shadow_settings(settings))  # never leads, so it decides nothing and assumes no pod anywhere
        self.counts, self.load = Counts(), LoadComparison()
        self.moved: dict[str, Outcome] = {}  # by UID: living pods that would be elsewhere
        self.differences: deque[Outcome] = deque(maxlen=MAX_DIFFERENCES)
        self.waiting: dict[str, WaitingPod] = {}
        self._settled: set[str] = set()  # pods with a node, compared or not

    @property
    def unbound(self) -> int:
        """Pods that the policy would have scheduled, and that still wait in reality."""
        return sum(isinstance(each.verdict, Placement) for each in self.waiting.values())

    # --- events in

    def take(self, event: Event, dispatch: Callable[[Event], None]) -> None:
        """Compare what the event says, then let both engines know of it, and decide at once on a pod that it brings."""
        told = event
        match event:
            case PodUpserted(pod=pod):
                told = structs.replace(event, pod=self._pod_seen(pod, event.at))
            case PodDeleted(uid=uid):
                self._pod_gone(uid)
            case SamplesRead(readings=readings) if self.cumulative:
                told = structs.replace(event, readings=tuple(map(self._moved_reading, readings)))
        self.real.handle(event)
        dispatch(told)
        if isinstance(told, PodUpserted) and told.pod.pending and self.engine.has_work():
            dispatch(Turn(1, told.at))

    def _moved_reading(self, reading: Reading) -> Reading:
        """What would have been measured of the nodes, had their pods been where the policy would have put them."""
        cluster, known = self.real.cluster, self.real.cluster.node_table
        usage = reading.unit is not Unit.RAW and reading.statistic is Statistic.LATEST
        if reading.subject is not Subject.NODES or not usage or reading.resource not in RESOURCES:
            return reading
        change, _ = moved_usage(cluster, reading.resource, with_slots(cluster, self.moved.values()))
        if reading.unit is Unit.FRACTION:
            capacity = known.node_capacity[reading.resource].array[: len(change)]
            change = change / np.where(capacity > 0, capacity, np.inf)
        rows = [known.row.get(name) for name in reading.names]
        values = zip(reading.values, rows, strict=True)
        moved = (value if row is None else max(value + float(change[row]), 0.0) for value, row in values)
        return structs.replace(reading, values=tuple(moved))

    def _pod_seen(self, pod: Pod, at: float) -> Pod:
        """The pod as the engine is to see it."""
        if pod.finished:
            self.moved.pop(pod.uid, None)
        if pod.node:
            self._bound(pod, at)
            return self._in_policys_world(pod)
        if pod.pending:
            if pod.uid not in self._settled:
                self.waiting.setdefault(pod.uid, WaitingPod(pod.scheduler_name))
            profile = self._profile(pod).name
            return structs.replace(pod, scheduler_name=profile, nominated_node="")
        if self.waiting.pop(pod.uid, None) is not None:
            self.counts.unscheduled += 1
        return pod

    def _in_policys_world(self, pod: Pod) -> Pod:
        """On the policy's node, if that is another one and placements are to add up."""
        moved = self.moved.get(pod.uid) if self.cumulative else None
        return structs.replace(pod, node=moved.shadow) if moved is not None and moved.shadow else pod

    def _pod_gone(self, uid: str) -> None:
        self._settled.discard(uid)
        self.moved.pop(uid, None)
        if self.waiting.pop(uid, None) is not None:
            self.counts.unscheduled += 1

    def _bound(self, pod: Pod, at: float) -> None:
        if pod.uid in self._settled:
            return
        self._settled.add(pod.uid)
        waited = self.waiting.pop(pod.uid, None)
        mirrors = pod.owner is not None and pod.owner.kind == MIRROR_OWNER
        if not self.engine.state.may_decide or mirrors or pod.uid in self.moved:
            return
        found = waited if waited is not None else WaitingPod(pod.scheduler_name)
        late = not isinstance(found.verdict, Placement)
        if late or not self.cumulative:
            verdict, best = self._decide_now(self.engine if self.cumulative else self.real, pod, at)
            if late:
                found.verdict, found.at = verdict, at
            found.best = (*found.best, *best)
        assert found.verdict is not None
        outcome = compare(
            pod, found.verdict, found.best, found.at, scheduler=found.scheduler, late=late, preempts=found.preempts
        )
        self._keep(outcome, pod)

    def _keep(self, outcome: Outcome, pod: Pod) -> None:
        self.counts.add(outcome)
        if outcome.moved:
            self.differences.append(outcome)
        if outcome.moved and not pod.finished:
            self.moved[pod.uid] = outcome

    def _decide_now(self, engine: Engine, pod: Pod, at: float) -> tuple[Verdict, tuple[str, ...]]:
        """The verdict and all nodes of the highest score, before this engine is told that the pod is bound."""
        evaluator, profile = engine.controller(Scheduling).evaluator, self._profile(pod)
        unbound = structs.replace(pod, node="", nominated_node="", scheduler_name=profile.name)
        engine.cluster.age_load(at)
        try:
            verdict = evaluator.evaluate(unbound, profile, NO_TIMER)
            return verdict, best_nodes(engine.cluster.view, unbound, profile, evaluator.nominated())
        except Exception as error:  # a plugin may raise anything, and the next pod is decided all the same
            evaluator.cache.clear()
            note = f"a plugin of profile {profile.name} failed: {type(error).__name__}: {error}"
            return Unschedulable(len(engine.cluster.node_table), note=note, plugins=INVALID), ()

    def _profile(self, pod: Pod) -> Profile:
        """The profile that the pod names, or the policy's first one."""
        settings = self.engine.state.settings
        return settings.profile_of(pod.scheduler_name) or settings.profiles[0]

    # --- what the engine wants and decides

    def perform(self, instruction: Instruction) -> None:
        """Nothing is ever sent: this is where every instruction ends."""
        if isinstance(instruction, Preempt) and (found := self.waiting.get(instruction.preemptor)) is not None:
            found.preempts = True

    def on_decision(self, decision: Decision) -> None:
        """The last decision before the pod is bound is the one that counts."""
        found, pod = self.waiting.get(decision.uid), self.engine.cluster.pods.get(decision.uid)
        if found is None or pod is None:
            return
        found.verdict, found.at, found.best = decision.verdict, decision.at, ()
        if isinstance(decision.verdict, Placement):
            found.best = self._best_nodes(pod, self._profile(pod))

    def _best_nodes(self, pod: Pod, profile: Profile) -> tuple[str, ...]:
        """As they were before the engine assumed the pod on one of them."""
        evaluator = self.engine.controller(Scheduling).evaluator
        try:
            return best_nodes(view_without_pod(self.engine.cluster, pod), pod, profile, evaluator.nominated())
        except Exception:  # it did not raise when it decided: ties are then not known
            return ()

    def measure(self, now: float) -> None:
        """Call it regularly: the time since the last call counts with the load of now."""
        cluster = self.real.cluster
        if self.engine.state.may_decide:  # before the first list is complete, every pod would seem gone
            self.moved = {uid: each for uid, each in self.moved.items() if uid in cluster.pods}
        cluster.age_load(now)
        self.load.measure(cluster, self.moved.values(), now)
