"""The second part of the demo: the real rescheduler moves pods of a simulated morning; and the same day without moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trimtab.apps.demo_events import (
    ClusterFrame,
    DemoEvent,
    MoveAdvanced,
    MoveGraded,
    MovesEnded,
    PlanMade,
    SceneStarted,
)
from trimtab.apps.plan.make import PlannedMoves
from trimtab.apps.plan.usage import hottest_nodes
from trimtab.core.model.ledger import MoveRecord
from trimtab.core.model.plan import Plan
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.settings import EAGERNESS, Method, Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.registry import STRATEGIES
from trimtab.core.settings import Settings
from trimtab.sim.demo.morning import MORNING_PLAY, DayProbe, run_day
from trimtab.sim.demo.scene import Scene
from trimtab.sim.demo.snapshot import take_snapshot
from trimtab.sim.simulation import Simulation

# Nodes are relieved when they are forecast to pass a limit, and small gains are worth a move.
MOVING = ReschedulingSettings(
    mode=Mode.AUTO,
    method=Method.REPLACEMENT_FIRST,
    required_gain=EAGERNESS["eager"],
    strategies=(STRATEGIES["HotSpot"](),),
)
DATE = 1_767_571_200.0  # 2026-01-05, a Monday: simulated time counts from midnight, and a plan is printed with its date


class MovesDemo:
    """One run; the same seed gives the same events."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.simulation = Simulation(MORNING_PLAY.scenario(), replace(settings, rescheduling=MOVING), seed)
        self._probe = DayProbe(self.simulation)
        self._known: dict[str, MoveRecord] = {}

    def events(self, first: int, of: int) -> Iterator[DemoEvent]:
        """Its scenes are numbered from `first` on."""
        rising, moving = MORNING_PLAY.scenes
        yield SceneStarted(first, of, rising)
        yield from self._play_until_plan(rising)
        yield SceneStarted(first + 1, of, moving)
        yield from self._play(moving)
        records = tuple(self.simulation.ledger.records)
        unmoved = run_day(Simulation(self.simulation.scenario, self.settings, self.seed))
        yield MovesEnded(records, self._probe.outcome(), unmoved)

    def _play_until_plan(self, scene: Scene) -> Iterator[DemoEvent]:
        clock, ends = self.simulation.clock, self.simulation.scenario.begins + scene.ends
        while clock.now < ends:
            frame = min(clock.now + scene.frame_seconds, ends)
            while clock.step(frame):
                plans = self.simulation.plans
                if plans and plans[-1].moves:
                    yield ClusterFrame(take_snapshot(self.simulation), last=True, brief=True)
                    yield PlanMade(self._planned(plans[-1]))
                    return
            yield ClusterFrame(take_snapshot(self.simulation), last=clock.now >= ends, brief=True)

    def _planned(self, plan: Plan) -> PlannedMoves:
        """As `trimtab plan` has it; called before anything has moved."""
        cluster, pods = self.simulation.engine.cluster, self.simulation.world.pods
        versions = {move.uid: pods[move.uid].version for move in plan.moves}
        hottest = hottest_nodes(cluster, MOVING.limits, plan.moves)
        nodes = len(self.simulation.world.nodes)
        return PlannedMoves(plan, MOVING, DATE + plan.at, "", nodes, len(pods), versions, hottest, ())

    def _play(self, scene: Scene) -> Iterator[DemoEvent]:
        clock, begins = self.simulation.clock, self.simulation.scenario.begins
        while clock.now < begins + scene.ends:
            frame = begins + ((clock.now - begins) // scene.frame_seconds + 1) * scene.frame_seconds
            while clock.step(frame):
                yield from self._new_events()
            yield ClusterFrame(take_snapshot(self.simulation), last=frame >= begins + scene.ends, brief=True)

    def _new_events(self) -> Iterator[DemoEvent]:
        """What the last step has changed in the records of moves."""
        now = self.simulation.clock.now
        for uid, record in self.simulation.engine.controller(Rescheduling).execution.records.items():
            before = self._known.get(uid)
            if before is None or before.state is not record.state:
                workload = f"{record.namespace}/{record.workload.partition(' ')[2]}"
                yield MoveAdvanced(now, record, *self._probe.ready_pods.of(workload))
            elif len(before.grades) < len(record.grades):
                yield MoveGraded(now, record, record.grades[-1])
            self._known[uid] = record
