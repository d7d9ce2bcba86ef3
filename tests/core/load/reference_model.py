"""A reference model of expected usage: computed pod by pod from all events so far, slow and without arrays.

It follows the rules of docs/load.md and of the table in usage_accounting.py, and shares no code with the product. It accepts
valid readings only. Time does not pass while an event is handled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

FRESH, STALE, WHOLE, NEVER = 120.0, 300.0, 4000.0, -math.inf


@dataclass
class ModelSample:
    """One sample: value, timestamp of its source, window, source, and `measured`, at most when it was read."""

    value: float
    stamped: float
    window: float
    source: str
    measured: float


@dataclass
class ModelNode:
    after: float = NEVER
    sample: ModelSample | None = None


@dataclass
class ModelPod:
    name: str
    node: str
    asks: float
    since: float
    after: float
    leaving: float = math.nan
    sample: ModelSample | None = None
    wholes: list[float] = field(default_factory=list)


@dataclass
class ModelTerminated:
    node: ModelNode
    at: float
    shown: float


class ReferenceModel:
    """A cluster, by names and UIDs."""

    def __init__(self) -> None:
        self.now, self.failed = NEVER, set[str]()
        self.machines: dict[str, ModelNode] = {}
        self.pods: dict[str, ModelPod] = {}
        self.gone: list[ModelTerminated] = []
        self.last_node: dict[str, float] = {}
        self.last_pod: dict[str, float] = {}

    # --- what happens

    def add_node(self, name: str) -> None:
        self.machines[name] = ModelNode(self.last_node.get(name, NEVER))

    def remove_node(self, name: str) -> None:
        del self.machines[name]
        self.last_node[name] = self.now

    def add_pod(self, uid: str, name: str, node: str, asks: float, started: float | None) -> None:
        after = self.last_pod.get(name, NEVER)
        since = max(self.now if started is None else started, after)
        self.pods[uid] = ModelPod(name, node, asks, since, after)

    def remove_pod(self, uid: str) -> None:
        shown = self.in_node_sample(uid)
        pod = self.pods.pop(uid)
        self.last_pod[pod.name] = self.now
        if shown:
            self.gone.append(ModelTerminated(self.machines[pod.node], self.now, shown))

    def node_samples(self, values: dict[str, float], measured: float, window: float, source: str) -> None:
        self.failed.discard(source)
        for name, value in values.items():
            held, machine = self.trusted(name), self.machines[name]
            if measured > machine.after and not (held is not None and held.stamped >= measured):
                machine.sample = ModelSample(value, measured, window, source, min(measured, self.now))

    def pod_samples(self, values: dict[str, float], measured: float, window: float, source: str) -> None:
        self.failed.discard(source)
        for pod in self.pods.values():
            value = values.get(pod.name)
            if value is None or pod.node not in self.machines or measured < pod.since or measured - window <= pod.after:
                continue
            if pod.sample is None or pod.sample.source in self.failed or pod.sample.measured < measured:
                pod.sample = ModelSample(value, measured, window, source, measured)
                pod.wholes.append(value + (1.0 - window_fraction(measured - pod.since, window)) * min(pod.asks, WHOLE))

    # --- what follows

    def trusted(self, node: str) -> ModelSample | None:
        """The node's sample, if it is trusted."""
        sample = self.machines[node].sample if node in self.machines else None
        return sample if sample is not None and self._holds(sample, self.now - sample.measured <= STALE) else None

    def own_sample(self, pod: ModelPod) -> ModelSample | None:
        """The pod's sample, if it is trusted."""
        return pod.sample if pod.sample and self._holds(pod.sample, pod.sample.measured > self.now - STALE) else None

    def _holds(self, sample: ModelSample, young: bool) -> bool:
        return young and sample.source not in self.failed

    def has_pod_metrics(self, node: str) -> bool:
        """Whether the node's pods are measured, as far as they could be."""
        if not any(self.own_sample(pod) and pod.node in self.machines for pod in self.pods.values()):
            return False
        here, seen = self.pods_on(node), self.trusted(node)
        late = [pod for pod in here if not self.own_sample(pod) and seen and seen.measured - pod.since > STALE]
        return any(self.own_sample(pod) for pod in here) or not late

    def pods_on(self, node: str) -> list[ModelPod]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def sampled_fraction(self, pod: ModelPod) -> float | None:
        """How much of the pod its node's sample contains, None if the sample is older than the pod or not trusted."""
        seen, own = self.trusted(pod.node), self.own_sample(pod)
        if seen is None or seen.measured < pod.since:
            return None
        if own is not None:
            return window_fraction(own.measured - pod.since, own.window)
        waits = self.has_pod_metrics(pod.node) and seen.measured - pod.since <= STALE
        return 0.0 if waits else window_fraction(seen.measured - pod.since, seen.window)

    def estimated(self, pod: ModelPod) -> float:
        """A pod without a sample: its estimate, at most the node's sample."""
        seen, share = self.trusted(pod.node), self.sampled_fraction(pod)
        return 0.0 if seen is None or share is None or self.own_sample(pod) else min(share * pod.asks, seen.value)

    def terminated(self, node: str) -> float:
        """How much of the node's sample is due to removed pods."""
        seen, machine = self.trusted(node), self.machines[node]
        if seen is None:
            return 0.0
        return sum(each.shown * remaining_fraction(each.at, seen) for each in self.gone if each.node is machine)

    def in_node_sample(self, uid: str) -> float:
        pod = self.pods[uid]
        seen, own = self.trusted(pod.node), self.own_sample(pod)
        if seen is None or self.sampled_fraction(pod) is None:
            return 0.0
        if own is not None:
            return own.value
        here = self.pods_on(pod.node)
        theirs = sum(
            each.value
            for other in here
            if self.sampled_fraction(other) is not None and (each := self.own_sample(other))
        )
        room = max(seen.value - theirs - self.terminated(pod.node), 0.0)
        wanted = sum(map(self.estimated, here))
        return self.estimated(pod) * (room / wanted if wanted > room else 1.0)

    def expected(self, node: str) -> float:
        """The sample, minus leaving pods, but not below what the others were measured to use; plus unsampled pods."""
        seen = self.trusted(node)
        if seen is None:
            return math.nan
        off, stays, lack = self.terminated(node), 0.0, 0.0
        for uid, pod in self.pods.items():
            if pod.node != node:
                continue
            shown = self.in_node_sample(uid)
            if self.now <= pod.leaving + STALE:
                off += shown
                continue
            stays += shown if self.own_sample(pod) else 0.0
            share = self.sampled_fraction(pod)
            lack += self.hourly_mean(pod) if share is None else (1.0 - share) * pod.asks
        return seen.value - min(off, max(seen.value - stays, 0.0)) + lack

    def hourly_mean(self, pod: ModelPod) -> float:
        return sum(pod.wholes) / len(pod.wholes) if pod.wholes else pod.asks


def window_fraction(age: float, window: float) -> float:
    return min(max(age / window, 0.0), 1.0) if window else float(age > 0.0)


def remaining_fraction(left: float, seen: ModelSample) -> float:
    """A pod removed at the very moment of the sample is part of it."""
    reach = left - (seen.measured - seen.window)
    return min(max(reach / seen.window, 0.0), 1.0) if seen.window else float(reach >= 0.0)
