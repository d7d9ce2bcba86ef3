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
from trimtab.sim.demo import hot_node
from trimtab.sim.demo.day import DAY_SCENARIO
from trimtab.sim.demo.decision_text import full_reason, short_reason
from trimtab.sim.demo.hot_node import HOT_NODE_SCENARIO, Outcome, UtilisationProbe, run_headless
from trimtab.sim.demo.scene import SCHEDULER, Scenario, Scene
from trimtab.sim.demo.snapshot import WorldSnapshot, take_snapshot
from trimtab.sim.driver import SimulationDriver

SCENES = len(HOT_NODE_SCENARIO.scenes) + len(DAY_SCENARIO.scenes)
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
    """The template `default`, and a rule that labels nodes."""
    template = resources.files("trimtab.config") / "templates" / TEMPLATE
    return replace(parse(template.read_bytes(), TEMPLATE).settings, labels=LABELS)


def requests_only_settings() -> Settings:
    """kube-scheduler's default profile."""
    return Settings((default_profile(SCHEDULER),))


class Demo:
    """One run; the same seed gives the same events."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.settings, self.stock = load_aware_settings(), requests_only_settings()
        self.driver = self._driver_for(HOT_NODE_SCENARIO)
        self._undelivered: list[PodDecided] = []
        self._latest: dict[str, PodDecided] = {}
        self._labels_seen = 0

    def _driver_for(self, scenario: Scenario) -> SimulationDriver:
        return SimulationDriver(self.settings, self.seed, scenario.starts_at, self._on_decision)

    def events(self) -> Iterator[DemoEvent]:
        probe = UtilisationProbe(self.driver.world)
        yield from self._play_scenario(HOT_NODE_SCENARIO, first=1)
        self.driver, self._latest, self._labels_seen = self._driver_for(DAY_SCENARIO), {}, 0
        yield from self._play_scenario(DAY_SCENARIO, first=1 + len(HOT_NODE_SCENARIO.scenes))
        yield self._summary(probe)

    def _play_scenario(self, scenario: Scenario, first: int) -> Iterator[DemoEvent]:
        for number, scene in enumerate(scenario.scenes, first):
            yield SceneStarted(number, SCENES, scene)
            yield from self._play(scene)

    def _summary(self, probe: UtilisationProbe) -> DemoEnded:
        world = self.driver.world
        events = Counter(event.reason for event in world.kube_events)
        baseline = run_headless(SimulationDriver(self.stock, self.seed, HOT_NODE_SCENARIO.starts_at), HOT_NODE_SCENARIO)
        measured, requested = (
            each.outcome(hot_node.HOT_NODE, hot_node.HOT_FROM, hot_node.HOT_UNTIL) for each in (probe, baseline)
        )
        rows = tuple(self._latest.values())
        return DemoEnded(rows, take_snapshot(world), tuple(sorted(events.items())), measured, requested)

    def _play(self, scene: Scene) -> Iterator[DemoEvent]:
        clock = self.driver.clock
        self.driver.idle = scene.idle
        scene.start(self.driver.world)
        while clock.now < scene.ends_at:
            frame = min(clock.now + scene.frame_seconds, scene.ends_at)
            while clock.step(frame):
                yield from self._new_events()
            yield ClusterFrame(take_snapshot(self.driver.world), last=clock.now >= scene.ends_at)

    def _new_events(self) -> Iterator[DemoEvent]:
        yield from self._undelivered
        self._undelivered.clear()
        patches = self.driver.world.label_patches
        yield from (NodeLabelled(self.driver.clock.now, patch) for patch in patches[self._labels_seen :])
        self._labels_seen = len(patches)

    def _on_decision(self, decision: Decision) -> None:
        engine = self.driver.engine
        pod = engine.cluster.pods[decision.uid]
        table = explain_now(engine.controller(Scheduling), pod)
        stock = choose(view_without_pod(engine.cluster, pod), pod, self.stock.profiles[0])
        node, elsewhere = getattr(decision.verdict, "node", ""), getattr(stock, "node", "")
        decided = PodDecided(
            decision.at, pod, node, decision.attempt, full_reason(table, elsewhere), short_reason(table)
        )
        self._undelivered.append(decided)
        self._latest[decision.uid] = decided
