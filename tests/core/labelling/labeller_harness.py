"""A stage for tests of labels: nodes, a meter that the test sets, one engine without profiles; judges nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec.structs import replace

from tests.core.engine_harness import node as plain_node
from trimtab.core.engine import Engine
from trimtab.core.load.pressure_rules import LabellingSettings, Rule
from trimtab.core.load.view import LoadView
from trimtab.core.model.events import Event, LabelDone, LeaseAcquired, NodeDeleted, NodeUpserted, Synced, Tick
from trimtab.core.model.instructions import Instruction, LabelNode
from trimtab.core.model.node import Node
from trimtab.core.model.taints import Taint
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.settings import Settings
from trimtab.core.tables import Floats

CPU_KEY, MEMORY_KEY = "pressure.trimtab.dev/cpu", "pressure.trimtab.dev/memory"
HOST = {"kubernetes.io/hostname": "any"}


def node(name: str, cpu: int = 4000, **fields: Any) -> Node:
    """A node with four cores and labels, of which none is ours."""
    return plain_node(name, cpu, **{"labels": HOST, **fields})


def cpu_rule(**fields: Any) -> Rule:
    """Marks above 80 % at once, and clears at 60 % after ten seconds."""
    given = {"threshold": 0.8, "clear": 0.6, "for_seconds": 0.0, "clear_for_seconds": 10.0, "label": (CPU_KEY, "high")}
    return Rule(**{"name": "cpu", "metric": "cpu", **given, **fields})


class Meter(LoadView):
    """What the test has set, by node and metric; nothing is known of the others."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.told: dict[tuple[str, str], float] = {}

    def latest(self, resource: str) -> Floats:
        nodes = self.engine.cluster.node_table.nodes
        return np.array([self.told.get((each.name, resource), math.nan) for each in nodes])

    def custom(self, name: str) -> Floats:
        return self.latest(name)

    def recent_mean(self, resource: str, seconds: float) -> Floats:
        return self.latest(f"{resource} over {seconds:g}")


class Labeller:
    """One engine, synced and leading, whose wishes are granted by the test."""

    def __init__(
        self, *rules: Rule, leads: bool = True, recorder: MetricsRecorder | None = None, **fields: Any
    ) -> None:
        self.labelling = LabellingSettings(rules, **{"apply": True, **fields})
        self.engine = Engine(Settings((), labels=self.labelling), recorder)
        self.meter = self.engine.cluster.load = Meter(self.engine)
        self.at, self.version = 1000.0, 0
        self.tells(Synced("nodes", self.at))
        if leads:
            self.tells(LeaseAcquired(1, self.at))

    def tells(self, *events: Event) -> list[LabelNode]:
        wishes: list[Instruction] = [wish for event in events for wish in self.engine.handle(event)]
        return [wish for wish in wishes if isinstance(wish, LabelNode)]

    def sees(self, *nodes: Node) -> None:
        for each in nodes:
            self.version += 1
            self.tells(NodeUpserted(replace(each, version=self.version), self.at))

    def loses(self, name: str) -> None:
        self.tells(NodeDeleted(name, self.at, self.known(name).uid))

    def known(self, name: str) -> Node:
        columns = self.engine.cluster.node_table
        return columns.nodes[columns.row[name]]

    def measures(self, metric: str, **values: float) -> None:
        self.meter.told.update({(name, metric): value for name, value in values.items()})

    def later(self, seconds: float = 0.5) -> list[LabelNode]:
        self.at += seconds
        return self.tells(Tick(self.at))

    def grants(self, *instructions: LabelNode) -> None:
        """As the API server would: it is done, and the watch shows it."""
        for wish in instructions:
            before = self.known(wish.node)
            labels = {**before.labels, **dict(wish.labels)}
            gone = {place for place, _ in wish.remove_taints}
            taints = tuple(each for place, each in enumerate(before.taints) if place not in gone)
            self.tells(LabelDone(wish.node, self.at))
            given = {key: value for key, value in labels.items() if value is not None}
            self.sees(replace(before, labels=given, taints=taints + wish.add_taints))

    def runs(self, seconds: float) -> list[LabelNode]:
        """Looks every half second, everything granted; all that was wished for."""
        found: list[LabelNode] = []
        for _ in range(round(seconds * 2)):
            wishes = self.later()
            self.grants(*wishes)
            found += wishes
        return found

    def label(self, name: str, key: str = CPU_KEY) -> str | None:
        return self.known(name).labels.get(key)

    def taints(self, name: str) -> tuple[Taint, ...]:
        return self.known(name).taints
