"""The demo: runs scenes on a simulated cluster with the real engine, as a stream of events for the CLI to show.

Its first part is here: pods are scheduled by measured load. The second, pods that are moved, is in `demo_moves.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources

from trimtab.apps.demo_events import (
    ClusterFrame,
    DemoEvent,
    NodeLabelled,
    PodDecided,
    SceneStarted,
    SchedulingEnded,
)
from trimtab.apps.demo_moves import MovesDemo
from trimtab.config.kube_scheduler import parse
from trimtab.config.registry import default_profile
from trimtab.core.framework.choose import choose
from trimtab.core.load.pressure_rules import PREFIX, VALUE, LabellingSettings, Rule
from trimtab.core.model.resources import CPU
from trimtab.core.model.schedule_result import Decision
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import explain_now, view_without_pod
from trimtab.core.settings import Settings
from trimtab.sim.demo.day import DAY_PLAY
from trimtab.sim.demo.decision_text import full_reason, short_reason
from trimtab.sim.demo.hot_node import HOT_NODE_PLAY, Outcome, UtilisationProbe, hot_node_outcome, run_headless
from trimtab.sim.demo.morning import MORNING_PLAY
from trimtab.sim.demo.scene import Play, Scene
from trimtab.sim.demo.snapshot import take_snapshot
from trimtab.sim.simulation import Simulation, without_observing

SCHEDULING, MOVES = PARTS = ("scheduling", "moves")
SCHEDULER = "trimtab"
TEMPLATE = "default.yaml"
LABELS = LabellingSettings((Rule(CPU, CPU, threshold=0.8, clear=0.65, label=(PREFIX + CPU, VALUE)),), apply=True)


def load_aware_settings() -> Settings:
    """The template `default`, without its plans of moves, and a rule that labels nodes."""
    template = resources.files("trimtab.config") / "templates" / TEMPLATE
    return replace(without_observing(parse(template.read_bytes(), TEMPLATE).settings), labels=LABELS)


def requests_only_settings() -> Settings:
    """kube-scheduler's default profile."""
    return Settings((default_profile(SCHEDULER),))


class Demo:
    """One run of one part, or of all; the same seed gives the same events."""

    def __init__(self, seed: int, part: str = "") -> None:
        self.seed, self.part = seed, part
        self.settings, self.stock = load_aware_settings(), requests_only_settings()
        self.simulation = self._simulation_of(HOT_NODE_PLAY)
        self._undelivered: list[PodDecided] = []
        self._latest: dict[str, PodDecided] = {}
        self._labels_seen = 0

    def _simulation_of(self, play: Play) -> Simulation:
        return Simulation(play.scenario(), self.settings, self.seed, self._on_decision)

    def events(self) -> Iterator[DemoEvent]:
        if self.part != MOVES:
            yield from self._scheduling_events()
        if self.part != SCHEDULING:
            yield from MovesDemo(self.settings, self.seed).events(
                self.scenes - len(MORNING_PLAY.scenes) + 1, self.scenes
            )

    @property
    def scenes(self) -> int:
        """Of all that is played."""
        scheduling, moves = len(HOT_NODE_PLAY.scenes) + len(DAY_PLAY.scenes), len(MORNING_PLAY.scenes)
        return {SCHEDULING: scheduling, MOVES: moves}.get(self.part, scheduling + moves)

    def _scheduling_events(self) -> Iterator[DemoEvent]:
        hot_node, probe = self.simulation, UtilisationProbe(self.simulation.world)
        yield from self._play(HOT_NODE_PLAY, first=1)
        self.simulation, self._latest, self._labels_seen = self._simulation_of(DAY_PLAY), {}, 0
        yield from self._play(DAY_PLAY, first=1 + len(HOT_NODE_PLAY.scenes))
        requested = run_headless(Simulation(hot_node.scenario, self.stock, self.seed))
        yield self._summary(hot_node_outcome(probe, hot_node.scenario), requested)

    def _play(self, play: Play, first: int) -> Iterator[DemoEvent]:
        for number, scene in enumerate(play.scenes, first):
            yield SceneStarted(number, self.scenes, scene)
            yield from self._play_scene(scene)

    def _summary(self, measured: Outcome, requested: Outcome) -> SchedulingEnded:
        rows, picture = tuple(self._latest.values()), take_snapshot(self.simulation)
        events = Counter(event.reason for event in self.simulation.world.kube_events)
        return SchedulingEnded(rows, picture, tuple(sorted(events.items())), measured, requested)

    def _play_scene(self, scene: Scene) -> Iterator[DemoEvent]:
        clock, ends = self.simulation.clock, self.simulation.scenario.begins + scene.ends
        while clock.now < ends:
            frame = min(clock.now + scene.frame_seconds, ends)
            while clock.step(frame):
                yield from self._new_events()
            yield ClusterFrame(take_snapshot(self.simulation), last=clock.now >= ends)

    def _new_events(self) -> Iterator[DemoEvent]:
        yield from self._undelivered
        self._undelivered.clear()
        patches = self.simulation.world.label_patches
        yield from (NodeLabelled(self.simulation.clock.now, patch) for patch in patches[self._labels_seen :])
        self._labels_seen = len(patches)

    def _on_decision(self, decision: Decision) -> None:
        engine = self.simulation.engine
        pod = engine.cluster.pods[decision.uid]
        table = explain_now(engine.controller(Scheduling), pod)
        stock = choose(view_without_pod(engine.cluster, pod), pod, self.stock.profiles[0])
        node, elsewhere = getattr(decision.verdict, "node", ""), getattr(stock, "node", "")
        decided = PodDecided(
            decision.at, pod, node, decision.attempt, full_reason(table, elsewhere), short_reason(table)
        )
        self._undelivered.append(decided)
        self._latest[decision.uid] = decided
