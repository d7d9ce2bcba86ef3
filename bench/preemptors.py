"""`python -m bench.preemptors`: many preemptors at once, under Trimtab and kube-scheduler in turn, on a real control plane.

The scene is that of Kubernetes' own spec of asynchronous preemption: nodes full of low-priority pods, ten on each, then ten
pods of medium and five of high priority for each node. All low-priority pods become victims and terminate slowly, and every
high-priority pod gets a nomination. Then the victims are removed, and from that moment on it is measured how long it takes
until all high-priority pods have a node, and until the rest of the room is taken by medium ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import Any, NamedTuple

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from rich.console import Console
from rich.table import Table

from tests.live import trimtab_process
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

PODS = "/api/v1/namespaces/default/pods"
PER_NODE = 10
PRIORITIES = {"low": 0, "medium": 100, "high": 1000}
GRACE = 600  # seconds: victims leave when they are removed, not before
TIMEOUT = 60.0
FIELDS = ("high_seconds", "medium_seconds", "attempts", "victims")


class Running(NamedTuple):
    """A scheduler that runs: the name that pods give it, and its metrics."""

    name: str
    scrape: Callable[[], str]


class Outcome(Struct, frozen=True):
    """What one scheduler did: seconds since the room was there, and its own metrics."""

    high_seconds: float
    medium_seconds: float
    attempts: float  # for each pod that was bound
    victims: float
    incoming: dict[tuple[str, str], float]  # pods by queue and event


def priority_classes() -> Iterator[Document]:
    for name, value in PRIORITIES.items():
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        yield {**kind, "value": value}


def of_priority(name: str, priority: str, scheduler: str, **spec: Any) -> Document:
    labels = {"priority": priority}
    return pod(name, cpu="1", labels=labels, scheduler=scheduler, priorityClassName=priority, **spec)


def fill(rig: Rig, nodes: int) -> None:
    """Nodes full of low-priority pods."""
    rig.admin.create_many(priority_classes())
    rig.admin.create_many(node(f"node-{n}", cpu=str(PER_NODE), memory="64Gi") for n in range(nodes))
    lows = (
        of_priority(f"low-{n}-{i}", "low", "", nodeName=f"node-{n}", terminationGracePeriodSeconds=GRACE)
        for n in range(nodes)
        for i in range(PER_NODE)
    )
    rig.admin.create_many(lows)


def demand(rig: Rig, nodes: int, scheduler: str) -> None:
    """Twice as many medium as high-priority pods, node by node, in all more than there is room for."""
    for n in range(nodes):
        rig.admin.create_many(of_priority(f"medium-{n}-{i}", "medium", scheduler) for i in range(PER_NODE))
        rig.admin.create_many(of_priority(f"high-{n}-{i}", "high", scheduler) for i in range(PER_NODE // 2))


def pods(rig: Rig, priority: str) -> list[Document]:
    return rig.admin.list(f"{PODS}?labelSelector=priority%3D{priority}")


def bound(rig: Rig, priority: str) -> int:
    return sum(bool(each["spec"].get("nodeName")) for each in pods(rig, priority))


def wait_for(met: Callable[[], bool], what: str) -> float:
    """Wait for the condition, and return the time."""
    deadline = time.monotonic() + TIMEOUT
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {TIMEOUT:.0f} s: {what}")
        time.sleep(0.05)
    return time.monotonic()


def are_victims(rig: Rig) -> bool:
    return all("deletionTimestamp" in each["metadata"] for each in pods(rig, "low"))


def are_nominated(rig: Rig) -> bool:
    return all(each["status"].get("nominatedNodeName") for each in pods(rig, "high"))


def run(rig: Rig, nodes: int, scheduler: Running) -> Outcome:
    """The whole scene for a scheduler that runs already, on nodes that are full."""
    demand(rig, nodes, scheduler.name)
    wait_for(lambda: are_victims(rig), "every low-priority pod is a victim")
    wait_for(lambda: are_nominated(rig), "every high-priority pod has a nomination")
    rig.admin.delete_many((f"{PODS}/{each['metadata']['name']}" for each in pods(rig, "low")), grace_seconds=0)
    room = time.monotonic()
    half = nodes * PER_NODE // 2
    high = wait_for(lambda: bound(rig, "high") == half, "all high-priority pods are bound")
    medium = wait_for(lambda: bound(rig, "medium") == half, "medium ones have the rest of the room")
    samples: list[Sample] = [
        each for family in text_string_to_metric_families(scheduler.scrape()) for each in family.samples
    ]
    value = {each.name: each.value for each in samples if not each.labels}
    return Outcome(
        high - room,
        medium - room,
        value["scheduler_pod_scheduling_attempts_sum"] / value["scheduler_pod_scheduling_attempts_count"],
        value["scheduler_preemption_victims_sum"],
        {
            (each.labels["queue"], each.labels["event"]): each.value
            for each in samples
            if each.name == "scheduler_queue_incoming_pods_total"
        },
    )


@contextmanager
def kube_scheduler(rig: Rig) -> Iterator[Running]:
    process = rig.start_kube_scheduler()
    try:
        yield Running("default-scheduler", lambda: rig.scrape(process))
    finally:
        process.terminate()


@contextmanager
def trimtab(rig: Rig) -> Iterator[Running]:
    trimtab_process.install(rig)
    process = trimtab_process.start(rig)
    try:
        wait_for(lambda: trimtab_process.is_ready(process), "Trimtab is ready")
        yield Running(trimtab_process.SCHEDULER, lambda: trimtab_process.page(process, "/metrics")[1])
    finally:
        process.terminate()


def measure(start: Callable[[Rig], AbstractContextManager[Running]], nodes: int) -> Outcome:
    """The scene on a control plane of its own."""
    with Rig(audited=False) as rig:
        fill(rig, nodes)
        with start(rig) as running:
            return run(rig, nodes, running)


def show(console: Console, outcomes: dict[str, list[Outcome]]) -> None:
    """Medians of all rounds, and Trimtab relative to kube-scheduler."""
    table = Table(title="many preemptors at once: medians", title_justify="left")
    for head in ("scheduler", "high: s", "medium: s", "attempts per pod", "victims counted"):
        table.add_column(head, justify="left" if head == "scheduler" else "right")
    middle = {
        name: {field: median(getattr(each, field) for each in rounds) for field in FIELDS}
        for name, rounds in outcomes.items()
    }
    for name, values in middle.items():
        table.add_row(name, *(f"{values[field]:.2f}" for field in FIELDS))
    console.print(table)
    ours, theirs = (middle[each.__name__] for each in (trimtab, kube_scheduler))
    for field in FIELDS[:3]:
        console.print(f"Trimtab vs kube-scheduler, {field}: {ours[field] / theirs[field]:.2f}x")
    for name, rounds in outcomes.items():
        console.print(name, {" ".join(key): count for key, count in sorted(rounds[-1].incoming.items())})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.preemptors", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of either scheduler, in turn")
    options = parser.parse_args()
    outcomes: dict[str, list[Outcome]] = {}
    console = Console()
    for number in range(options.rounds):
        for start in (kube_scheduler, trimtab):
            with console.status(f"round {number + 1}: {start.__name__}"):
                outcome = measure(start, options.nodes)
            console.print(f"{start.__name__}: high {outcome.high_seconds:.2f} s, medium {outcome.medium_seconds:.2f} s")
            outcomes.setdefault(start.__name__, []).append(outcome)
    show(console, outcomes)


if __name__ == "__main__":
    main()
