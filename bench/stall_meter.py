"""Measures the CPU time of each single step of the engine, as the event loop takes them: decode, handle, turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.decisions import PROFILE
from bench.large_objects import Case, Json, placed
from bench.workloads import ZONE, worker
from tools.controlplane.objects import pod
from trimtab.core.engine import Engine
from trimtab.core.model.events import BindDone, LeaseAcquired, Synced, Tick, Turn
from trimtab.core.model.instructions import Bind
from trimtab.core.settings import Settings
from trimtab.kube.kinds import WatchedKind, extra_kinds, node_kind, pod_kind
from trimtab.wire.decoding import Malformed
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.watch import decode_watch_event

TURN = 8


class StallMeter:
    """An engine with ordinary nodes and pods; `seconds` has the CPU time of each kind of step."""

    def __init__(self, nodes: int, running: int = 0, clock: Callable[[], float] = time.thread_time) -> None:
        self.nodes, self.clock, self.at, self.version = nodes, clock, 0.0, 1
        self.seconds: dict[str, float] = {}  # the longest of each kind of step
        self.created: dict[tuple[str, str], int] = {}  # version of each object by kind and name
        self.engine = Engine(Settings((PROFILE,)))
        kinds = self.engine.state.settings.kinds
        self.kinds: dict[str, WatchedKind[Any]] = {"Pod": pod_kind(PodReader()), "Node": node_kind(NodeReader())}
        for name in (*kinds[2:], "podgroups"):
            kind = extra_kinds(name, ["tests"])[0]
            self.kinds[kind.reader.kind] = kind
        for i in range(nodes):
            self.upsert(worker(i))
        for i in range(running):
            self.upsert(placed(pod(f"there-{i}", labels={"app": f"app-{i % 100}"}), f"node-{i % nodes:05d}"))
        for each in kinds:
            self.engine.handle(Synced(each, self.at))
        self.engine.handle(LeaseAcquired(1, self.at))
        self.seconds.clear()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = self.clock()
        yield
        self.seconds[name] = max(self.seconds.get(name, 0.0), self.clock() - started)

    def upsert(self, document: Json) -> list[Any]:
        """The object appears or changes, in two steps: it is decoded, and handled."""
        kind, line = self.kinds[document["kind"]], self._line("ADDED", document)
        with self.step(f"decode {document['kind']}"):
            found = decode_watch_event(line, kind.reader).object
        if isinstance(found, Malformed):
            return [found]
        with self.step(f"handle {document['kind']}"):
            return [*self.engine.handle(kind.upserted(found, self.at))]

    def delete(self, document: Json) -> None:
        kind, line = self.kinds[document["kind"]], self._line("DELETED", document)
        found = decode_watch_event(line, kind.reader).object
        if not isinstance(found, Malformed):
            with self.step(f"delete {document['kind']}"):
                self.engine.handle(kind.deleted(found, self.version, self.at))
        self.created.pop((document["kind"], document["metadata"]["name"]))

    def _line(self, change: str, document: Json) -> bytes:
        """The line of a watch."""
        self.version += 1
        created = self.created.setdefault((document["kind"], document["metadata"]["name"]), self.version)
        metadata = {
            **document["metadata"],
            "uid": f"{document['kind']}-{created}",
            "resourceVersion": str(self.version),
        }
        return json.dumps({"type": change, "object": {**document, "metadata": metadata}}).encode()

    def turns(self) -> list[Any]:
        """Everything that can be decided now; binds are answered at once."""
        outputs: list[Any] = []
        while self.engine.has_work():
            with self.step("turn"):
                decided = self.engine.handle(Turn(TURN, self.at))
            for each in decided:
                if isinstance(each, Bind):
                    self.engine.handle(BindDone(each.uid, each.node, self.at))
            outputs += decided
        return outputs

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        with self.step("tick"):
            self.engine.handle(Tick(self.at))

    def disturb(self) -> None:
        """What happens in any cluster: nodes are relabelled, tainted and added, pods come and go, time passes."""
        self.pass_time(20.0)
        label, more = worker(1), worker(self.nodes)
        label["metadata"]["labels"][ZONE] = "zone-9"
        self.upsert(label)
        self.turns()
        label["spec"]["taints"] = [{"key": "t", "effect": "NoSchedule"}]
        self.upsert(label)
        self.turns()
        self.upsert(more)
        self.turns()
        other = placed(pod("other", labels={"app": "other"}))
        self.upsert(other)
        self.turns()
        self.delete(other)
        self.turns()
        self.delete(more)
        self.turns()
        self.upsert(worker(1))
        self.turns()
        self.pass_time(400.0)
        self.turns()

    def run(self, case: Case) -> list[Any]:
        """The objects appear, are decided on and parked while other things happen, and are deleted; returns the outputs."""
        self.seconds.clear()
        outputs: list[Any] = []
        for document in case:
            outputs += self.upsert(document) + self.turns()
        self.disturb()
        for document in reversed(case):
            self.delete(document)
            self.turns()
        return outputs
