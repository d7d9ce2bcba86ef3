"""The second part of the demo: a node is about to run hot, and pods are moved before it does; and its outcome."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.duration import HOUR, MINUTE
from trimtab.core.model.pod import Pod
from trimtab.sim.demo.hot_node import UtilisationProbe
from trimtab.sim.demo.scene import Play, Scene
from trimtab.sim.owners import PodOwner
from trimtab.sim.simulation import Simulation

SLOT = 20 * MINUTE  # of a chart, and between two snapshots

# The first scene ends with the first plan that has moves, at the latest after these seconds.
MORNING_PLAY = Play(
    "morning",
    (
        Scene(
            "A node is about to run hot",
            "Six nodes, 40 pods of five Deployments. Seven pods of the shop share six nodes, so one node has two of "
            "them, and load rises over the morning. Every five minutes moves are planned, as `trimtab plan` does.",
            6 * HOUR,
            SLOT,
        ),
        Scene(
            "The replacement comes first",
            "The plan is carried out. The workload gets one replica more, and the old pod leaves when that is ready. Half "
            "an hour later the move is graded, and again after six hours: how far it relieved both nodes.",
            12 * HOUR,
            SLOT,
        ),
    ),
)


class ReadyPods:
    """Counts the ready pods of each workload, and for how long there were too few."""

    def __init__(self, simulation: Simulation) -> None:
        self._clock, self._owners = simulation.clock, simulation.owners
        self._complete: set[str] = set()  # those that had all of their pods once
        self._short_since: dict[str, float] = {}
        self._seconds = 0.0
        simulation.world.pod_listeners.append(self._changed)

    def of(self, workload: str) -> tuple[int, int]:
        """How many pods of this namespace/name are ready, and how many there should be, beside those for a move."""
        owner = self._owners[workload]
        return _ready(owner), owner.workload.replicas

    @property
    def seconds_short(self) -> float:
        """The sum over all workloads, each from when it first had all of its pods."""
        return self._seconds + sum(self._clock.now - since for since in self._short_since.values())

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        now = self._clock.now
        for name, owner in self._owners.items():
            if _ready(owner) >= owner.workload.replicas:
                self._complete.add(name)
                self._seconds += now - self._short_since.pop(name, now)
            elif name in self._complete:
                self._short_since.setdefault(name, now)


def _ready(owner: PodOwner) -> int:
    return sum(pod.ready and not pod.terminating for pod in owner.pods.values())


class DayOutcome(Struct, frozen=True):
    """How a day went. `hottest` is the CPU of the hottest node, as a share of its capacity, averaged by slot."""

    hottest: tuple[float, ...]
    minutes_above_80: float
    peak: float
    seconds_short: float


class DayProbe:
    """Watches a simulation from its beginning."""

    def __init__(self, simulation: Simulation) -> None:
        self._begins = simulation.scenario.begins
        self._utilisation = UtilisationProbe(simulation.world)
        self.ready_pods = ReadyPods(simulation)

    def outcome(self) -> DayOutcome:
        slots: dict[int, list[float]] = {}
        for at, shares in self._utilisation.samples:
            slots.setdefault(int((at - self._begins - 1) // SLOT), []).append(max(shares))
        return DayOutcome(
            hottest=tuple(sum(each) / len(each) for each in slots.values()),
            minutes_above_80=self._utilisation.seconds_above / MINUTE,
            peak=max(max(shares) for _, shares in self._utilisation.samples),
            seconds_short=self.ready_pods.seconds_short,
        )


def run_day(simulation: Simulation) -> DayOutcome:
    """Run the scenario without showing it."""
    probe = DayProbe(simulation)
    simulation.run()
    return probe.outcome()
