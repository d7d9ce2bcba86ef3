"""What a plan costs at 5,000 nodes and 100,000 pods: its time, its longest step, its memory, and what pods notice of it.

`python -m bench.plan_cost` prints the table. The cluster has the snapshots of a week, in which half of the workloads were
created, and 50 nodes are hot. Decisions are timed from the arrival of a pod to the turn that places it, while a plan is being
made and while none is: with the plan made by another process, as the shipped manifests run it, by wall clock; and with both
on one engine, by CPU time, for pods that arrive between two steps of the plan and for those that arrive as one begins, which
have to wait for it.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isgenerator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from bench.decisions import PROFILE, nodes, plain_pods
from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import (
    BindDone,
    LeaseAcquired,
    NodeUpserted,
    PodUpserted,
    SamplesRead,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind
from trimtab.core.model.plan import Plan
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.settings import Settings
from trimtab.core.tables import Floats, sum_by_row

NODES, PODS, HOT = 5_000, 100_000, 50
TEMPLATES, REPLICAS = 90, 20
HOURS, RECENT = 168, 6
YOUNG = 0.5  # of all workloads are younger than the snapshots, by up to a week
START = 1_700_000_000.0 // 3600 * 3600
DECISIONS = 400
DECISIONS_PER_TURN = 8
TITLE = f"CPU of a plan at {NODES:,} nodes and {PODS:,} pods, {HOT} of the nodes hot"


class Step(NamedTuple):
    """CPU seconds, and the function in which the step ended."""

    took: float
    where: str


class PlanCost(NamedTuple):
    """`added` is in MiB."""

    plan: Plan
    steps: list[Step]
    added: float


class Scene:
    """An engine with all pods running and measured; `now` is the time of the newest sample."""

    def __init__(self) -> None:
        self.settings = Settings((PROFILE,), rescheduling=ReschedulingSettings(interval=86400.0))
        self.engine, self.rng = Engine(self.settings), np.random.default_rng(5)
        self._populate()
        self.now = START
        for at in (*(START + 3600.0 * hour for hour in range(HOURS)), *self._recent()):
            self.now = at
            self.engine.handle(SamplesRead(self._readings(at), at))
        self.engine.handle(LeaseAcquired(0, self.now))

    def _recent(self) -> Iterator[float]:
        return (START + 3600.0 * (HOURS - 1) + 300.0 * each for each in range(1, RECENT))

    def _populate(self) -> None:
        for node in nodes(NODES):
            self.engine.handle(NodeUpserted(node, 0.0))
        self.names = tuple(node.name for node in self.engine.cluster.node_table.nodes)
        made = plain_pods(PODS, TEMPLATES)
        for number, pod in enumerate(made):
            self.engine.handle(PodUpserted(_running(pod, number, self.names[number % NODES]), 0.0))
        for kind in self.settings.kinds:
            self.engine.handle(Synced(kind, 0.0))
        self.keys = tuple(place.pod.key for place in self.engine.cluster.placements.values())
        workload = np.array([_workload(number) for number in range(PODS)])
        ages = np.random.default_rng(2).uniform(0.0, HOURS / YOUNG, workload.max() + 1)[workload]
        self.created = START + 3600.0 * (HOURS - 1 - ages)

    def _readings(self, at: float) -> tuple[Reading, ...]:
        """Each pod has its own share of its node, which varies by a tenth; the first nodes are hot."""
        made = []
        for resource in (CPU, MEMORY):
            whole = self.engine.cluster.view.allocatable(resource).astype(np.float64)
            share = np.where(np.arange(NODES) < HOT, 0.93 if resource == CPU else 0.5, 0.45)
            fair = np.resize(whole * share / (PODS / NODES), PODS)
            used = fair * np.random.default_rng(1).uniform(0.5, 1.5, PODS) * self.rng.uniform(0.9, 1.1, PODS)
            sums = sum_by_row(np.arange(PODS) % NODES, used, NODES)
            there = np.flatnonzero(self.created <= at)
            keys = tuple(self.keys[number] for number in there.tolist())
            made += [_reading(resource, self.names, sums, at), _reading(resource, keys, used[there], at, Subject.PODS)]
        return tuple(made)

    def plan(self) -> PlanCost:
        """One plan, step by step; the first step is the tick that begins it."""
        engine = self.engine.fork()
        controller = engine.controller(Rescheduling)
        gc.collect()
        before, steps = _resident(reset=True), list[Step]()
        outputs: list[Output] = []
        started = time.process_time()
        outputs += engine.handle(Tick(self.now))
        steps.append(Step(time.process_time() - started, "Tick, which forks the cluster"))
        planning = controller._steps
        while controller.has_work():
            started = time.process_time()
            outputs += controller.turn(1, self.now)
            steps.append(Step(time.process_time() - started, _where(planning)))
        plan = next(each for each in outputs if isinstance(each, Plan))
        return PlanCost(plan, steps, _resident(peak=True) - before)

    def decisions(self, *, planning: bool = False, clock: Callable[[], float] = time.process_time) -> Floats:
        """Seconds to the end of the turn that places each pod: from its arrival after a step, and from before it."""
        engine, spent = self.engine.fork(), []
        controller = engine.controller(Rescheduling)
        arriving = [
            replace(pod, uid=f"new-{pod.uid}", name=f"new-{pod.name}") for pod in plain_pods(DECISIONS, TEMPLATES)
        ]
        engine.handle(PodUpserted(replace(arriving.pop(), version=10**6), self.now))
        engine.handle(Turn(DECISIONS_PER_TURN, self.now))  # fills the caches
        gc.collect()
        for number, pod in enumerate(arriving):
            started = clock()
            if planning and not controller.has_work():
                controller._next_plan = 0.0
                engine.handle(Tick(self.now))
            else:
                engine.handle(Turn(DECISIONS_PER_TURN, self.now))  # a step of the plan, if there is one
            arrived = clock()
            engine.handle(PodUpserted(replace(pod, version=10**6 + number), self.now))
            bind = None
            while bind is None:
                outputs = engine.handle(Turn(DECISIONS_PER_TURN, self.now))
                bind = next((each for each in outputs if isinstance(each, Bind)), None)
            decided = clock()
            spent.append((decided - arrived, decided - started))
            engine.handle(BindDone(pod.uid, bind.node, self.now))
            engine.handle(PodUpserted(replace(pod, node=bind.node, version=2 * 10**6 + number), self.now))
        return np.array(spent).T


@contextmanager
def planned_elsewhere() -> Iterator[None]:
    """Another process, which shares no memory with this one, makes one plan after the other meanwhile."""
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    process = context.Process(target=_plan_for_ever, args=(begun,), daemon=True)
    process.start()
    try:
        if not begun.wait(300):
            raise RuntimeError("the other process has made no plan within 300 s")
        yield
        if not process.is_alive():
            raise RuntimeError("the process that makes plans has ended: nothing was measured beside it")
    finally:
        process.kill()
        process.join()


def _plan_for_ever(begun: Event) -> None:
    scene = Scene()
    while True:
        scene.plan()
        begun.set()


def _workload(number: int) -> int:
    """Of a pod: `REPLICAS` pods of one template."""
    return number // (TEMPLATES * REPLICAS) * TEMPLATES + number % TEMPLATES


def _where(steps: object) -> str:
    """The innermost generator of those that wait for each other."""
    found = ""
    while isgenerator(steps) and steps.gi_frame is not None:
        found, steps = steps.gi_code.co_qualname, steps.gi_yieldfrom
    return found or "the end"


def _running(pod: Pod, number: int, node: str) -> Pod:
    name = f"set-{_workload(number)}"
    owner = Owner("ReplicaSet", name, f"uid-{name}")
    return replace(pod, owner=owner, node=node, phase="Running", ready=True, started=0.0, created=0.0)


def _reading(resource: str, names: tuple[str, ...], used: Floats, at: float, of: Subject = Subject.NODES) -> Reading:
    return Reading("bench", resource, names, tuple(used.tolist()), (at,) * len(names), subject=of)


def _resident(*, reset: bool = False, peak: bool = False) -> float:
    """MiB of this process, now or at most since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    wanted = "VmHWM:" if peak else "VmRSS:"
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(wanted))
    return int(line.split()[1]) / 1024


def costs() -> list[tuple[str, ...]]:
    """One row per figure, with its goal."""
    scene = Scene()
    cost = scene.plan()
    rows: list[tuple[str, ...]] = [
        ("moves", f"{len(cost.plan.moves)}", ""),
        ("the whole plan", f"{sum(each.took for each in cost.steps):.2f} s", "2 s"),
        *_longest(cost.steps),
        ("memory at most", f"{cost.added:.0f} MiB more", "1024 MiB"),
    ]
    alone = scene.decisions(clock=time.perf_counter)
    with planned_elsewhere():
        beside = scene.decisions(clock=time.perf_counter)
    rows += _compared(alone[0], beside[0], "while another process plans")
    without, during = (scene.decisions(planning=each) for each in (False, True))
    for number, arrival in enumerate(("between two steps", "as a step begins")):
        rows += _compared(without[number], during[number], arrival)
    return rows


def _compared(without: Floats, during: Floats, arrival: str) -> Iterator[tuple[str, ...]]:
    for quantile in (0.5, 0.99):
        alone, beside = (float(np.quantile(each, quantile)) * 1e3 for each in (without, during))
        figures = f"{beside:.2f} ms, without a plan {alone:.2f} ms: {beside / alone:.2f}x"
        yield f"p{quantile * 100:.0f} for a pod that arrives {arrival}", figures, "1x"


def _longest(steps: list[Step]) -> Iterator[tuple[str, ...]]:
    """The longest steps, by where they end."""
    most = dict[str, float]()
    for each in steps:
        most[each.where] = max(most.get(each.where, 0.0), each.took)
    ordered = sorted(most.items(), key=lambda item: -item[1])
    for number, (where, took) in enumerate(ordered[:3]):
        of = f"the longest of {len(steps)} steps" if not number else "then"
        yield of, f"{took * 1e3:.0f} ms: {where}", "50 ms"


def main() -> None:
    console, table = Console(), Table("what", "measured", "goal", title=TITLE, title_justify="left")
    for row in costs():
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
