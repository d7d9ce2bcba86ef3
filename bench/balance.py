"""How evenly each policy keeps a cluster under a public trace of pods, side by side; plain numbers, no clock involved.

The engine itself decides, with the plugins and load columns of the product, on a virtual clock. Each five-minute step: pods
leave, the usage of the step before is read, new pods come and are placed. What is measured is what the nodes were really
asked for, after the trace's warm-up: `hot80` is the share of node-steps above 80 % of the CPU, `spread` the deviation over
nodes, `top` the fullest node, both averaged over time, `pending` the pod-steps without a node.

    python -m bench.balance FOLDER [--policies PeakRisk,stock] [--variants A32,A29] [--seeds 3]

FOLDER (or TRIMTAB_DATA) holds the trace in the form that `traces` reads. Seeds change pods' UIDs, which break ties.
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
    Turn,
)
from trimtab.core.model.instructions import Bind
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
PEAK_RISK_WEIGHT = 10  # times the weight of one stock plugin
# Each policy decides alone among the nodes that have room for the requests; `stock` is the whole default profile.
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
    """Those whose plugins are built; scores only, for a hard threshold wins by leaving pods without a node."""
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
    """One row a step: what share of its CPU each node was asked for."""

    demand: list[np.ndarray] = field(default_factory=list)
    pending: int = 0

    def figures(self) -> tuple[float, float, float, float, float]:
        """hot80, hot100, spread, top, pending."""
        asked = np.array(self.demand)
        over = float((asked > HOT_SHARE).mean()), float((asked > 1).mean())
        return *over, float(asked.std(axis=1).mean()), float(asked.max(axis=1).mean()), float(self.pending)


class Run:
    """One trace through one engine."""

    def __init__(self, trace: Trace, policy: Profile, seed: int) -> None:
        self.trace, self.seed = trace, seed
        believed = LoadSettings(fresh=2.0 * trace.step_seconds, stale=3.0 * trace.step_seconds, window=HOUR)
        self.engine = Engine(Settings((policy,), load=believed, initial_backoff=1.0, max_backoff=1.0))
        self.pods: dict[str, tuple[TracedPod, Pod]] = {}
        self.version = 1
        for kind in self.engine.state.settings.kinds:
            self.engine.handle(Synced(kind, 0.0))
        self.engine.handle(LeaseAcquired(1, 0.0))
        for name, cpu, memory in trace.nodes:
            room = (CPU, cpu), (MEMORY, memory), (PODS, 1000)
            self.engine.handle(NodeUpserted(Node(name, name, 1, allocatable=room, capacity=room), 0.0))

    def run(self) -> Utilisation:
        measures, coming = Utilisation(), self._by_step()
        for step in range(self.trace.steps):
            at = float(step * self.trace.step_seconds)
            self._delete_finished(step, at)
            self.engine.handle(Tick(at))
            if step:
                # A moment ago: pods that come now are not in it.
                self.engine.handle(SamplesRead(tuple(self._readings(step - 1, at - 1.0)), at))
            for traced in coming.get(step, ()):
                self._create_pod(traced, at)
            self._schedule(at)
            if step >= self.trace.warm_up:
                asked = self._demand_by_node(step)
                measures.demand.append(np.array([asked[name] / cpu for name, cpu, _ in self.trace.nodes]))
                measures.pending += sum(not pod.node for _, pod in self.pods.values())
        return measures

    def _by_step(self) -> dict[int, list[TracedPod]]:
        coming: dict[int, list[TracedPod]] = {}
        for traced in self.trace.pods:
            coming.setdefault(traced.first, []).append(traced)
        return coming

    def _delete_finished(self, step: int, now: float) -> None:
        for uid in [uid for uid, (traced, _) in self.pods.items() if traced.end <= step]:
            del self.pods[uid]
            self.engine.handle(PodDeleted(uid, now))

    def _create_pod(self, traced: TracedPod, now: float) -> None:
        asked, limits = _amounts(traced.request), _amounts(traced.limit)
        uid, owner = f"{self.seed}/{traced.name}", Owner("ReplicaSet", traced.app, traced.app, "apps/v1")
        demand = PodRequests(asked, asked, *traced.request, limits)
        made = Pod(uid, "trace", traced.name, owner=owner, created=now, scheduler_name=NAME, requests=demand)
        self._upsert(traced, made, now)

    def _upsert(self, traced: TracedPod, pod: Pod, now: float) -> None:
        self.version += 1
        newer = replace(pod, version=self.version)
        self.pods[pod.uid] = traced, newer
        self.engine.handle(PodUpserted(newer, now))

    def _schedule(self, now: float) -> None:
        """Until nobody has a place to go to; the watch answers at once."""
        while self.engine.has_work():
            for wish in self.engine.handle(Turn(1, now)):
                if isinstance(wish, Bind):
                    self.engine.handle(BindDone(wish.uid, wish.node, now))
                    traced, pod = self.pods[wish.uid]
                    self._upsert(traced, replace(pod, node=wish.node, phase="Running", started=now), now)

    def _demand_by_node(self, step: int) -> dict[str, float]:
        asked = dict.fromkeys((name for name, _, _ in self.trace.nodes), 0.0)
        for traced, pod in self.pods.values():
            if pod.node:
                asked[pod.node] += float(traced.cpu[step - traced.first])
        return asked

    def _readings(self, step: int, at: float) -> Iterator[Reading]:
        """What the step before looked like: of each pod that was there and is still, and of each node in all."""
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
    """The means over the seeds, in words."""
    runs = [Run(trace, policy, seed).run().figures() for seed in range(seeds)]
    hot, over, spread, top, pending = np.mean(runs, axis=0).tolist()
    return f"{hot:.4f}", f"{over:.4f}", f"{spread:.3f}", f"{top:.2f}", f"{pending:,.0f}"


def main() -> None:
    words = argparse.ArgumentParser(prog="bench.balance", description="Balance under a public trace, by policy.")
    words.add_argument("folder", nargs="?", default=os.environ.get("TRIMTAB_DATA", ""))
    words.add_argument("--policies", default="")
    words.add_argument("--variants", default="A32,A29")
    words.add_argument("--seeds", type=int, default=1)
    given = words.parse_args()
    if not given.folder or not (Path(given.folder) / "usage.csv.gz").exists():
        print("balance: no trace given (name its folder, or set TRIMTAB_DATA): nothing to measure")
        return
    trace, built = read(Path(given.folder)), profiles()
    chosen = [name for name in given.policies.split(",") if name] or list(built)
    console = Console()
    for variant in given.variants.split(","):
        table = Table("policy", *COLUMNS, title=f"{trace.name}, {variant}, {given.seeds} seed(s)", title_justify="left")
        for name in chosen:
            with console.status(f"{variant}: {name}"):
                table.add_row(name, *row(VARIANTS[variant](trace), built[name], given.seeds))
        console.print(table)


if __name__ == "__main__":
    main()
