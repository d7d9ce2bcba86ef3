"""Plain pods that arrive steadily beside ten thousand unschedulable ones: from their arrival to the decision.

Time passes as in a live process: an event or a turn takes the CPU time that it costs, and what arrives meanwhile waits. The
unschedulable pods are too large for every node, and each is tried again once a minute. In a second run half of them want to
be beside a pod that is not there instead: each second one such pod appears for half a second and wakes some of them, but
fills its node alone.
"""

from __future__ import annotations

import gc
import time

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bench.decisions import PROFILE, nodes, plain_pods
from bench.unschedulable import requests
from trimtab.core.engine import Engine
from trimtab.core.model.affinity import Affinity, PodAffinity, PodAffinityTerm
from trimtab.core.model.events import (
    BindDone,
    Event,
    LeaseAcquired,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import HOSTNAME, Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Decision
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.settings import Settings

NODES, UNSCHEDULABLE, TEMPLATES = 5_000, 10_000, 20
SECONDS, PER_SECOND = 130, 10  # twice the minute after which every pod is tried again
TICK, TURN = 0.5, 8
PERCENTILES = (50, 99, 100)
GOAL = 2.0
BESIDE = "beside"  # the label of pods that others want to be beside
WHOLE_NODE = requests(15_890)


class Arrivals(Struct):
    """What was measured: seconds from the arrival of each plain pod to its Bind, and attempts to schedule the others."""

    waited: list[float]
    retries: int

    def milliseconds(self, percentile: float) -> float:
        return float(np.percentile(self.waited, percentile)) * 1e3


class Clocked:
    """An engine whose clock is the CPU time that it needs; where it has nothing to do, time passes until the next event."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.at = engine, 0.0
        self.bound: dict[str, float] = {}
        self.pods: dict[str, Pod] = {}
        self.attempts = 0

    def handle(self, event: Event) -> None:
        started = time.process_time()
        outputs = self.engine.handle(event)
        self.at += time.process_time() - started
        self.attempts += sum(isinstance(each, Decision) for each in outputs)
        for each in outputs:
            if isinstance(each, Bind):
                self.bound[each.uid] = self.at
                pod = self.pods[each.uid]
                self.handle(BindDone(each.uid, each.node, self.at))
                self.handle(PodUpserted(replace(pod, node=each.node, version=pod.version + 1), self.at))

    def work_until(self, then: float) -> None:
        while self.at < then and self.engine.has_work():
            self.handle(Turn(TURN, self.at))
        self.at = max(self.at, then)


def template(like: Pod, number: int, woken: bool) -> Pod:
    """Of pods that are too large for every node; or, every second one if `woken`, with affinity to pods of its own label."""
    if number % 2 == 0 or not woken:
        return replace(like, requests=requests(10_000_000 + number))
    near = PodAffinityTerm(HOSTNAME, LabelSelector(match_labels=((BESIDE, str(number)),)))
    return replace(like, spec=replace(like.spec, affinity=Affinity(pod_affinity=PodAffinity(required=(near,)))))


def run(unschedulable: int, woken: bool = False, size: int = NODES, seconds: int = SECONDS) -> Arrivals:
    """Park so many pods, then let plain ones arrive for so many seconds, and others that wake parked ones."""
    machines, (plain,) = nodes(size), plain_pods(1, 1)
    clocked = Clocked(_engine(machines))
    templates = [template(plain, number, woken) for number in range(TEMPLATES)]
    for number in range(unschedulable):
        uid = f"large-{number}"
        clocked.handle(PodUpserted(replace(templates[number % TEMPLATES], uid=uid, name=uid), clocked.at))
    clocked.work_until(30.0)
    gc.collect()
    attempts, arrived = clocked.attempts, dict[str, float]()
    for due, event in _events(clocked.at, plain, machines, seconds):
        clocked.work_until(due)
        if isinstance(event, PodUpserted) and event.pod.pending:
            arrived[event.pod.uid], clocked.pods[event.pod.uid] = due, event.pod
        clocked.handle(event)
    clocked.work_until(clocked.at + 30.0)
    retries = clocked.attempts - attempts - len(arrived)
    return Arrivals([clocked.bound[uid] - due for uid, due in arrived.items()], retries)


def _engine(machines: list[Node]) -> Engine:
    engine = Engine(Settings((PROFILE,)))
    for each in machines:
        engine.handle(NodeUpserted(each, 0.0))
    for kind in engine.state.settings.kinds:
        engine.handle(Synced(kind, 0.0))
    engine.handle(LeaseAcquired(1, 0.0))
    return engine


def _events(start: float, plain: Pod, machines: list[Node], seconds: int) -> list[tuple[float, Event]]:
    """Plain pods at random times, ticks, and each second a running pod that some of the unschedulable want to be beside."""
    events: list[tuple[float, Event]] = [(due, Tick(due)) for due in np.arange(start, start + seconds, TICK).tolist()]
    for number in range(seconds):
        uid, labels = f"beside-{number}", {BESIDE: str(2 * number % TEMPLATES + 1)}
        there = replace(plain, uid=uid, name=uid, node=machines[number].name, labels=labels, requests=WHOLE_NODE)
        events.append((start + number, PodUpserted(there, start + number)))
        events.append((start + number + 0.5, PodDeleted(uid, start + number + 0.5, there.version + 1)))
    arrivals = np.random.default_rng(1).uniform(start, start + seconds, seconds * PER_SECOND).tolist()
    for number, due in enumerate(arrivals):
        uid = f"plain-{number}"
        events.append((due, PodUpserted(replace(plain, uid=uid, name=uid), due)))
    return sorted(events, key=lambda each: each[0])


def costs() -> list[tuple[str, ...]]:
    """Without the unschedulable pods, and with them: the last two columns are the ratio of the p99 and its goal."""
    alone, many = run(0), f"{UNSCHEDULABLE:,} of {TEMPLATES} templates"
    others = {many: run(UNSCHEDULABLE), f"{many}, some woken": run(UNSCHEDULABLE, woken=True)}
    rows = [(*_row("none", alone), "", "")]
    for name, measured in others.items():
        ratio = measured.milliseconds(99) / alone.milliseconds(99)
        rows.append((*_row(name, measured), f"{ratio:.1f}x", f"{GOAL:.0f}x"))
    return rows


def _row(name: str, measured: Arrivals) -> tuple[str, ...]:
    return (name, *(f"{measured.milliseconds(each):.2f}" for each in PERCENTILES), f"{measured.retries:,}")
