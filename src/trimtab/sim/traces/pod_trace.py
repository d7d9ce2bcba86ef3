"""Reads the trace format: nodes.csv, pods.csv, usage.csv and meta.json in one folder.

`usage.csv` has a line for each pod: its first step, and one number per step for each resource; -1 is no sample. Usage is
demand: it may exceed the capacity of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trimtab.config.diagnostics import did_you_mean
from trimtab.core.model.duration import DAY
from trimtab.core.model.resources import MIB
from trimtab.sim.scenario import Scenario
from trimtab.sim.traces.options import TraceOptions
from trimtab.sim.traces.recording import RecordedPod, RecordedTrace, to_scenario, vary
from trimtab.sim.traces.tables import Row, UsageArray, fail, find_file, read_rows

NODE_COLUMNS = ("node", "cpu_milli", "memory_mib")
POD_COLUMNS = ("pod", "cpu_request_milli", "memory_request_mib", "arrival_s")
OPTIONAL_POD_COLUMNS = ("app", "cpu_limit_milli", "memory_limit_mib", "departure_s", "initial_node")
USAGE_COLUMNS = ("pod", "first_step", "cpu_milli", "memory_mib")
MAX_STEPS = 1_000_000
_NONE: UsageArray = np.zeros(0, dtype=np.float32)


class Meta(Struct, frozen=True):
    """meta.json; `nodes` and `pods` are how many there are, by which a trace that is cut short is recognised."""

    name: str
    step_seconds: float
    steps: int
    suggested_warmup_steps: int = 0
    nodes: int | None = None
    pods: int | None = None


class _ListedPod(Struct, frozen=True):
    """A pod without its usage yet, when it arrives and, if that is known, departs, and the line it is in."""

    pod: RecordedPod
    arrival: float
    departure: float | None
    line: int


def load_pod_trace(options: TraceOptions, seed: int) -> Scenario:
    """The trace in the folder as a scenario; raises ConfigError."""
    return to_scenario(vary(read_trace(options.folder), options), options.labels, options.ready_delay)


def read_trace(folder: Path) -> RecordedTrace:
    """The trace in this folder; raises ConfigError with the problems of the first file that has any."""
    meta = _meta(find_file(folder, ["meta.json"]))
    node_file, pod_file = find_file(folder, ["nodes.csv"]), find_file(folder, ["pods.csv"])
    usage_file = find_file(folder, ["usage.csv"])
    nodes = _nodes(node_file)
    _check_count(node_file, "nodes", len(nodes), meta.nodes)
    listed = _listed_pods(pod_file, nodes)
    _check_count(pod_file, "pods", len(listed), meta.pods)
    pods = _with_usage(usage_file, listed, meta)
    _check_count(usage_file, "pods", len(pods), len(listed))
    return RecordedTrace(
        meta.name,
        tuple((name, *size) for name, size in nodes.items()),
        tuple(sorted(pods.values(), key=lambda pod: listed[pod.name].arrival)),
        meta.steps,
        meta.step_seconds,
        meta.suggested_warmup_steps,
    )


def _meta(path: Path) -> Meta:
    try:
        meta = msgspec.json.decode(path.read_bytes(), type=Meta)
    except (OSError, ValueError, RecursionError) as error:
        message, _, field = str(error).partition(" - at `$.")
        fail(str(path), f"{field.rstrip('`')}: {message}" if field else f"cannot be read: {message}")
    if not 1 <= meta.step_seconds <= DAY:
        fail(str(path), f"step_seconds: {meta.step_seconds:g} is not between a second and a day")
    if not 0 < meta.steps <= MAX_STEPS:
        fail(str(path), f"steps: {meta.steps} is not between 1 and {MAX_STEPS}")
    if not 0 <= meta.suggested_warmup_steps < meta.steps:
        fail(str(path), f"suggested_warmup_steps: {meta.suggested_warmup_steps} is not between 0 and steps")
    return meta


def _check_count(path: Path, what: str, found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        fail(str(path), f"has {found} {what} instead of {expected}: the trace may be cut short")


def _nodes(path: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in read_rows(path, NODE_COLUMNS):
        name = row.name("node")
        if name in found:
            row.error("node", f"{name} is there twice")
        found[name] = row.integer("cpu_milli", 1), int(row.number("memory_mib", 1) * MIB)
    return found


def _listed_pods(path: Path, nodes: Mapping[str, tuple[int, int]]) -> dict[str, _ListedPod]:
    found: dict[str, _ListedPod] = {}
    for row in read_rows(path, POD_COLUMNS, OPTIONAL_POD_COLUMNS):
        listed = _listed_pod(row, nodes)
        name = listed.pod.name
        if name in found:
            row.error("pod", f"{name} is there twice, first in line {found[name].line}")
        found[name] = listed
    return found


def _listed_pod(row: Row, nodes: Mapping[str, tuple[int, int]]) -> _ListedPod:
    name, node = row.name("pod"), row.text("initial_node")
    request = row.integer("cpu_request_milli"), int(row.number("memory_request_mib") * MIB)
    limit = row.integer("cpu_limit_milli", default=0), int(row.number("memory_limit_mib", default=0) * MIB)
    for column, asked, most in zip(("cpu_limit_milli", "memory_limit_mib"), request, limit, strict=True):
        if most and most < asked:
            row.error(column, "is below the request")
    arrival = row.number("arrival_s")
    departure = row.number("departure_s") if row.text("departure_s") else None
    if departure is not None and departure < arrival:
        row.error("departure_s", "is before arrival_s")
    if node and node not in nodes:
        row.error("initial_node", f"nodes.csv has no node {node[:60]!r}{did_you_mean(node, nodes)}")
    pod = RecordedPod(name, row.text("app") or name, request, limit, 0, _NONE, _NONE, node)
    return _ListedPod(pod, arrival, departure, row.line)


def _with_usage(path: Path, listed: Mapping[str, _ListedPod], meta: Meta) -> dict[str, RecordedPod]:
    found: dict[str, RecordedPod] = {}
    for row in read_rows(path, USAGE_COLUMNS):
        name, first = row.text("pod"), row.integer("first_step")
        cpu, memory = row.series("cpu_milli"), row.series("memory_mib")
        if name not in listed:
            row.error("pod", f"pods.csv has no pod {name[:60]!r}")
        elif name in found:
            row.error("pod", f"{name} is there twice")
        elif cpu is not None and memory is not None:
            found[name] = replace(listed[name].pod, first=first, cpu=cpu, memory=memory * np.float32(MIB))
            _check_steps(row, found[name], listed[name], meta)
    return found


def _check_steps(row: Row, pod: RecordedPod, listed: _ListedPod, meta: Meta) -> None:
    if len(pod.cpu) != len(pod.memory):
        row.error("memory_mib", f"has {len(pod.memory)} values, and cpu_milli {len(pod.cpu)}")
    if pod.end > meta.steps:
        row.error("first_step", f"the usage ends after step {pod.end}, and the trace after step {meta.steps}")
    step = int(listed.arrival // meta.step_seconds)
    if step != pod.first:
        row.error("first_step", f"is {pod.first}, but by pods.csv the pod arrives in step {step}")
    elif listed.departure is not None and pod.end <= meta.steps:
        _check_departure(row, pod, listed.departure / meta.step_seconds, meta.steps)


def _check_departure(row: Row, pod: RecordedPod, departure: float, steps: int) -> None:
    """A pod leaves at the end of the step in which it departs; at the border of two, of either."""
    ends = {min(ceil(departure), steps), min(int(departure) + 1, steps)}
    if pod.end not in ends:
        last = min(ends) - 1
        row.error("cpu_milli", f"ends with step {pod.end - 1}, but by pods.csv the pod departs in step {last}")
