"""`Simulation`: one scenario, one policy and one seed, on the real engine; the counterpart of the live runtime.

The engine is the one that runs live. The world performs its instructions and tells it what happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from trimtab.core.driver import Driver, Record
from trimtab.core.engine import Engine
from trimtab.core.model.events import (
    BindFailed,
    Event,
    EvictDone,
    EvictFailed,
    KindForbidden,
    LeaseAcquired,
    LedgerFailed,
    LedgerRead,
    LedgerWritten,
    NodeUpserted,
    ObjectUpserted,
    PodUpserted,
    SurgeDone,
    SurgeFailed,
    Synced,
    Tick,
)
from trimtab.core.model.instructions import EndSurge, Evict, Instruction, ReadLedger, StartSurge, WriteLedger
from trimtab.core.model.ledger import Grade, Ledger, MoveRecord
from trimtab.core.model.plan import Plan
from trimtab.core.model.schedule_result import Decision, Unschedulable
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.settings import Mode
from trimtab.core.settings import Settings
from trimtab.sim.autoscaling import ClusterAutoscaler, HorizontalAutoscaler
from trimtab.sim.budgets import Budgets
from trimtab.sim.clock import VirtualClock
from trimtab.sim.kubelets import Kubelets
from trimtab.sim.node_lifecycle import NodeLifecycle
from trimtab.sim.owners import PodOwner, start_owners
from trimtab.sim.scenario import Failover, Scenario
from trimtab.sim.scrapes import Scrapes
from trimtab.sim.snapshot_file import NOT_LISTED
from trimtab.sim.surges import Surges
from trimtab.sim.usage import UsageTable
from trimtab.sim.world import World

BUSY_TICK, TICK, IDLE_TICK = 1.0, 10.0, 30.0  # soon after an attempt failed, while pods are pending, and otherwise
BUSY_SECONDS = 15.0
EVICTION_DELAY = 0.02
LEDGER_DELAY = 0.01


class GradedMoves(MetricsRecorder):
    """Keeps the moves that were graded, by the UID of the pod that left."""

    def __init__(self) -> None:
        self.records: dict[str, MoveRecord] = {}

    def move_graded(self, record: MoveRecord, grade: Grade) -> None:
        self.records[record.uid] = record


def without_observing(settings: Settings) -> Settings:
    """Plans that nobody carries out or reads only take time, up to ten times that of scheduling."""
    observing = settings.rescheduling is not None and settings.rescheduling.mode is not Mode.AUTO  # nobody approves
    return replace(settings, rescheduling=None) if observing else settings


def _idle_tick(settings: Settings) -> float:
    """The interval of plans is a multiple of it."""
    interval = IDLE_TICK if settings.rescheduling is None else settings.rescheduling.interval
    return interval / math.ceil(interval / IDLE_TICK)


class Simulation:
    """The same scenario, settings and seed give the same run.

    on_decision: called with each decision while the engine's state is still the one it was based on. record: called with
    every event and its outputs.
    """

    def __init__(
        self,
        scenario: Scenario,
        settings: Settings,
        seed: int,
        on_decision: Callable[[Decision], None] | None = None,
        record: Record | None = None,
    ) -> None:
        self.scenario, self.settings = scenario, settings
        self._on_decision, self._record = on_decision, record
        self.clock = VirtualClock(scenario.begins)
        usage = UsageTable(seed, scenario.begins, scenario.step, scenario.oom_kills)
        self.world = World(self.clock, seed, self.feed, usage, [profile.name for profile in settings.profiles])
        self.decisions = 0
        self.plans: list[Plan] = []
        self.ledger, self._ledger_version = Ledger(), 0
        self._grades = GradedMoves()
        self._busy_until, self._next_tick, self._idle_tick = scenario.begins, math.inf, _idle_tick(settings)
        self._term = 1
        self._driver: Driver | None = None
        self._lead()
        self._populate()

    @property
    def engine(self) -> Engine:
        if self._driver is None:
            raise LookupError("no replica leads at the moment")
        return self._driver.engine

    @property
    def graded_moves(self) -> Sequence[MoveRecord]:
        """All that were graded, with their grades; the ledger keeps the last ones only."""
        return tuple(self._grades.records.values())

    def run_until(self, at: float) -> None:
        self.clock.run_until(at)

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """To the end of the scenario; `progress` hears of the time after every hundredth."""
        for part in range(1, 101):
            self.clock.run_until(self.scenario.begins + self.scenario.duration * part / 100)
            if progress is not None:
                progress(self.clock.now)

    # --- the cluster

    def _populate(self) -> None:
        scenario, world = self.scenario, self.world
        self.kubelets = Kubelets(world)
        for each in scenario.objects:
            world.put_object(each)
        for simulated in scenario.nodes:
            if simulated.joins <= scenario.begins:
                world.put_node(simulated)
            else:
                self.clock.call_at(simulated.joins, partial(world.put_node, simulated))
        self.owners: dict[str, PodOwner] = start_owners(world, scenario.workloads, scenario.pods)
        self.surges = Surges(world)
        self.budgets = Budgets(world)
        self.lifecycle = NodeLifecycle(world, self.kubelets, self.budgets)
        for owner in self.owners.values():
            self.budgets.add(owner)
            if owner.workload.autoscaling is not None:
                HorizontalAutoscaler(world, owner, owner.workload.autoscaling)
        for event in scenario.node_events:
            self.lifecycle.schedule(event)
        if scenario.autoscaling is not None:
            ClusterAutoscaler(world, self.lifecycle, scenario.autoscaling)
        self.scrapes = Scrapes(world, scenario.metrics, self.feed)
        for failover in scenario.failovers:
            self.clock.call_at(failover.at, partial(self._fail_over, failover))
        self._tick_within(BUSY_TICK)

    # --- the engine

    def feed(self, event: Event) -> None:
        """Feed the event to the engine, then let it decide, one pod per turn, until it has no work."""
        if self._driver is None:
            return
        if isinstance(event, BindFailed):
            self._expect_retry()
        self._driver.put(event)
        self._driver.decide(self.clock.now)

    def _expect_retry(self) -> None:
        """A pod backs off for a second or some more, and only a tick ends that."""
        self._busy_until = self.clock.now + BUSY_SECONDS
        self._tick_within(BUSY_TICK)

    def _decided(self, decision: Decision) -> None:
        self.decisions += 1
        if isinstance(decision.verdict, Unschedulable):
            self._expect_retry()
        if self._on_decision is not None:
            self._on_decision(decision)

    def _tick(self, due: float) -> None:
        if due != self._next_tick:  # an earlier one has taken its place
            return
        self._next_tick = math.inf
        self.feed(Tick(due))
        busy = self.world.pending and self.clock.now < self._busy_until
        self._tick_within(BUSY_TICK if busy else TICK if self.world.pending else self._idle_tick)

    def _tick_within(self, seconds: float) -> None:
        due = self.clock.now + seconds
        if due < self._next_tick:
            self._next_tick = due
            self.clock.call_at(due, partial(self._tick, due))

    def _lead(self) -> None:
        """A replica that knows what the API server has takes the lease."""
        now = self.clock.now
        self._driver = Driver(
            Engine(self.settings, self._grades), self._perform, self._decided, self._record, self.plans.append
        )
        for each in self.world.objects.values():
            self._driver.put(ObjectUpserted(each, now))
        for simulated in self.world.nodes.values():
            self._driver.put(NodeUpserted(simulated.node, now))
        for pod in self.world.pods.values():
            self._driver.put(PodUpserted(pod, now))
        for kind in self.settings.kinds:
            missing = kind in self.scenario.missing_kinds
            self._driver.put(KindForbidden(kind, NOT_LISTED, now) if missing else Synced(kind, now))
        self.feed(LeaseAcquired(self._term, now))

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case Evict():
                self.clock.call_later(EVICTION_DELAY, partial(self._evict, instruction))
            case ReadLedger():
                self.clock.call_later(LEDGER_DELAY, self._read_ledger)
            case WriteLedger():
                self.clock.call_later(LEDGER_DELAY, partial(self._write_ledger, instruction))
            case StartSurge() | EndSurge():
                self.clock.call_later(EVICTION_DELAY, partial(self._surge, instruction))
            case _:
                self.world.perform(instruction)

    def _read_ledger(self) -> None:
        self.feed(LedgerRead(self.ledger, self.clock.now, str(self._ledger_version)))

    def _write_ledger(self, write: WriteLedger) -> None:
        """It outlives the replica that wrote it."""
        if write.version != str(self._ledger_version):
            self.feed(LedgerFailed("somebody else wrote it", self.clock.now))
            return
        self.ledger, self._ledger_version = write.ledger, self._ledger_version + 1
        self.feed(LedgerWritten(str(self._ledger_version), self.clock.now))

    def _surge(self, surge: StartSurge | EndSurge) -> None:
        now, pod = self.clock.now, self.world.pods.get(surge.uid)
        if isinstance(surge, EndSurge):
            self.surges.end(surge.uid, f"{surge.namespace}/{surge.leaves}")
        elif pod is None or not self.surges.start(pod):
            self.feed(SurgeFailed(surge.uid, "its owner cannot have a further replica", now, impossible=True))
            return
        self.feed(SurgeDone(surge.uid, now, ended=isinstance(surge, EndSurge)))

    def _evict(self, evict: Evict) -> None:
        now = self.clock.now
        if evict.uid not in self.world.pods or self.budgets.evict(evict.uid, "moved"):
            self.feed(EvictDone(evict.uid, now))
        else:
            self.feed(EvictFailed(evict.uid, "a disruption budget does not allow it", now, by_budget=True))

    def _fail_over(self, failover: Failover) -> None:
        self._driver, self._term = None, self._term + 1
        self.clock.call_later(failover.seconds, partial(self._take_over, self._term))

    def _take_over(self, term: int) -> None:
        if term == self._term:  # otherwise that replica has been killed, too
            self._lead()
