"""Wires the demo: scenes on a pretended world under the real engine, as a stream of moments; leaves drawing to the CLI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources

from msgspec import Struct

from trimtab.config.registry import default_profile
from trimtab.config.scheduler import read
from trimtab.core.load.pressure_rules import PREFIX, VALUE, Labelling, Rule
from trimtab.core.model.instruction import LabelNode
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.model.verdict import Decision
from trimtab.core.placing.choose import choose
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import explained, seen_by
from trimtab.core.settings import Settings
from trimtab.sim import heat
from trimtab.sim.compare import Gauge, Outcome, silent
from trimtab.sim.day import DAY
from trimtab.sim.drive import Drive
from trimtab.sim.heat import HEAT
from trimtab.sim.picture import Picture, picture_of
from trimtab.sim.scenes import SCHEDULER, Act, Scene
from trimtab.sim.why import in_short, sentence

SCENES = len(HEAT.scenes) + len(DAY.scenes)
TEMPLATE = "default.yaml"
LABELS = Labelling((Rule(CPU, CPU, threshold=0.8, clear=0.65, label=(PREFIX + CPU, VALUE)),), apply=True)


class Opened(Struct, frozen=True):
    """A scene begins; `number` counts from 1, over all acts."""

    number: int
    of: int
    scene: Scene


class Decided(Struct, frozen=True):
    """The engine has decided about a pod; without a node it has to wait."""

    at: float
    pod: Pod
    node: str
    attempt: int
    why: str
    in_short: str


class Marked(Struct, frozen=True):
    """A node got or lost a label."""

    at: float
    wish: LabelNode


class Passed(Struct, frozen=True):
    """Time has passed; `last` marks the end of a scene."""

    picture: Picture
    last: bool


class Ended(Struct, frozen=True):
    """The story is over: each pod's last decision in the order in which pods came, the world, and the Events written.

    They are those of the last act. `measured` is how the first act went, and `requested` how it would have by requests.
    """

    rows: tuple[Decided, ...]
    picture: Picture
    events: tuple[tuple[str, int], ...]
    measured: Outcome
    requested: Outcome


Moment = Opened | Decided | Marked | Passed | Ended


def by_load() -> Settings:
    """What the template `default` comes to, and a rule that labels nodes."""
    template = resources.files("trimtab.config") / "templates" / TEMPLATE
    return replace(read(template.read_bytes(), TEMPLATE).settings, labels=LABELS)


def by_requests() -> Settings:
    """What kube-scheduler does by itself."""
    return Settings((default_profile(SCHEDULER),))


class Demo:
    """One showing; the same seed shows the same."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.settings, self.stock = by_load(), by_requests()
        self.drive = self._drive(HEAT)
        self._fresh: list[Decided] = []
        self._latest: dict[str, Decided] = {}
        self._marks = 0

    def _drive(self, act: Act) -> Drive:
        return Drive(self.settings, self.seed, act.starts, self._note)

    def moments(self) -> Iterator[Moment]:
        gauge = Gauge(self.drive.world)
        yield from self._act(HEAT, first=1)
        self.drive, self._latest, self._marks = self._drive(DAY), {}, 0
        yield from self._act(DAY, first=1 + len(HEAT.scenes))
        yield self._ended(gauge)

    def _act(self, act: Act, first: int) -> Iterator[Moment]:
        for number, scene in enumerate(act.scenes, first):
            yield Opened(number, SCENES, scene)
            yield from self._played(scene)

    def _ended(self, gauge: Gauge) -> Ended:
        world = self.drive.world
        events = Counter(tell.reason for tell in world.told)
        other = silent(Drive(self.stock, self.seed, HEAT.starts), HEAT)
        measured, requested = (each.outcome(heat.HOT, heat.BEGINS, heat.ENDS) for each in (gauge, other))
        rows = tuple(self._latest.values())
        return Ended(rows, picture_of(world), tuple(sorted(events.items())), measured, requested)

    def _played(self, scene: Scene) -> Iterator[Moment]:
        clock = self.drive.clock
        self.drive.idle = scene.idle
        scene.begin(self.drive.world)
        while clock.now < scene.ends:
            frame = min(clock.now + scene.frame, scene.ends)
            while clock.step(frame):
                yield from self._news()
            yield Passed(picture_of(self.drive.world), last=clock.now >= scene.ends)

    def _news(self) -> Iterator[Moment]:
        yield from self._fresh
        self._fresh.clear()
        marked = self.drive.world.marked
        yield from (Marked(self.drive.clock.now, wish) for wish in marked[self._marks :])
        self._marks = len(marked)

    def _note(self, decision: Decision) -> None:
        engine = self.drive.engine
        pod = engine.cluster.pods[decision.uid]
        table = explained(engine.controller(Scheduling), pod)
        stock = choose(seen_by(engine.cluster, pod), pod, self.stock.profiles[0])
        node, elsewhere = getattr(decision.verdict, "node", ""), getattr(stock, "node", "")
        told = Decided(decision.at, pod, node, decision.attempt, sentence(table, elsewhere), in_short(table))
        self._fresh.append(told)
        self._latest[decision.uid] = told
