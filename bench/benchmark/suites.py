"""What the benchmark runs: variants of public traces, the shipped scenarios, and the policies that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from msgspec import Struct

from trimtab.apps.simulate.policies import named_policies

BASELINE = "LeastAllocated"
OURS = "PeakRisk"
LATE_VARIANTS = ("k8s-mix-a-29-delayed", "k8s-mix-a-29")  # they differ only in how late metrics are
# First those that know no load, then load policies; `NAME-strict` is one as its origin behaves. Templates are not compared.
WITHOUT_LOAD = (BASELINE, "MostAllocated", "Random", "RoundRobin", "stock")
# On variants of a trace only those whose hot80 was below a third of the baseline's on the published one. UsageOvercommit was,
# too; it is left out because it scores by PeakRisk and differs in its filter alone.
CONTENDERS = ("CpuRealUsage", "LoadVariationRiskBalancing", OURS, "stock-and-PeakRisk", "TargetLoadPacking")
FOR_GPUS = "GpuShare"
MOVING_PODS = (
    "-rescheduling",
    "Descheduler",
    "Koordinator",
)  # in names: they are compared on variants with `moves` alone
MOVERS = (
    BASELINE,
    "LeastAllocated-rescheduling",
    "LeastAllocated-KoordinatorLowNodeLoad",
    "LeastAllocated-KoordinatorLowNodeLoad-tuned",
    "LoadAwareScheduling-KoordinatorLowNodeLoad-tuned",
    "LeastAllocated-DeschedulerLowNodeUtilization",
    "LeastAllocated-DeschedulerLowNodeUtilization-tuned",
    OURS,
    "PeakRisk-rescheduling",
)
OURS_AND_TUNED = (BASELINE, "LeastAllocated-rescheduling", "LeastAllocated-KoordinatorLowNodeLoad-tuned")
BY_METHOD = (BASELINE, "LeastAllocated-rescheduling", "LeastAllocated-rescheduling-eviction")
# What other load-aware schedulers get wrong; the other shipped scenarios are for reading and for tests.
FAULT_SCENARIOS = (
    "stale-metrics",
    "zero-on-error",
    "missing-node",
    "burst",
    "oversize-pod",
    "equal-names",
    "mixed-hardware",
    "failover",
)


class TraceVariant(Struct, frozen=True):
    """A trace of the data folder with the options of a scenario's `trace`, and what it is for.

    strict: whether all policies are run, also as their origins behave, or only the contenders.
    pooled: whether it counts in the sum over variants; what differs from another variant in its metrics alone does not.
    movers: the policies that are compared on it instead, where pods are moved.
    """

    name: str
    folder: str
    text: str
    options: Mapping[str, object] = {}
    metrics: Mapping[str, object] = {}
    strict: bool = False
    pooled: bool = True
    movers: tuple[str, ...] = ()


def _with_moves(
    name: str, folder: str, text: str, *, movers: tuple[str, ...] = MOVERS, late: bool = False, **options: object
) -> TraceVariant:
    metrics = {"interval": "5m", "delay": "5m"} if late else {}
    return TraceVariant(f"{name}-moves", folder, text, options, metrics, pooled=False, movers=movers)


TRACES: tuple[TraceVariant, ...] = (
    TraceVariant("k8s-mix-a", "k8s-mix-a", "as published: 5,197 pods over 72 hours on 32 nodes", strict=True),
    TraceVariant("k8s-mix-a-29", "k8s-mix-a", "29 nodes and requests at 85 %: fuller", {"nodes": 29, "requests": 0.85}),
    TraceVariant(
        "k8s-mix-a-27-shuffled",
        "k8s-mix-a",
        "27 nodes, requests at 85 %, and each app has the usage of another one of similar lifetime",
        {"nodes": 27, "requests": 0.85, "shuffleUsage": 1},
    ),
    TraceVariant(
        "k8s-mix-a-siblings",
        "k8s-mix-a",
        "30 nodes; pods of an app arrive within an hour and carry its label, so siblings are known and spread",
        {"nodes": 30, "requests": 0.85, "shuffleUsage": 2, "stagger": "1h", "labels": True},
    ),
    TraceVariant(
        "k8s-mix-a-29-delayed",
        "k8s-mix-a",
        "as k8s-mix-a-29, with metrics that are five minutes late",
        {"nodes": 29, "requests": 0.85},
        {"interval": "5m", "delay": "5m"},
        pooled=False,
    ),
    TraceVariant(
        "k8s-mix-a-30-shuffled",
        "k8s-mix-a",
        "30 nodes, requests at 85 %, and another exchange of usage between apps",
        {"nodes": 30, "requests": 0.85, "shuffleUsage": 3},
    ),
    TraceVariant(
        "k8s-mix-a-32-shuffled",
        "k8s-mix-a",
        "as published, with another exchange of usage between apps",
        {"shuffleUsage": 4},
    ),
    TraceVariant(
        "bitbrains-2013-08",
        "bitbrains-2013-08",
        "495 machines over 14 days on 28 nodes, sampled every hour; all but one arrive at once, before any sample",
        metrics={"interval": "1h"},
        strict=True,
        pooled=False,
    ),
    _with_moves("bitbrains-2013-08", "bitbrains-2013-08", "pods may be moved; sampled every five minutes"),
    _with_moves("bitbrains-2013-08-80", "bitbrains-2013-08", "the same at 80 % of the load", usage=0.8),
    _with_moves(
        "bitbrains-2013-08-delayed",
        "bitbrains-2013-08",
        "the same with metrics that are five minutes late",
        movers=OURS_AND_TUNED,
        late=True,
    ),
    _with_moves(
        "bitbrains-2013-08-slow-start",
        "bitbrains-2013-08",
        "pods become ready five minutes after they start: with replacement first they run twice for so long",
        movers=BY_METHOD,
        readyDelay="5m",
    ),
    _with_moves("k8s-mix-a-29", "k8s-mix-a", "as k8s-mix-a-29, and pods may be moved", nodes=29, requests=0.85),
    _with_moves(
        "k8s-mix-a-27-shuffled",
        "k8s-mix-a",
        "as k8s-mix-a-27-shuffled, and pods may be moved",
        nodes=27,
        requests=0.85,
        shuffleUsage=1,
    ),
    _with_moves(
        "k8s-mix-a-30-shuffled",
        "k8s-mix-a",
        "as k8s-mix-a-30-shuffled, and pods may be moved",
        nodes=30,
        requests=0.85,
        shuffleUsage=3,
    ),
    _with_moves(
        "k8s-mix-a-32-shuffled", "k8s-mix-a", "as k8s-mix-a-32-shuffled, and pods may be moved", shuffleUsage=4
    ),
)


def trace_files(data: Path, folder: Path) -> dict[str, Path]:
    """Write a scenario file for each variant whose trace is in the data folder; by the variant's name."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for variant in TRACES:
        if (data / variant.folder / "usage.csv.gz").exists():
            files[variant.name] = folder / f"{variant.name}.yaml"
            files[variant.name].write_text(_scenario(variant, data))
    return files


def _scenario(variant: TraceVariant, data: Path) -> str:
    document = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "Scenario",
        "name": variant.name,
        "description": variant.text,
        "trace": {"format": "trace", "folder": str((data / variant.folder).resolve()), **variant.options},
        **({"metrics": dict(variant.metrics)} if variant.metrics else {}),
    }
    return yaml.safe_dump(document, sort_keys=False)


def policies(templates: frozenset[str], *, strict: bool) -> tuple[str, ...]:
    """The baseline first, then what knows no load, then all others by name."""
    if not strict:
        return (BASELINE, *CONTENDERS)
    left_out = (*WITHOUT_LOAD, *templates)
    named = [name for name in named_policies() if name not in left_out and not name.startswith(FOR_GPUS)]
    placing = [name for name in named if not any(part in name for part in MOVING_PODS)]
    return (*WITHOUT_LOAD, *sorted(placing, key=str.lower))
