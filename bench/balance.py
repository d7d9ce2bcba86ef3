"""How evenly each policy balances a cluster under a public trace of pods, without a wall clock.

The real engine decides, with the product's plugins and load data, on a virtual clock. In each five-minute step pods end, the
usage of the previous step is ingested, and new pods arrive and are scheduled. Measured is the demand on the nodes, after the
trace's warm-up: `hot80` is the fraction of node-steps above 80 % of the CPU, `spread` the deviation over nodes, `top` the
fullest node, both averaged over time, `pending` the pod-steps without a node.

    python -m bench.balance FOLDER [--policies PeakRisk,stock] [--variants A32,A29] [--seeds 3]

FOLDER (or TRIMTAB_DATA) has a trace in the format of `bench/traces.py`. Seeds change pods' UIDs, which break ties.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from bench.traces import Trace, TracedPod, read
from trimtab.config.plugin_args import build_plugin
from trimtab.config.registry import DEFAULT_PLUGINS, IN_TREE
from trimtab.core.driver import Driver
from trimtab.core.engine import Engine
from trimtab.core.framework.profile import ExtensionPoint, Profile, build_profile, multipoint
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.events import (
    BindDone,
    LeaseAcquired,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    Synced,
    Tick,
)
from trimtab.core.model.instructions import Bind, Instruction
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY, PODS, PodRequests
from trimtab.core.plugins.peak_risk import PeakRisk
from trimtab.core.settings import Settings

NAME = "balance"
COLUMNS = ("hot80", "hot100", "spread", "top", "pending")
HOT_SHARE = 0.8
HOUR = 3600.0

Arguments = Mapping[str, object]
PEAK_RISK_WEIGHT = 10  # relative to one default plugin
# Each policy ranks alone the nodes that have room for the requests; `stock` is the whole default profile.
POLICIES: Mapping[str, tuple[tuple[str, Arguments], ...]] = {
    "MostAllocated": (("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),),
    "LeastAllocated": (("NodeResourcesFit", {}),),
    "Dynamic": (("Dynamic", {}),),
    "LowRiskOverCommitment": (("LowRiskOverCommitment", {}),),
    "LoadVariationRiskBalancing": (("LoadVariationRiskBalancing", {}),),
    "TargetLoadPacking": (("TargetLoadPacking", {}),),
    "Usage": (("Usage", {}),),
    "LoadAwareScheduling": (("LoadAwareScheduling", {}),),
    "Rescheduler": (("Rescheduler", {}),),
    "CpuRealUsage": (("CpuRealUsage", {}),),
    "LowestLoad": (("LowestLoad", {}),),
    "PeakRisk": (("PeakRisk", {}),),
}
VARIANTS: Mapping[str, Callable[[Trace], Trace]] = {
    "A32": lambda trace: trace,
    "A29": lambda trace: trace.with_nodes(29).with_requests_scaled(0.85),
    "B27": lambda trace: trace.with_nodes(27).with_requests_scaled(0.85).with_usage_shuffled(1),
    "C27": lambda trace: trace.with_nodes(27).with_requests_scaled(0.85).with_usage_shuffled(2),
}


def profiles() -> dict[str, Profile]:
    """One profile per policy, with scores only: a hard threshold would win by leaving pods pending."""
    stock = [(IN_TREE[name](), weight or 1) for name, weight in DEFAULT_PLUGINS.items() if name in IN_TREE]
    built = {
        "stock": multipoint(NAME, stock),
        "stock and PeakRisk": multipoint(NAME, [*stock, (PeakRisk(), PEAK_RISK_WEIGHT)]),
    }
    fit = IN_TREE["NodeResourcesFit"]()
    for policy, named in POLICIES.items():
        if all(name in IN_TREE for name, _ in named):
            plugins = [(build_plugin(name, IN_TREE[name], arguments), 1) for name, arguments in named]
            built[policy] = build_profile(NAME, {ExtensionPoint.FILTER: [(fit, 1)], ExtensionPoint.SCORE: plugins})
    return built


@dataclass(slots=True)
class Utilisation:
    """One row per step: the demand on each node as a fraction of its CPU."""

    demand: list[np.ndarray] = field(default_factory=list)
    pending: int = 0

    def figures(self) -> tuple[float, float, float, float, float]:
        """hot80, hot100, spread, top, pending."""
        demand = np.array(self.demand)
        over = float((demand > HOT_SHARE).mean()), float((demand > 1).mean())
        return *over, float(demand.std(axis=1).mean()), float(demand.max(axis=1).mean()), float(self.pending)


class Run:
    """One trace through one engine."""

    def __init__(self, trace: Trace, policy: Profile, seed: int) -> None:
        self.trace, self.seed = trace, seed
        load = LoadSettings(fresh=2.0 * trace.step_seconds, stale=3.0 * trace.step_seconds, window=HOUR)
        settings = Settings((policy,), load=load, initial_backoff=1.0, max_backoff=1.0)
        self.driver = Driver(Engine(settings), self._perform)
        self.pods: dict[str, tuple[TracedPod, Pod]] = {}
        self.version = 1
        self.now = 0.0
        for kind in settings.kinds:
            self.driver.put(Synced(kind, 0.0))
        self.driver.put(LeaseAcquired(1, 0.0))
        for name, cpu, memory in trace.nodes:
            amounts = (CPU, cpu), (MEMORY, memory), (PODS, 1000)
            self.driver.put(NodeUpserted(Node(name, name, 1, allocatable=amounts, capacity=amounts), 0.0))

    def run(self) -> Utilisation:
        utilisation, arrivals = Utilisation(), self._by_step()
        for step in range(self.trace.steps):
            self.now = float(step * self.trace.step_seconds)
            self._delete_finished(step)
            self.driver.put(Tick(self.now))
            if step:
                # Measured a moment ago: pods that arrive now are not included.
                self.driver.put(SamplesRead(tuple(self._readings(step - 1, self.now - 1.0)), self.now))
            for traced in arrivals.get(step, ()):
                self._create_pod(traced)
            self.driver.decide(self.now)
            if step >= self.trace.warm_up:
                demand = self._demand_by_node(step)
                utilisation.demand.append(np.array([demand[name] / cpu for name, cpu, _ in self.trace.nodes]))
                utilisation.pending += sum(not pod.node for _, pod in self.pods.values())
        return utilisation

    def _by_step(self) -> dict[int, list[TracedPod]]:
        arrivals: dict[int, list[TracedPod]] = {}
        for traced in self.trace.pods:
            arrivals.setdefault(traced.first, []).append(traced)
        return arrivals

    def _delete_finished(self, step: int) -> None:
        for uid in [uid for uid, (traced, _) in self.pods.items() if traced.end <= step]:
            del self.pods[uid]
            self.driver.put(PodDeleted(uid, self.now))

    def _create_pod(self, traced: TracedPod) -> None:
        requests, limits = _amounts(traced.request), _amounts(traced.limit)
        uid, owner = f"{self.seed}/{traced.name}", Owner("ReplicaSet", traced.app, traced.app, "apps/v1")
        total = PodRequests(requests, requests, *traced.request, limits)
        pod = Pod(uid, "trace", traced.name, owner=owner, created=self.now, scheduler_name=NAME, requests=total)
        self._upsert(traced, pod)

    def _upsert(self, traced: TracedPod, pod: Pod) -> None:
        self.version += 1
        newer = replace(pod, version=self.version)
        self.pods[pod.uid] = traced, newer
        self.driver.put(PodUpserted(newer, self.now))

    def _perform(self, instruction: Instruction) -> None:
        """Binds and their watch events are immediate; other instructions are ignored."""
        if isinstance(instruction, Bind):
            self.driver.put(BindDone(instruction.uid, instruction.node, self.now))
            traced, pod = self.pods[instruction.uid]
            self._upsert(traced, replace(pod, node=instruction.node, phase="Running", started=self.now))

    def _demand_by_node(self, step: int) -> dict[str, float]:
        demand = dict.fromkeys((name for name, _, _ in self.trace.nodes), 0.0)
        for traced, pod in self.pods.values():
            if pod.node:
                demand[pod.node] += float(traced.cpu[step - traced.first])
        return demand

    def _readings(self, step: int, at: float) -> Iterator[Reading]:
        """The usage of the previous step: of each pod that is still there, and of each node in total."""
        seen = [(t, pod) for t, pod in self.pods.values() if pod.node and t.first <= step]
        for resource in (CPU, MEMORY):
            values = tuple(float((t.cpu if resource == CPU else t.memory)[step - t.first]) for t, _ in seen)
            keys = tuple(pod.key for _, pod in seen)
            yield Reading(NAME, resource, keys, values, (at,) * len(keys), Subject.PODS)
            sums = dict.fromkeys((name for name, _, _ in self.trace.nodes), 0.0)
            for (_, pod), value in zip(seen, values, strict=True):
                sums[pod.node] += value
            yield Reading(NAME, resource, tuple(sums), tuple(sums.values()), (at,) * len(sums))


def _amounts(pair: tuple[int, int]) -> tuple[tuple[str, int], ...]:
    return (CPU, pair[0]), (MEMORY, pair[1])


def row(trace: Trace, policy: Profile, seeds: int) -> tuple[str, ...]:
    """The means over the seeds, formatted."""
    runs = [Run(trace, policy, seed).run().figures() for seed in range(seeds)]
    hot, over, spread, top, pending = np.mean(runs, axis=0).tolist()
    return f"{hot:.4f}", f"{over:.4f}", f"{spread:.3f}", f"{top:.2f}", f"{pending:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.balance", description="Balance under a public trace, by policy.")
    parser.add_argument("folder", nargs="?", default=os.environ.get("TRIMTAB_DATA", ""))
    parser.add_argument("--policies", default="")
    parser.add_argument("--variants", default="A32,A29")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    if not options.folder or not (Path(options.folder) / "usage.csv.gz").exists():
        print("balance: no trace given: pass its folder, or set TRIMTAB_DATA")
        return
    trace, built = read(Path(options.folder)), profiles()
    chosen = [name for name in options.policies.split(",") if name] or list(built)
    console = Console()
    for variant in options.variants.split(","):
        table = Table(
            "policy", *COLUMNS, title=f"{trace.name}, {variant}, {options.seeds} seed(s)", title_justify="left"
        )
        for name in chosen:
            with console.status(f"{variant}: {name}"):
                table.add_row(name, *row(VARIANTS[variant](trace), built[name], options.seeds))
        console.print(table)


if __name__ == "__main__":
    main()
