"""The demo: runs scenes on a simulated cluster with the real engine, as a stream of events for the CLI to show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources

from msgspec import Struct

from trimtab.config.kube_scheduler import parse
from trimtab.config.registry import default_profile
from trimtab.core.framework.choose import choose
from trimtab.core.load.pressure_rules import PREFIX, VALUE, LabellingSettings, Rule
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.model.schedule_result import Decision
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import explain_now, view_without_pod
from trimtab.core.settings import Settings
from trimtab.sim.demo.day import DAY_PLAY
from trimtab.sim.demo.decision_text import full_reason, short_reason
from trimtab.sim.demo.hot_node import HOT_NODE_PLAY, Outcome, UtilisationProbe, hot_node_outcome, run_headless
from trimtab.sim.demo.scene import Play, Scene
from trimtab.sim.demo.snapshot import WorldSnapshot, take_snapshot
from trimtab.sim.simulation import Simulation, without_observing

SCENES = len(HOT_NODE_PLAY.scenes) + len(DAY_PLAY.scenes)
SCHEDULER = "trimtab"
TEMPLATE = "default.yaml"
LABELS = LabellingSettings((Rule(CPU, CPU, threshold=0.8, clear=0.65, label=(PREFIX + CPU, VALUE)),), apply=True)


class SceneStarted(Struct, frozen=True):
    """A scene starts; `number` counts from 1 over all scenarios."""

    number: int
    of: int
    scene: Scene


class PodDecided(Struct, frozen=True):
    """The engine decided about a pod; `node` is empty if it is unschedulable."""

    at: float
    pod: Pod
    node: str
    attempt: int
    why: str
    in_short: str


class NodeLabelled(Struct, frozen=True):
    """A label was added to a node or removed."""

    at: float
    instruction: LabelNode


class ClusterFrame(Struct, frozen=True):
    """A snapshot of the cluster; `last` is the end of a scene."""

    picture: WorldSnapshot
    last: bool


class DemoEnded(Struct, frozen=True):
    """The end: the last decision about each pod, the cluster and the Events written, all of the last scenario.

    measured: the outcome of the first scenario. requested: its outcome with pods scheduled by requests.
    """

    rows: tuple[PodDecided, ...]
    picture: WorldSnapshot
    events: tuple[tuple[str, int], ...]
    measured: Outcome
    requested: Outcome


DemoEvent = SceneStarted | PodDecided | NodeLabelled | ClusterFrame | DemoEnded


def load_aware_settings() -> Settings:
    """The template `default`, without its plans of moves, and a rule that labels nodes."""
    template = resources.files("trimtab.config") / "templates" / TEMPLATE
    return replace(without_observing(parse(template.read_bytes(), TEMPLATE).settings), labels=LABELS)


def requests_only_settings() -> Settings:
    """kube-scheduler's default profile."""
    return Settings((default_profile(SCHEDULER),))


class Demo:
    """One run; the same seed gives the same events."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.settings, self.stock = load_aware_settings(), requests_only_settings()
        self.simulation = self._simulation_of(HOT_NODE_PLAY)
        self._undelivered: list[PodDecided] = []
        self._latest: dict[str, PodDecided] = {}
        self._labels_seen = 0

    def _simulation_of(self, play: Play) -> Simulation:
        return Simulation(play.scenario(), self.settings, self.seed, self._on_decision)

    def events(self) -> Iterator[DemoEvent]:
        hot_node, probe = self.simulation, UtilisationProbe(self.simulation.world)
        yield from self._play(HOT_NODE_PLAY, first=1)
        self.simulation, self._latest, self._labels_seen = self._simulation_of(DAY_PLAY), {}, 0
        yield from self._play(DAY_PLAY, first=1 + len(HOT_NODE_PLAY.scenes))
        requested = run_headless(Simulation(hot_node.scenario, self.stock, self.seed))
        yield self._summary(hot_node_outcome(probe, hot_node.scenario), requested)

    def _play(self, play: Play, first: int) -> Iterator[DemoEvent]:
        for number, scene in enumerate(play.scenes, first):
            yield SceneStarted(number, SCENES, scene)
            yield from self._play_scene(scene)

    def _summary(self, measured: Outcome, requested: Outcome) -> DemoEnded:
        rows, picture = tuple(self._latest.values()), take_snapshot(self.simulation)
        events = Counter(event.reason for event in self.simulation.world.kube_events)
        return DemoEnded(rows, picture, tuple(sorted(events.items())), measured, requested)

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
