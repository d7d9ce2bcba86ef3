"""Wires the demo: scenes on a pretended world under the real engine, as a stream of moments; leaves drawing to the CLI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from trimtab.config.registry import default_profile
from trimtab.core.engine.decisions import Decision
from trimtab.core.engine.explaining import explained
from trimtab.core.engine.settings import Settings
from trimtab.core.model.pod import Pod
from trimtab.sim.drive import Drive
from trimtab.sim.picture import Picture, picture_of
from trimtab.sim.scenes import SCENES, SCHEDULER, START, Scene
from trimtab.sim.why import in_short, sentence


class Opened(Struct, frozen=True):
    """A scene begins; `number` counts from 1."""

    number: int
    scene: Scene


class Decided(Struct, frozen=True):
    """The engine has decided about a pod; without a node it has to wait."""

    at: float
    pod: Pod
    node: str
    attempt: int
    why: str
    in_short: str


class Passed(Struct, frozen=True):
    """Time has passed; `last` marks the end of a scene."""

    picture: Picture
    last: bool


class Ended(Struct, frozen=True):
    """The story is over: each pod's last decision in the order in which pods came, the world, and the Events written."""

    rows: tuple[Decided, ...]
    picture: Picture
    events: tuple[tuple[str, int], ...]


Moment = Opened | Decided | Passed | Ended


class Demo:
    """One showing; the same seed shows the same."""

    def __init__(self, seed: int) -> None:
        self.drive = Drive(Settings((default_profile(SCHEDULER),)), seed, START, self._note)
        self._fresh: list[Decided] = []
        self._latest: dict[str, Decided] = {}

    def moments(self) -> Iterator[Moment]:
        for number, scene in enumerate(SCENES, start=1):
            yield Opened(number, scene)
            scene.begin(self.drive.world)
            yield from self._played(scene)
        world = self.drive.world
        events = Counter(tell.reason for tell in world.told)
        yield Ended(tuple(self._latest.values()), picture_of(world), tuple(sorted(events.items())))

    def _played(self, scene: Scene) -> Iterator[Moment]:
        clock = self.drive.clock
        while clock.now < scene.ends:
            frame = min(clock.now + scene.frame, scene.ends)
            while clock.step(frame):
                yield from self._fresh
                self._fresh.clear()
            yield Passed(picture_of(self.drive.world), last=clock.now >= scene.ends)

    def _note(self, decision: Decision) -> None:
        pod = self.drive.engine.placing.cluster.pods[decision.uid]
        table = explained(self.drive.engine, pod)
        node = getattr(decision.verdict, "node", "")
        told = Decided(decision.at, pod, node, decision.attempt, sentence(table), in_short(table))
        self._fresh.append(told)
        self._latest[decision.uid] = told
