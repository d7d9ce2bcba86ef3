"""The rescheduling controller: plans at its interval, and lets `execution.py` carry the plans out.

In `observe` mode plans are only told, and in `approve` mode they wait for somebody who approves them. Rivals, which only the
simulator runs, evict by their own rules, and nobody follows their evictions up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from trimtab.core.controllers import Changed, Controller, EngineState, Output
from trimtab.core.model.events import (
    Event,
    EvictDone,
    EvictFailed,
    LeaseLost,
    LedgerFailed,
    LedgerRead,
    LedgerWritten,
    PauseChanged,
    PlanApproved,
    PodDeleted,
    PodUpserted,
    ResizeDone,
    SchedulerChecked,
    SettingsRead,
    SurgeDone,
    SurgeFailed,
)
from trimtab.core.model.instructions import Evict
from trimtab.core.model.plan import Plan
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.execution import NOT_READ, Execution
from trimtab.core.rescheduling.guards import cluster_refusal
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.rescheduling.plan_history import PlanHistory
from trimtab.core.rescheduling.planner import Planner
from trimtab.core.rescheduling.remedies import Remedies
from trimtab.core.rescheduling.rivals.rounds import RivalRounds
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import StrategyContext


class Rescheduling(Controller):
    """Idle without settings."""

    listens_to: ClassVar[frozenset[type] | None] = frozenset({PodUpserted, PodDeleted, SettingsRead, LeaseLost})
    answers: ClassVar[frozenset[type]] = frozenset(
        {
            *(EvictDone, EvictFailed, LedgerRead, LedgerWritten, LedgerFailed),
            *(SurgeDone, SurgeFailed, ResizeDone, PauseChanged, PlanApproved, SchedulerChecked),
        }
    )
    gives_way: ClassVar[bool] = True

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.execution = Execution(state)
        self.history = PlanHistory()
        self.remedies = Remedies()
        self._rival_rounds = RivalRounds()
        self._next_plan = 0.0
        self.make_planner: Callable[..., Planner] = Planner  # or one that searches in another way
        self._planner: Planner | None = None
        self._steps: Iterator[None] = iter(())
        self._apply_settings()

    def fork(self, state: EngineState) -> Rescheduling:
        copied = Rescheduling(state)
        copied.execution, copied._next_plan = self.execution.fork(state), self._next_plan
        copied._rival_rounds, copied.history = self._rival_rounds.copy(), self.history.copy()
        copied.remedies = self.remedies.copy()
        return copied

    @property
    def settings(self) -> ReschedulingSettings | None:
        return self.state.settings.rescheduling

    def _apply_settings(self) -> None:
        further = self.settings.capacities if self.settings is not None else {}
        self.state.cluster.load_store.keep_snapshots(self.settings is not None, further)
        self._taints = self.settings is not None and self.settings.taints_nodes
        self._rivals = self.settings.rivals if self.settings is not None else ()

    # --- what happens in the cluster

    def on_change(self, changed: Changed) -> Sequence[Output]:
        event, execution = changed.event, self.execution
        match event:
            case PodUpserted():
                assert isinstance(changed.after, Pod)
                before = changed.before if isinstance(changed.before, Pod) else None
                return execution.pod_upserted(before, changed.after, event.at)
            case PodDeleted():
                return execution.pod_deleted(event.uid, event.at)
            case SettingsRead():
                return self._settings_read(event.at)
            case LeaseLost():
                execution.stop()
                self._drop_plan()
        return ()

    def _drop_plan(self) -> None:
        """The one that is being made, with its copies of the cluster."""
        self._planner, self._steps = None, iter(())

    def _settings_read(self, now: float) -> Sequence[Output]:
        """Soft taints that are not set any more go at once: without `rescheduling` nothing would remove them later."""
        tainted = self._taints
        self._drop_plan()
        self._apply_settings()
        self.execution.settings_changed(now)
        if self.settings is None:
            self.execution.stop()
        gone = tainted and not self._taints and self.state.may_decide
        return self.remedies.untaint(self.state.cluster) if gone else ()

    def on_answer(self, answer: Event) -> Sequence[Output]:
        if isinstance(answer, PauseChanged):
            self.execution.pause = answer.reason
            return ()
        if isinstance(answer, SchedulerChecked):
            self.execution.scheduler_problems[answer.scheduler] = answer.problem
            return ()
        outputs, settings = self._answers[type(answer)](answer), self.settings
        if settings is None or not self.state.may_decide or not isinstance(answer, LedgerWritten):
            return outputs
        return [*outputs, *self._plan_if_due(settings, answer.at)]

    @property
    def _answers(self) -> Mapping[type[Event], Callable[[Any], Sequence[Output]]]:
        execution = self.execution
        return {
            EvictDone: execution.evict_done,
            EvictFailed: execution.evict_failed,
            LedgerRead: execution.ledger_read,
            LedgerWritten: execution.ledger_written,
            LedgerFailed: execution.ledger_failed,
            SurgeDone: execution.surge_done,
            SurgeFailed: execution.surge_failed,
            ResizeDone: self.remedies.resize_done,
            PlanApproved: self._approved,
        }

    # --- planning

    def tick(self, now: float) -> Sequence[Output]:
        settings, self.history.now = self.settings, now
        if settings is None or self.state.term is None:
            return ()
        outputs: list[Output] = []
        if self._carries_out(settings) and self.state.may_decide:
            outputs += self.execution.lead(self.state.term)
        if self._carries_out(settings) or self.execution.is_active:
            outputs += self.execution.tick(now)
        return [*outputs, *self._plan_if_due(settings, now)] if self.state.may_decide else outputs

    def _carries_out(self, settings: ReschedulingSettings) -> bool:
        """Only then the ledger is needed."""
        return settings.mode is not Mode.OBSERVE and not self._rivals

    def _plan_if_due(self, settings: ReschedulingSettings, now: float) -> list[Output]:
        """A plan that is to be carried out waits until the ledger was read for the first time."""
        waits = self._carries_out(settings) and self.execution.problem == NOT_READ
        if self._planner is not None or now < self._next_plan or waits:
            return []
        self._next_plan = now + settings.interval
        return self._run_rivals(settings, now) if self._rivals else self._start_plan(now)

    def _start_plan(self, now: float) -> list[Output]:
        context = self.execution.guard_context(now)
        refused = cluster_refusal(context)
        if refused is not None:
            return [self._made(Plan(now, refusals=(refused,)))]
        frozen = replace(context, cluster=self.state.cluster.fork())  # the plan takes several turns
        settings = self.state.settings
        self._planner = self.make_planner(frozen, settings.any_profile_of, settings.other_schedulers)
        self._steps = self._planner.steps()
        return []

    def _made(self, plan: Plan) -> Plan:
        self.state.recorder.planned(plan)
        return self.history.keep(plan)

    def _run_rivals(self, settings: ReschedulingSettings, now: float) -> list[Output]:
        cluster = self.state.cluster
        load = NodeLoad(cluster, settings.limits)
        plan = self._rival_rounds.plan(
            StrategyContext(cluster, load, now, self.state.settings.any_profile_of), self._rivals
        )
        if settings.mode is not Mode.AUTO:
            return [plan]
        pods = ((cluster.pods[move.uid], move.reason) for move in plan.moves)
        return [plan, *(Evict(pod.uid, pod.namespace, pod.name, reason) for pod, reason in pods)]

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
                return self._carry_out(self._made(planner.plan), now)
        return ()

    def _approved(self, event: PlanApproved) -> Sequence[Output]:
        if self.settings is None or not self._carries_out(self.settings):
            return ()
        return self.execution.approve(event.plan, event.at)

    def _carry_out(self, plan: Plan, now: float) -> list[Output]:
        settings = self.settings
        if settings is None or settings.mode is Mode.OBSERVE:
            return [plan]
        if settings.mode is Mode.APPROVE:
            return [plan, *self.execution.publish(plan, now), *self.remedies.untaint(self.state.cluster)]
        further = self.remedies.apply(self.state.cluster, plan, settings.remedies, self.state.recorder)
        moves = self.execution.carry_out(plan, now) if settings.remedies.move else ()
        return [plan, *further, *moves]
