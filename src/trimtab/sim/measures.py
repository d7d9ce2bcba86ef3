"""Measures of a simulated run, computed from the world alone: the engine is never asked how well it did.

Shares above a limit and spreads are of demand, so a node that wants more than it has counts as overloaded, however its pods
fared. The warm-up is left out of what is measured step by step; what is counted or added up by pod has all of it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from trimtab.core.model.pod import Pod
from trimtab.core.tables import Floats
from trimtab.sim.budgets import Budgets
from trimtab.sim.move_meter import MoveMeter
from trimtab.sim.pod_life import PodLife
from trimtab.sim.scenario import Scenario
from trimtab.sim.surges import owner_of
from trimtab.sim.usage import RESOURCES, StepUsage
from trimtab.sim.world import World

INVOLUNTARY = ("drained", "preempted", "node failed", "node removed", "moved")
HEATMAP_ROWS, HEATMAP_COLUMNS = 64, 288
HISTOGRAM_EDGES = np.linspace(0.0, 1.5, 31)

Matrix = NDArray[np.float32]  # by step and node; NaN where the node is not present


class Measure(Struct, frozen=True):
    """What a measure is called, its unit, and what it says; less is better, except for `moves_helped`."""

    name: str
    unit: str
    text: str


def _hot(name: str, resource: str, percent: int) -> Measure:
    return Measure(name, "", f"share of node-steps with {resource} demand above {percent} % of the capacity")


MEASURES: tuple[Measure, ...] = (
    *(_hot(f"hot{percent}", "CPU", percent) for percent in (80, 90, 100)),
    *(_hot(f"mem{percent}", "memory", percent) for percent in (80, 90, 100)),
    Measure("hot80_minutes", "min", "node-minutes with CPU demand above 80 % of the capacity"),
    Measure("unmet", "", "CPU that pods wanted and did not get, relative to what they wanted"),
    Measure("spread", "", "standard deviation of the nodes' CPU demand relative to capacity, mean over time"),
    Measure("mem_spread", "", "standard deviation of the nodes' memory demand relative to capacity, mean over time"),
    Measure("request_spread", "", "standard deviation of the nodes' CPU requests relative to capacity, mean over time"),
    Measure("max_mean", "", "CPU demand of the fullest node relative to the mean node, mean over time"),
    Measure("top", "", "CPU demand of the fullest node relative to its capacity, mean over time"),
    Measure("top_p99", "", "CPU demand of the fullest node relative to its capacity, 99th percentile over time"),
    Measure("node_p99", "", "99th percentile over nodes and time of CPU demand relative to capacity"),
    Measure("oom_kills", "", "containers killed because memory ran out"),
    Measure("pending", "s", "time that pods waited for a node, summed over pods"),
    Measure("pending_p99", "s", "time that a pod waited for a node, 99th percentile over pods"),
    Measure("unplaced", "pods", "pods without a node at the end"),
    Measure("moves", "pods", "pods that were moved to another node"),
    Measure(
        "moves_helped", "pods", "moves after which fewer node-steps were above 80 % of CPU within 6 h than without"
    ),
    Measure("moves_hurt", "pods", "moves after which more node-steps were above 80 % of CPU within 6 h than without"),
    Measure(
        "plan_error", "", "CPU of moves' nodes 5 minutes later against what was expected, relative to capacity; median"
    ),
    Measure("evictions", "pods", "pods evicted or preempted, for any reason"),
    Measure("down", "s", "time that pods were not ready after they had been, or until their replacement was; summed"),
    Measure(
        "stranded_cpu", "", "free CPU on nodes without memory for a median pod, relative to all CPU; mean over time"
    ),
    Measure(
        "stranded_memory",
        "",
        "free memory on nodes without CPU for a median pod, relative to all memory; mean over time",
    ),
)
MEASURES_BY_NAME: Mapping[str, Measure] = {measure.name: measure for measure in MEASURES}


class Heatmap(Struct, frozen=True):
    """CPU demand relative to capacity by node and time, at most as fine as a picture can show; None where unknown."""

    nodes: list[str]
    times: list[float]
    values: list[list[float | None]]


class Happening(Struct, frozen=True):
    """Something that a reader of the report wants to see on the timeline."""

    at: float
    kind: str
    text: str


class RunResult(Struct, frozen=True, kw_only=True):
    """One run: its measures by name, and what the report draws."""

    scenario: str
    policy: str
    seed: int
    measures: dict[str, float]
    heatmap: Heatmap
    histogram: list[float]  # share of node-steps by CPU demand, in steps of 5 % up to 150 %
    hot_share: list[float]  # share of nodes above 80 % of CPU, by column of the heatmap
    happenings: list[Happening]
    decisions: int = 0


class RunMeter:
    """Collects what the measures need, step by step and pod by pod."""

    def __init__(self, world: World, scenario: Scenario, budgets: Budgets) -> None:
        self.world, self.scenario, self.budgets = world, scenario, budgets
        self._demand: tuple[list[Matrix], list[Matrix]] = ([], [])
        self._requested: tuple[list[Matrix], list[Matrix]] = ([], [])
        self._times: list[float] = []
        self._wanted = self._missing = 0.0
        self._lost: dict[str, deque[float]] = defaultdict(deque)  # by owner: when its pods were lost
        self._down = 0.0
        self.happenings: list[Happening] = []
        self.moves = MoveMeter(world)
        world.step_listeners.append(self._step)
        world.pod_listeners.append(self._pod_changed)

    def _step(self, usage: StepUsage) -> None:
        for uid in usage.out_of_memory:
            self._note("OOM kill", self.world.lives[uid].key)
        if usage.at <= self.scenario.begins + self.scenario.warm_up:
            return
        self._times.append(usage.at)
        absent = ~usage.present
        for index in range(len(RESOURCES)):
            capacity = np.maximum(usage.capacity[index], 1.0)
            for rows, amounts in ((self._demand, usage.demand), (self._requested, usage.requested)):
                share = (amounts[index] / capacity).astype(np.float32)
                share[absent] = np.nan
                rows[index].append(share)
        self._wanted += float(usage.pod_demand[0].sum())
        self._missing += float((usage.pod_demand[0] - usage.pod_used[0]).sum())

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is None:
            return
        life = self.world.lives[pod.uid]
        if before is not None and not before.terminating and (after is None or after.terminating):
            if life.left in INVOLUNTARY and not pod.finished:
                self._pod_lost(pod, life)
        elif after is not None and after.ready and life.ready_at == self.world.clock.now:
            self._pod_ready(pod, life.ready_at)

    def _pod_lost(self, pod: Pod, life: PodLife) -> None:
        """A pod that was ready once is missing until its owner has another one that is."""
        self._note(life.left, life.key)
        owner = owner_of(self.world, pod.uid)
        replacement = owner.replaced_by(pod.uid) if owner is not None else None
        if pod.owner is not None and life.ready_at is not None and (replacement is None or not replacement.ready):
            self._lost[pod.owner.uid].append(self.world.clock.now)

    def _pod_ready(self, pod: Pod, at: float) -> None:
        if pod.owner is not None and self._lost.get(pod.owner.uid):
            self._down += at - self._lost[pod.owner.uid].popleft()

    def _note(self, kind: str, text: str) -> None:
        self.happenings.append(Happening(self.world.clock.now, kind, text))

    # --- results

    def result(self, policy: str, seed: int, decisions: int) -> RunResult:
        cpu = _padded(self._demand[0])
        measures = {**self._load_measures(cpu), **self._pod_measures(), **self._stranded()}
        return RunResult(
            scenario=self.scenario.name,
            policy=policy,
            seed=seed,
            measures={name: float(measures[name]) for name in MEASURES_BY_NAME},
            heatmap=self._heatmap(cpu),
            histogram=_histogram(cpu),
            hot_share=[_share_above(part, 0.8) for part in np.array_split(cpu, min(len(cpu), HEATMAP_COLUMNS))]
            if len(cpu)
            else [],
            happenings=self.happenings,
            decisions=decisions,
        )

    def _load_measures(self, cpu: Matrix) -> dict[str, float]:
        memory, requests = _padded(self._demand[1]), _padded(self._requested[0])
        hot = {f"hot{percent}": _share_above(cpu, percent / 100) for percent in (80, 90, 100)}
        mem = {f"mem{percent}": _share_above(memory, percent / 100) for percent in (80, 90, 100)}
        minutes = hot["hot80"] * int((~np.isnan(cpu)).sum()) * self.scenario.step / 60
        some = ~np.isnan(cpu).all(axis=1)  # moments at which there was a node
        if not some.any():
            return {**hot, **mem, "hot80_minutes": 0.0, **dict.fromkeys(_SHAPE, 0.0)}
        cpu, memory, requests = cpu[some], memory[some], requests[some]
        top = np.nanmax(cpu, axis=1)
        return {
            **hot,
            **mem,
            "hot80_minutes": minutes,
            "unmet": self._missing / self._wanted if self._wanted else 0.0,
            "spread": float(np.nanstd(cpu, axis=1).mean()),
            "mem_spread": float(np.nanstd(memory, axis=1).mean()),
            "request_spread": float(np.nanstd(requests, axis=1).mean()),
            "max_mean": float((top / np.maximum(np.nanmean(cpu, axis=1), 1e-9)).mean()),
            "top": float(top.mean()),
            "top_p99": float(np.percentile(top, 99)),
            "node_p99": float(np.nanpercentile(cpu, 99)),
        }

    def _pod_measures(self) -> dict[str, float]:
        lives, now = self.world.lives.values(), self.world.clock.now
        waits = [
            (now if life.removed is None else life.removed) if life.bound is None else life.bound for life in lives
        ]
        pending = np.array([until - life.created for until, life in zip(waits, lives, strict=True)] or [0.0])
        still_lost = sum(now - at for lost in self._lost.values() for at in lost)
        return {
            "oom_kills": sum(life.oom_kills for life in lives),
            "pending": float(pending.sum()),
            "pending_p99": float(np.percentile(pending, 99)),
            "unplaced": len(self.world.pending),
            "moves": sum(life.left == "moved" for life in lives),
            "moves_helped": self.moves.helped,
            "moves_hurt": self.moves.hurt,
            "plan_error": self.moves.error,
            "evictions": len(self.budgets.evictions) + sum(life.left == "preempted" for life in lives),
            "down": self._down + still_lost + sum(life.unready_until(now) for life in lives),
        }

    def _stranded(self) -> dict[str, float]:
        """Against the median request of all pods, the usual reference where no other is given."""
        templates = self.world.templates.values()
        if not templates or not self._times:
            return {"stranded_cpu": 0.0, "stranded_memory": 0.0}
        pod = [float(np.median([each.requests.of(resource) for each in templates])) for resource in RESOURCES]
        capacity = self.world.usage.capacity
        free = [np.clip(1 - _padded(rows), 0, None) * capacity[at] for at, rows in enumerate(self._requested)]
        cpu_total, memory_total = (np.nansum(~np.isnan(each) * capacity[at]) for at, each in enumerate(free))
        return {
            "stranded_cpu": float(np.nansum(free[0] * (free[1] < pod[1])) / max(cpu_total, 1.0)),
            "stranded_memory": float(np.nansum(free[1] * (free[0] < pod[0])) / max(memory_total, 1.0)),
        }

    def _heatmap(self, cpu: Matrix) -> Heatmap:
        """The hottest nodes first, if there are more than a picture can show; times are averaged."""
        if not cpu.size:
            return Heatmap([], [], [])
        columns = np.array_split(np.arange(len(cpu)), min(len(cpu), HEATMAP_COLUMNS))
        names = self.world.usage.names
        rows = np.argsort(-np.nan_to_num(np.nanmean(np.where(np.isnan(cpu), 0, cpu), axis=0)), kind="stable")[
            :HEATMAP_ROWS
        ]
        rows = np.sort(rows)
        values = [[_mean_or_none(cpu[column, row]) for column in columns] for row in rows.tolist()]
        return Heatmap([names[row] for row in rows.tolist()], [self._times[each[-1]] for each in columns], values)


_SHAPE = ("unmet", "spread", "mem_spread", "request_spread", "max_mean", "top", "top_p99", "node_p99")


def _padded(rows: list[Matrix]) -> Matrix:
    """One matrix: nodes that joined later are NaN before."""
    if not rows:
        return np.zeros((0, 0), dtype=np.float32)
    width = len(rows[-1])
    return np.stack([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row in rows])


def _share_above(values: Matrix, limit: float) -> float:
    known = int((~np.isnan(values)).sum())
    return float((values > limit).sum()) / known if known else 0.0


def _mean_or_none(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 3) if len(known) else None


def _histogram(values: Matrix) -> list[float]:
    known = values[~np.isnan(values)]
    counts, _ = np.histogram(np.clip(known, 0.0, HISTOGRAM_EDGES[-1]), HISTOGRAM_EDGES)
    return [round(float(count) / max(len(known), 1), 5) for count in counts]
