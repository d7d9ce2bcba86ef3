"""Reads scenario files: YAML of kind Scenario, described in docs/scenarios.md.

Every problem of a file is reported in one pass, with its line, column and field. What a scenario is built on besides its own
nodes and workloads, such as a recorded trace, is a row of `FOUNDATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from pathlib import Path

from msgspec import Struct

from trimtab.config.config_node import ConfigNode, Report
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.config.yaml import MAX_BYTES, parse_documents
from trimtab.core.model.duration import DAY, format_duration
from trimtab.core.model.objects import Object, Service
from trimtab.sim.scenario import NAMESPACE, Scenario, SimulatedNode, Workload
from trimtab.sim.scenario_file.faults import parse_events, parse_metrics
from trimtab.sim.scenario_file.nodes import parse_cluster_autoscaler, parse_nodes
from trimtab.sim.scenario_file.trace import load_trace
from trimtab.sim.scenario_file.values import (
    Fields,
    Timeline,
    duration,
    labels,
    object_name,
    positive_duration,
    time_of_day,
)
from trimtab.sim.scenario_file.workloads import WorkloadContext, parse_workload
from trimtab.sim.snapshot_document import API_VERSION
from trimtab.sim.snapshot_document import KIND as SNAPSHOT_KIND
from trimtab.sim.snapshot_file import GZIP, SnapshotError, read_snapshot
from trimtab.sim.snapshot_scenario import place_again, scenario_of
from trimtab.wire.objects import label_map_selector
from trimtab.wire.pod import PodReader

KIND = "Scenario"
HEAD_BYTES, SNAPSHOT_MARK = 1000, f'"{SNAPSHOT_KIND}"'.encode()  # by which a snapshot is recognised
SCENARIO_FIELDS = {
    "apiVersion": f"must be {API_VERSION}",
    "kind": f"must be {KIND}",
    "name": "its name; that of the file unless set",
    "description": "what it is about",
    "duration": "how long it lasts; a trace has a duration of its own",
    "begins": 'the time of day when it begins, such as "08:00"; midnight unless set, and always in a trace',
    "step": "1m unless set, in a trace its own: how often usage changes and is measured; at least 1s; must divide duration",
    "warmUp": "0s unless set, in a trace its own: how much of the beginning is left out of the results",
    "nodes": "a list of nodes, see below",
    "workloads": "a list of workloads, see below",
    "services": "a list of Services; pods are spread by default if one selects them",
    "metrics": "how usage is measured, see below",
    "events": "a list of what happens to nodes and to the leader, in the order of time",
    "clusterAutoscaler": "adds and removes nodes, see below",
    "oomKills": "true unless set, in a trace false: pods are killed where memory runs out",
    "trace": "a recorded trace, whose nodes and pods are added to those of the file",
    "snapshot": "the same with a snapshot of a live cluster",
}
SERVICE_FIELDS = {
    "name": "its name",
    "namespace": f"`{NAMESPACE}` unless set",
    "selector": "the labels of its pods",
}
SNAPSHOT_FIELDS = {
    "file": "what `trimtab snapshot` wrote, relative to the scenario",
    "placeAgain": "false unless set: every pod but those of DaemonSets is placed again by the policy, the oldest first",
}

Foundation = Callable[[ConfigNode, Path, int], Scenario | None]  # the value, the file's folder, the seed
_EMPTY = Scenario("", 0.0, ())


def _load_snapshot(node: ConfigNode, folder: Path, seed: int) -> Scenario | None:
    """A live cluster, from the moment of the snapshot on; None after a problem."""
    before = len(node.report.problems)
    fields = Fields(node, SNAPSHOT_FIELDS)
    file = fields.require("file", ConfigNode.string, "", "write the snapshot's file")
    again = fields.get("placeAgain", ConfigNode.boolean, False)
    if len(node.report.problems) > before:
        return None
    try:
        scenario = scenario_of(read_snapshot(folder / file))
    except SnapshotError as error:
        fields.at("file").error(str(error))
        return None
    return place_again(scenario) if again else scenario


FOUNDATIONS: Mapping[str, Foundation] = {"trace": load_trace, "snapshot": _load_snapshot}


def read_scenario(path: Path, seed: int = 0) -> Scenario:
    """The scenario in this file; raises ConfigError with all problems.

    seed: only for what a trace leaves to chance; what is random in a scenario is drawn when it is run.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        message = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        raise ConfigError([Problem(str(path), 0, 0, "", message)]) from None
    if content.startswith(GZIP) or SNAPSHOT_MARK in content[:HEAD_BYTES]:
        message = f"is not a scenario. To simulate a snapshot, write one with `snapshot: {{file: {path.name}}}`"
        raise ConfigError([Problem(str(path), 0, 0, "", message)])
    return parse_scenario(content, str(path), path.parent, seed)


def parse_scenario(content: str | bytes, file: str, folder: Path, seed: int = 0) -> Scenario:
    """The same for the content of a file; paths in it are relative to the folder."""
    documents = parse_documents(content, file)
    report = Report(file, read_file=partial(_read_beside, folder))
    if len(documents) > 1:
        ConfigNode(documents[1], report).error("more than one document: write one scenario in a file")
    scenario = _Parser(ConfigNode(documents[0], report), folder, seed).scenario()
    report.finish()
    return scenario


def _read_beside(folder: Path, name: str) -> tuple[str, bytes]:
    path = folder / name
    try:
        return str(path), path.read_bytes()
    except ValueError:  # a path with a null character
        raise OSError("no valid path") from None


class _Period(Struct, frozen=True):
    """When the scenario takes place, and in which steps."""

    timeline: Timeline
    duration: float
    step: float
    warm_up: float


class _Parser:
    """One file; `under` is the scenario that this one is built on, empty if there is none."""

    def __init__(self, root: ConfigNode, folder: Path, seed: int) -> None:
        self.fields = fields = Fields(root, SCENARIO_FIELDS)
        self.file = root.report.file
        _check_kind(fields)
        given = [(key, load) for key, load in FOUNDATIONS.items() if key in fields]
        for key, _ in given[1:]:
            fields.at(key).error(f"is there beside {given[0][0]}: remove one of the two")
        loaded = [load(fields.at(key), folder, seed) for key, load in given]
        self.built_on = given[0][0] if given else ""
        self.failed = None in loaded
        self.under = next((each for each in loaded if each is not None), _EMPTY)

    def scenario(self) -> Scenario:
        fields, under = self.fields, self.under
        period = self._period()
        nodes = self._nodes(period.timeline)
        joins = {each.node.name: each.joins for each in nodes}
        workloads = self._workloads(period.timeline)
        metrics = fields.get(
            "metrics", lambda node: parse_metrics(node, period.timeline, joins, under.metrics), under.metrics
        )
        events, failovers = parse_events(fields.items("events"), period.timeline, joins)
        return Scenario(
            fields.get("name", object_name, Path(self.file).stem),
            period.duration,
            nodes,
            workloads,
            under.pods,
            (*under.objects, *self._services()),
            " ".join(fields.get("description", ConfigNode.string, under.description).split()),
            period.timeline.begins,
            period.step,
            period.warm_up,
            metrics,
            (*under.node_events, *events),
            (*under.failovers, *failovers),
            fields.find("clusterAutoscaler", parse_cluster_autoscaler),
            fields.get("oomKills", ConfigNode.boolean, under.oom_kills),
            under.missing_kinds,
            under.notes,
        )

    def _period(self) -> _Period:
        fields, under = self.fields, self.under
        if "begins" in fields and self.built_on:
            fields.at("begins").error(f"a {self.built_on} has its own times: remove it")
        begins = fields.get("begins", time_of_day, under.begins)
        if begins >= DAY:
            fields.at("begins").error("must be on the first day: write a time before 24:00")
        if self.built_on:
            length = fields.get("duration", positive_duration, under.duration)
        else:
            length = fields.require("duration", positive_duration, 0.0, "write how long it lasts, such as 1h")
        step = fields.get("step", Timeline(ends=length or inf).interval, under.step)
        warm_up = fields.get("warmUp", duration, under.warm_up)
        if not self.failed:
            self._check_period(length, step, warm_up)
        known = length > 0 and not self.failed
        return _Period(Timeline(begins, begins + length) if known else Timeline(begins), length, step, warm_up)

    def _check_period(self, length: float, step: float, warm_up: float) -> None:
        fields, under = self.fields, self.under
        if length and not _divides(step, length):
            fields.at("step", "duration").error(
                f"the step {format_duration(step)} does not divide the duration {format_duration(length)}: "
                "write one that does"
            )
        if self.built_on and not _divides(step, under.step):
            fields.at("step").error(f"does not divide {format_duration(under.step)}, the step of the {self.built_on}")
        if self.built_on and length > under.duration:
            fields.at("duration").error(f"the {self.built_on} lasts {format_duration(under.duration)} only")
        if length and warm_up >= length:
            fields.at("warmUp", "duration").error(
                f"the warm-up of {format_duration(warm_up)} leaves nothing to measure"
            )

    def _nodes(self, timeline: Timeline) -> tuple[SimulatedNode, ...]:
        found = parse_nodes(self.fields.at("nodes"), timeline) if "nodes" in self.fields else []
        if self.fields.is_mapping and not self.built_on and not self.fields.items("nodes"):
            self.fields.at("nodes").error("nodes is missing: a scenario needs at least one")
        taken = {each.node.name for each in self.under.nodes}
        for place, each in found:
            if each.node.name and each.node.name in taken:
                place.error(f"there is another node {each.node.name}: names must be unique")
            taken.add(each.node.name)
        return (*self.under.nodes, *(each for _, each in found))

    def _workloads(self, timeline: Timeline) -> tuple[Workload, ...]:
        context = WorkloadContext(timeline, PodReader())
        items = self.fields.items("workloads")
        found = [parse_workload(item, context) for item in items]
        first: dict[tuple[str, str], ConfigNode] = {}
        for item, each in zip(items, found, strict=True):
            other = first.setdefault((each.namespace, each.name), item)
            if each.name and other is not item:
                line = other.yaml.position[0]
                item.error(f"namespace {each.namespace} has a workload {each.name} already, in line {line}: rename one")
        return (*self.under.workloads, *found)

    def _services(self) -> tuple[Object, ...]:
        found: dict[str, Service] = {}
        for item in self.fields.items("services"):
            service = _service(Fields(item, SERVICE_FIELDS))
            if service.key in found or any(service.key == each.key for each in self.under.objects):
                item.error(f"there is another Service {service.key}: rename one")
            found[service.key] = service
        return tuple(found.values())


def _service(fields: Fields) -> Service:
    name = fields.require("name", object_name, "", "write a name")
    namespace = fields.get("namespace", object_name, NAMESPACE)
    chosen = fields.require("selector", labels, {}, "write the labels of its pods, such as {app: web}")
    if "selector" in fields and not chosen and fields.at("selector").entries() == {}:
        fields.at("selector").error("must not be empty: it would select nothing")
    return Service(
        name=name, uid=f"service/{namespace}/{name}", namespace=namespace, selector=label_map_selector(chosen)
    )


def _check_kind(fields: Fields) -> None:
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = fields.require(key, ConfigNode.string, expected, f"write {expected}")
        if found != expected:
            fields.at(key).error(f"{found[:100]!r} is not supported: write {expected}")


def _divides(step: float, length: float) -> bool:
    times = length / step
    return abs(times - round(times)) < 1e-6 and times >= 1
