"""Replays the load of each place on the machines, and measures what happens: heat, moves, and pods that are not ready.

At each step the pods are listed. What a ready pod uses is reported by the machine of its node, so that Prometheus, and by it
both reschedulers, see the load where the pods really run. Heat is measured from the same numbers, not from Prometheus. A
pod that is ready before the one that it replaces has left takes over the load when that one leaves.

    replay = Replay(cluster, workload, "turn-1", first)
    replay.run(-300, 0)                 # without measuring
    replay.run(0, 3600, note)           # measures; `note` is called every few minutes
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bench.move.cluster import MoveCluster, application_of, is_ready
from bench.move.workload import CORES, Place, Workload
from tools.controlplane.client import Document, Documents
from trimtab.core.model.duration import MINUTE

HOT = 0.8  # of a node's CPU
STEP_SECONDS = 0.5  # of real time
NOTE_MINUTES = 5


@dataclass
class Measures:
    """Of one turn, in simulated time."""

    hot_node_seconds: float = 0.0
    lost_pod_seconds: float = 0.0
    moved: Counter[Place] = field(default_factory=Counter)  # pods that left their place, for whatever reason
    hot_now: int = 0
    minute: float = 0.0


@dataclass
class Standing:
    """A pod that holds a place."""

    name: str
    place: Place
    node: str


@dataclass
class Replay:
    """The load of one turn."""

    cluster: MoveCluster
    workload: Workload
    namespace: str
    place_of: dict[str, Place]  # by pod name, also of pods that are gone
    measures: Measures = field(default_factory=Measures)
    _standing: dict[str, Standing] = field(default_factory=dict)  # by UID

    def run(self, begins: float, ends: float, note: Callable[[Measures], None] | None = None) -> None:
        """Replay from one simulated second to another; with `note` it is measured."""
        origin, last, noted = time.monotonic(), begins, begins
        while last < ends:
            time.sleep(STEP_SECONDS)
            now = min(begins + (time.monotonic() - origin) * self.cluster.scale.speed, ends)
            self.step(self.cluster.pods(self.namespace), now, 0.0 if note is None else now - last)
            if note is not None and (now >= noted + NOTE_MINUTES * MINUTE or now == ends):
                note(self.measures)
                noted = now
            last = now

    def step(self, pods: Documents, now: float, seconds: float) -> None:
        """Report the load of these pods at a simulated time, and measure as many seconds of it."""
        used = self._replay(pods, now)
        ready = Counter(application_of(pod) for pod in pods if is_ready(pod))
        missing = sum(max(each.replicas - ready[each.name], 0) for each in self.workload.applications)
        self.measures.hot_now = sum(cores > HOT * CORES for cores in used.values())
        self.measures.hot_node_seconds += self.measures.hot_now * seconds
        self.measures.lost_pod_seconds += missing * seconds
        self.measures.minute = now / MINUTE

    def end(self) -> None:
        """The machines are idle again."""
        for each in self._standing.values():
            self.cluster.machines.end(each.node, self.namespace, each.name)
        self._standing.clear()

    def evictions(self, until: float) -> int:
        """How many pods were evicted until this time, by the API server's audit log."""
        events = self.cluster.rig.audit_events()
        return sum(is_eviction(event, self.namespace) and received_at(event) <= until for event in events)

    def _replay(self, pods: Documents, now: float) -> Mapping[str, float]:
        """Report what every ready pod uses; the cores used on each node."""
        self._forget_departed(pods)
        used: defaultdict[str, float] = defaultdict(float)
        for pod in (each for each in pods if is_ready(each)):
            standing = self._standing_of(pod)
            if standing is None:
                continue
            cores = self.workload.cores(standing.place, now)
            memory = self.workload.bytes_used(standing.place)
            self.cluster.machines.run(standing.node, self.namespace, standing.name, cpu=cores, memory=memory)
            used[standing.node] += cores
        return used

    def _forget_departed(self, pods: Documents) -> None:
        """The places of pods that are gone, or are leaving, are free for their replacements."""
        staying = {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        for uid in self._standing.keys() - staying:
            gone = self._standing.pop(uid)
            self.measures.moved[gone.place] += 1
            self.cluster.machines.end(gone.node, self.namespace, gone.name)

    def _standing_of(self, pod: Document) -> Standing | None:
        """The pod at its place; a new one takes a free place of its Deployment, and has no load while there is none."""
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if uid not in self._standing:
            place = self.place_of.get(name) or self._free_place(application_of(pod))
            if place is None:
                return None
            self.place_of[name] = place
            self._standing[uid] = Standing(name, place, pod["spec"]["nodeName"])
        return self._standing[uid]

    def _free_place(self, application: str) -> Place | None:
        taken = {each.place for each in self._standing.values()}
        free = (place for place in self.workload.places if place[0] == application and place not in taken)
        return next(free, None)


def is_eviction(event: Document, namespace: str) -> bool:
    """Whether an audit event says that a pod in this namespace was evicted; a dry run evicts nothing."""
    about = event.get("objectRef", {})
    if (about.get("resource"), about.get("subresource"), about.get("namespace")) != ("pods", "eviction", namespace):
        return False
    failed = event.get("responseStatus", {}).get("code", 0) >= 300
    return not failed and event.get("verb") == "create" and "dryRun=" not in event.get("requestURI", "")


def received_at(event: Document) -> float:
    """When the API server got the request, in seconds since 1970."""
    return datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
