"""What objects of up to 1.5 MB cost: the longest single step of the engine, and plain pods that are decided beside them."""

from __future__ import annotations

import gc

import numpy as np

from bench.large_objects import Json
from bench.pathological import CASES
from bench.stall_meter import StallMeter
from tools.controlplane.objects import pod

NODES = RUNNING = 5_000
PLAIN = 300
GOAL_MS = 100


def costs() -> list[tuple[str, ...]]:
    """The five longest steps of all cases; then the p99 of plain pods, alone and with all of these pods parked."""
    gc.collect()
    gc.freeze()  # as a live process does when its code is loaded (apps/event_loop.py)
    meter = StallMeter(NODES, RUNNING)
    gc.collect()
    alone = _plain_p99(meter)
    worst: list[tuple[float, str, str]] = []
    for name, each in CASES.items():
        for count in {each.most, each.evaluated} - {0}:
            meter.run(each.make(count))
            worst += [(spent, f"{name}: {count:,}", step) for step, spent in meter.seconds.items()]
    rows = [(case, step, f"{spent * 1e3:,.0f}", str(GOAL_MS)) for spent, case, step in sorted(worst, reverse=True)[:5]]
    for document in _parked_pods():
        meter.upsert(document)
    meter.turns()
    beside = _plain_p99(meter)
    return [
        *rows,
        ("a plain pod, alone", "p99 of pods", f"{alone * 1e3:.1f}", ""),
        ("a plain pod, beside all of these", "p99 of pods", f"{beside * 1e3:.1f}", ""),
    ]


def _parked_pods() -> list[Json]:
    """The pods of all cases, under names of their own."""
    found: list[Json] = []
    for each in CASES.values():
        for count in {each.most, each.evaluated} - {0}:
            found += [made for made in each.make(count) if made["kind"] == "Pod" and "nodeName" not in made["spec"]]
    return [{**made, "metadata": {**made["metadata"], "name": f"parked-{i}"}} for i, made in enumerate(found)]


def _plain_p99(meter: StallMeter) -> float:
    """Seconds of CPU from the watch's line to the decision, while nodes change."""
    spent = []
    for i in range(PLAIN):
        meter.seconds.clear()
        document = pod(f"plain-{i}")
        meter.upsert(document)
        meter.turns()
        spent.append(sum(meter.seconds.values()))
        meter.delete(document)
        if i % 20 == 0:
            meter.disturb()
    return float(np.percentile(spent, 99))
