"""Reads a trace of pods: arrivals, ends, requests, limits and usage.

The format: `nodes.csv` (node, cpu_milli, memory_mib), `pods.csv` (requests and limits), `usage.csv.gz` (one line per pod: its
first step and one number per step) and `meta.json`. Usage is demand: it may exceed a node's capacity.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]

MIB = 1 << 20
MAX_FIELD_BYTES = 1 << 24
LIFETIME_BANDS = 5  # usage is shuffled among apps of similar lifetime


@dataclass(frozen=True, slots=True)
class TracedPod:
    """One pod: requests and limits (millicores, bytes), and its usage from its first step on."""

    name: str
    app: str
    request: tuple[int, int]
    limit: tuple[int, int]
    first: int
    cpu: Series
    memory: Series

    @property
    def end(self) -> int:
        """The first step after it has ended."""
        return self.first + len(self.cpu)


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes as (name, millicores, bytes), pods by arrival, and the number of warm-up steps."""

    name: str
    nodes: tuple[tuple[str, int, int], ...]
    pods: tuple[TracedPod, ...]
    steps: int
    step_seconds: int
    warm_up: int

    def with_nodes(self, count: int) -> Trace:
        return replace(self, nodes=self.nodes[:count])

    def with_requests_scaled(self, share: float) -> Trace:
        """Every request multiplied by this."""
        fewer = (replace(pod, request=(int(pod.request[0] * share), int(pod.request[1] * share))) for pod in self.pods)
        return replace(self, pods=tuple(fewer))

    def with_usage_shuffled(self, seed: int) -> Trace:
        """Each app with the usage of another one of similar lifetime, relative to its own limits."""
        apps: dict[str, list[TracedPod]] = defaultdict(list)
        for pod in self.pods:
            apps[pod.app].append(pod)
        by_life = sorted(apps, key=lambda app: max(len(pod.cpu) for pod in apps[app]))
        donors: dict[str, str] = {}
        for band in np.array_split(np.array(by_life), LIFETIME_BANDS):
            dealt = band.tolist()
            Random(seed).shuffle(dealt)
            donors |= zip(band.tolist(), dealt, strict=True)
        place = {pod.name: number for pods in apps.values() for number, pod in enumerate(pods)}
        given = {pod.name: apps[donors[pod.app]][place[pod.name] % len(apps[donors[pod.app]])] for pod in self.pods}
        return replace(self, pods=tuple(_with_usage_of(pod, given[pod.name]) for pod in self.pods))


def _with_usage_of(pod: TracedPod, other: TracedPod) -> TracedPod:
    cpu = np.resize(other.cpu / other.limit[0], len(pod.cpu)) * pod.limit[0]
    memory = np.resize(other.memory / other.limit[1], len(pod.memory)) * pod.limit[1]
    return replace(pod, cpu=cpu, memory=memory)


def read(folder: Path) -> Trace:
    """The trace in this folder, with pods in the order of their arrival."""
    meta = json.loads((folder / "meta.json").read_text())
    with (folder / "nodes.csv").open() as file:
        nodes = tuple(
            (row["node"], int(row["cpu_milli"]), int(row["memory_mib"]) * MIB) for row in csv.DictReader(file)
        )
    used = _usage(folder / "usage.csv.gz")
    with (folder / "pods.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: float(row["arrival_s"]))
    pods = tuple(_pod(row, *used[row["pod"]]) for row in rows if row["pod"] in used)
    return Trace(meta["name"], nodes, pods, meta["steps"], meta["step_seconds"], meta["suggested_warmup_steps"])


def _usage(path: Path) -> dict[str, tuple[int, Series, Series]]:
    csv.field_size_limit(MAX_FIELD_BYTES)
    with gzip.open(path, "rt") as file:
        return {
            row["pod"]: (int(row["first_step"]), _series(row["cpu_milli"]), _series(row["memory_mib"]) * MIB)
            for row in csv.DictReader(file)
        }


def _series(text: str) -> Series:
    return np.array(text.split(), dtype=np.float64)


def _pod(row: dict[str, Any], first: int, cpu: Series, memory: Series) -> TracedPod:
    request = int(row["cpu_request_milli"]), int(row["memory_request_mib"]) * MIB
    limit = int(row["cpu_limit_milli"]), int(row["memory_limit_mib"]) * MIB
    return TracedPod(row["pod"], row.get("app") or row["pod"], request, limit, first, cpu, memory)
