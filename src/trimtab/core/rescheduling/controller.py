"""The rescheduling controller: plans at its interval, and sees each move through.

    planned ──Evict──▶ evicting ──done──▶ replacing ──replacement has a node──▶ (ended)
                          │                   │
                          └──failed───────────┴──nobody came in time──▶ (ended, longer hold)

A replacement is nominated to the planned node, so that the scheduler tries that node first. Rivals, which only the simulator
runs, evict by their own rules, and their evictions are not followed up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from msgspec import Struct

from trimtab.core.controllers import Changed, Controller, EngineState, Output
from trimtab.core.model.events import Event, EvictDone, EvictFailed, LeaseLost, PodUpserted, SettingsRead
from trimtab.core.model.instructions import Evict, Nominate
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.guards import (
    GuardContext,
    OwnerSlot,
    UnderWay,
    cluster_refusal,
    owner_slot,
    refusal,
)
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.rescheduling.planner import Planner
from trimtab.core.rescheduling.rivals.rounds import RivalRounds
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import StrategyContext

REPLACEMENT_TIMEOUT = 300.0


class MoveUnderWay(Struct):
    """A move whose replacement does not have a node yet."""

    move: Move
    slot: OwnerSlot
    deadline: float
    pod: Pod  # the one that leaves
    replacement: str = ""  # its UID


class Rescheduling(Controller):
    """Idle without settings."""

    listens_to: ClassVar[frozenset[type] | None] = frozenset({PodUpserted, SettingsRead, LeaseLost})
    answers: ClassVar[frozenset[type]] = frozenset({EvictDone, EvictFailed})
    gives_way: ClassVar[bool] = True

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.under_way: dict[str, MoveUnderWay] = {}  # by the UID of the pod that leaves
        self.holds: dict[OwnerSlot, float] = {}
        self._rival_rounds = RivalRounds()
        self._next_plan = 0.0
        self._planner: Planner | None = None
        self._steps: Iterator[None] = iter(())
        self._apply_settings()

    def fork(self, state: EngineState) -> Rescheduling:
        copied = Rescheduling(state)
        copied.holds, copied._next_plan = self.holds.copy(), self._next_plan
        copied._rival_rounds = self._rival_rounds.copy()
        return copied

    @property
    def settings(self) -> ReschedulingSettings | None:
        return self.state.settings.rescheduling

    def _apply_settings(self) -> None:
        self.state.cluster.load_store.keep_snapshots(self.settings is not None)

    # --- what happens in the cluster

    def on_change(self, changed: Changed) -> Sequence[Output]:
        event = changed.event
        if isinstance(event, PodUpserted):
            return self._pod_upserted(changed.after, event.at) if self.under_way else ()
        self._planner = None
        if isinstance(event, SettingsRead):
            self._apply_settings()
        else:
            self.under_way.clear()
        return ()

    def _pod_upserted(self, pod: object, now: float) -> Sequence[Output]:
        assert isinstance(pod, Pod)
        if pod.owner is None or pod.terminating:
            return ()
        slot = owner_slot(pod)
        for uid, each in self.under_way.items():
            if each.replacement == pod.uid or (not each.replacement and each.slot == slot and pod.pending):
                if pod.node:
                    del self.under_way[uid]
                    return ()
                if not each.replacement:
                    each.replacement = pod.uid
                    self.state.cluster.nominate(pod.uid, each.move.target)
                    return (Nominate(pod.uid, pod.namespace, pod.name, each.move.target),)
                return ()
        return ()

    def on_answer(self, answer: Event) -> Sequence[Output]:
        if isinstance(answer, EvictFailed):
            self.under_way.pop(answer.uid, None)
        return ()

    # --- planning

    def tick(self, now: float) -> Sequence[Output]:
        settings = self.settings
        if settings is None or not self.state.may_decide or self._planner is not None or now < self._next_plan:
            return ()
        self._next_plan = now + settings.interval
        if settings.rivals:
            return self._run_rivals(settings, now)
        self.under_way = {uid: each for uid, each in self.under_way.items() if now < each.deadline}
        self.holds = {slot: until for slot, until in self.holds.items() if now < until}
        context = self._guard_context(settings, now)
        refused = cluster_refusal(context)
        if refused is not None:
            return (Plan(now, refusals=(refused,)),)
        frozen = replace(context, cluster=self.state.cluster.fork())  # the plan takes several turns
        self._planner = Planner(frozen, self.state.settings.profile_of, self.state.settings.other_schedulers)
        self._steps = self._planner.steps()
        return ()

    def _run_rivals(self, settings: ReschedulingSettings, now: float) -> list[Output]:
        cluster = self.state.cluster
        load = NodeLoad(cluster, settings.limits)
        plan = self._rival_rounds.plan(
            StrategyContext(cluster, load, now, self.state.settings.profile_of), settings.rivals
        )
        if settings.mode is not Mode.AUTO:
            return [plan]
        pods = ((cluster.pods[move.uid], move.reason) for move in plan.moves)
        return [plan, *(Evict(pod.uid, pod.namespace, pod.name, reason) for pod, reason in pods)]

    def _guard_context(self, settings: ReschedulingSettings, now: float) -> GuardContext:
        under_way = {
            uid: UnderWay(each.slot, each.replacement, each.move.target, each.pod)
            for uid, each in self.under_way.items()
        }
        return GuardContext(self.state.cluster, settings, now, self.holds, under_way, self.state.forbidden)

    def has_work(self) -> bool:
        return self._planner is not None

    def turn(self, budget: int, now: float) -> Sequence[Output]:
        planner = self._planner
        if planner is None:
            return ()
        for _ in range(budget):
            if next(self._steps, self) is self:
                self._planner = None
                assert planner.plan is not None
                return self._carry_out(planner.plan, now)
        return ()

    def _carry_out(self, plan: Plan, now: float) -> list[Output]:
        settings = self.settings
        if settings is None or settings.mode is not Mode.AUTO:
            return [plan]
        outputs: list[Output] = [plan]
        for move in plan.moves:
            outputs += self._evict(move, settings, now)
        return outputs

    def _evict(self, move: Move, settings: ReschedulingSettings, now: float) -> Sequence[Output]:
        """Unless the cluster, or an earlier move of this plan, gives a guard a reason now."""
        pod = self.state.cluster.pods.get(move.uid)
        if pod is None or pod.node != move.source or refusal(self._guard_context(settings, now), pod) is not None:
            return ()
        slot = owner_slot(pod)
        self.holds[slot] = now + settings.cooldown
        self.under_way[move.uid] = MoveUnderWay(move, slot, now + REPLACEMENT_TIMEOUT, pod)
        return (Evict(pod.uid, pod.namespace, pod.name, move.reason),)
