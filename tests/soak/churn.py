"""A day of a busy cluster in minutes: pods come, are bound and go, nodes come and go, settings change.

Everything that a live process keeps in memory is real: decoding, stores, engine, the queues of API calls and Events, metrics.
Only the API server is an object in the same process, which accepts whatever is written.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from trimtab.apps.clock import Clock
from trimtab.apps.logging_recorder import LoggingRecorder
from trimtab.apps.replay import read_settings
from trimtab.apps.runtime import Runtime
from trimtab.core.engine import Engine
from trimtab.core.model.events import ConfigText, LeaseAcquired, SamplesRead, SettingsRead, Synced
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.settings import Settings
from trimtab.kube.api_calls import ApiCalls
from trimtab.kube.kinds import WatchedKind, node_kind, pod_kind
from trimtab.kube.store import Store
from trimtab.kube.transport import Response
from trimtab.kube.transport.contract import allow
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import Request
from trimtab.wire.watch import decode_watch_event

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: {backoff}
profiles:
- schedulerName: trimtab
"""
WAVE = 100  # pods that live at the same time
WAVES_PER_ROLLOUT = 5  # of pods with the same templates
WARM_UP = 20_000  # pods after which histories of a fixed length are full: decisions, deleted names, tombstones
NODES = 50
SUCCESS = json.dumps({"kind": "Status", "status": "Success"}).encode()
Json = dict[str, Any]


def resident_mib() -> float:
    """The memory of this process, after a collection of garbage."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def settings(backoff: int) -> Settings:
    """As a changed file gives them: every profile and plugin is made anew."""
    return read_settings(ConfigText("churn.yaml", CONFIG.format(backoff=backoff).encode()), ("scheduler",))


class AcceptingServer:
    """A transport whose server accepts every write, and notes binds: the node's name by the pod's."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}

    async def send(
        self, request: Request, timeout: float, max_bytes: int = 0, may_send: Callable[[], bool] = allow
    ) -> Response:
        if request.path.endswith("/binding"):
            self.bound[request.path.split("/")[-2]] = json.loads(request.body)["target"]["name"]
        return Response(201 if request.method == "POST" else 200, {}, SUCCESS)

    async def close(self) -> None:
        pass


class Churn:
    """One process and its cluster."""

    def __init__(self) -> None:
        self.random, self.server, self.version = Random(1), AcceptingServer(), 1
        self.clock = Clock()
        self.engine = Engine(settings(1), LoggingRecorder())
        self.runtime = Runtime(self.engine, lambda each: self.calls.submit(each), self.clock)
        reader = PodReader()
        self.calls = ApiCalls(
            self.server,  # type: ignore[arg-type]
            sink=self.runtime.dispatch,
            may_write=lambda: True,
            clock=self.clock,
            random=self.random,
            reader=reader,
            instance="churn",
            wall=self.clock.wall,
        )
        kinds: tuple[WatchedKind[Any], ...] = (pod_kind(reader), node_kind(NodeReader()))
        self.stores = {kind.name: (kind, Store(kind)) for kind in kinds}
        self.nodes: list[Json] = []
        self.scheduled = 0

    async def run(self, pods: int, flaps: int, reloads: int) -> list[float]:
        """The resident memory after each tenth, of a process that has been at work before."""
        tasks = [asyncio.create_task(each) for each in (self.calls.run(), self.runtime.run())]
        for kind in self.engine.state.settings.kinds:
            self.runtime.dispatch(Synced(kind, self.clock()))
        self.runtime.dispatch(LeaseAcquired(1, self.clock()))
        for number in range(NODES):
            self._add_node(number)
        waves, measured = pods // WAVE, list[float]()
        for wave in range(WARM_UP // WAVE):
            await self._wave(wave - WARM_UP // WAVE)
        for wave in range(waves):
            for flap in range(wave * flaps // waves, (wave + 1) * flaps // waves):
                self._remove_node()
                self._add_node(NODES + flap)
            for reload in range(wave * reloads // waves, (wave + 1) * reloads // waves):
                self.runtime.dispatch(SettingsRead(settings(1 + reload % 2), self.clock()))
            await self._wave(wave)
            if (wave + 1) % (waves // 10) == 0:
                measured.append(resident_mib())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return measured

    async def _wave(self, wave: int) -> None:
        """Pods of two Deployments are created, bound, measured and deleted."""
        documents = list(self._pods(wave))
        for each in documents:
            self._tell("pods", "ADDED", each)
        waiting = {each["metadata"]["name"]: each for each in documents}
        async with asyncio.timeout(120.0):
            while waiting or not self.calls.idle:
                await asyncio.sleep(0.001)
                for name in [*self.server.bound]:
                    self._start(waiting.pop(name), self.server.bound.pop(name))
        self._measure(documents)
        for each in documents:
            self._tell("pods", "DELETED", each)
        self.scheduled += len(documents)

    def _start(self, pod: Json, node: str) -> None:
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        self._tell("pods", "MODIFIED", pod)

    def _pods(self, wave: int) -> Iterator[Json]:
        for number in range(WAVE):
            rollout = wave // WAVES_PER_ROLLOUT
            owner = f"web-{rollout}-{number % 2}"
            spread = {
                "maxSkew": 5,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": owner}},
            }
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"o-{owner}"}
            yield {
                "kind": "Pod",
                "metadata": {
                    "name": f"{owner}-{wave % WAVES_PER_ROLLOUT}{number:05d}",
                    "namespace": f"team-{wave % 20}",
                    "uid": f"{wave:08d}-{number:04d}-4000-8000-000000000000",
                    "labels": {"app": owner, "pod-template-hash": f"{rollout:010d}"},
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "ownerReferences": [{**reference, "controller": True}],
                },
                "spec": {
                    "schedulerName": "trimtab",
                    "containers": [
                        {"name": "main", "image": f"web:{rollout}", "resources": {"requests": {"cpu": "100m"}}}
                    ],
                    "topologySpreadConstraints": [spread],
                },
                "status": {"phase": "Pending"},
            }

    def _measure(self, pods: list[Json]) -> None:
        at = self.clock.wall()
        names = tuple(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in pods)
        nodes = tuple(each["metadata"]["name"] for each in self.nodes)
        readings = (
            Reading("nodes", "cpu", nodes, (1500.0,) * len(nodes), (at,) * len(nodes)),
            Reading("pods", "cpu", names, (90.0,) * len(names), (at,) * len(names), Subject.PODS),
        )
        self.runtime.dispatch(SamplesRead(readings, self.clock()))

    def _add_node(self, number: int) -> None:
        room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        document = {
            "kind": "Node",
            "metadata": {
                "name": f"node-{number}",
                "uid": f"node-uid-{number}",
                "labels": {"zone": f"zone-{number % 3}", "kubernetes.io/hostname": f"node-{number}"},
            },
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.nodes.append(document)
        self._tell("nodes", "ADDED", document)

    def _remove_node(self) -> None:
        self._tell("nodes", "DELETED", self.nodes.pop(self.random.randrange(len(self.nodes))))

    def _tell(self, kind: str, change: str, document: Json) -> None:
        """As the watch does."""
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        watched, store = self.stores[kind]
        line = decode_watch_event(json.dumps({"type": change, "object": document}).encode(), watched.reader)
        event = store.apply(line, self.clock())
        if event is not None:
            self.runtime.dispatch(event)
