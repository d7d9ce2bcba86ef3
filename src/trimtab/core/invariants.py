"""Invariant checks of a running engine, slice by slice, so that none takes long; reports violations and repairs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from trimtab.core.cluster.invariants import CLUSTER_CHECKS, check_nodes, check_pods, node_names, pod_uids
from trimtab.core.engine import Engine
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState

PODS_PER_NODE = 16  # whose checks take as long as those of a node


class InvariantChecker:
    """Goes through an engine in rounds: first its nodes, then its pods, some in a slice, and then what concerns all."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._nodes: list[str] = []
        self._pods: list[str] = []
        self._checks: list[Callable[[], Iterable[str]]] = []

    def start_round(self) -> None:
        engine, cluster = self._engine, self._engine.cluster
        self._nodes, self._pods = node_names(cluster)[::-1], pod_uids(cluster)[::-1]
        self._checks = [lambda check=check: check(cluster) for check in CLUSTER_CHECKS]  # type: ignore[misc]
        self._checks.append(lambda: _check_binding_cycles(engine))

    @property
    def finished(self) -> bool:
        """Whether the round is complete."""
        return not self._nodes and not self._pods and not self._checks

    @property
    def sliced(self) -> bool:
        """Whether the next slice is as small as it is asked to be; what concerns all is checked in one."""
        return bool(self._nodes or self._pods)

    def check(self, nodes: int) -> list[str]:
        """One sentence for each violation in the next slice, of so many nodes or as much else."""
        if self._nodes:
            return check_nodes(self._engine.cluster, _take(self._nodes, nodes))
        if self._pods:
            uids = _take(self._pods, nodes * PODS_PER_NODE)
            return [*check_pods(self._engine.cluster, uids), *_check_pending(self._engine, uids)]
        return list(self._checks.pop()()) if self._checks else []


def check_scheduling(engine: Engine) -> list[str]:
    """No pending pod is lost, and every binding cycle holds its place."""
    return [*_check_pending(engine, list(engine.cluster.pods)), *_check_binding_cycles(engine)]


def _take(names: list[str], number: int) -> list[str]:
    taken = names[-number:]
    del names[-number:]
    return taken


def _scheduling(engine: Engine) -> Iterator[Scheduling]:
    return (each for each in engine.controllers if isinstance(each, Scheduling))


def _check_pending(engine: Engine, uids: Sequence[str]) -> Iterator[str]:
    for scheduling in _scheduling(engine):
        cycles, queued, pods = scheduling.bindings.by_uid, scheduling.queue.pods, engine.cluster.pods
        for uid in uids:
            pod, entry = pods.get(uid), queued.get(uid)
            if pod is None or not pod.pending or uid in cycles:
                continue
            lost = entry is None or entry.state is QueueState.POPPED
            if lost and engine.state.settings.profile_of(pod.scheduler_name) is not None:
                yield f"pod {uid} is pending, and neither in the queue nor in a binding cycle"


def _check_binding_cycles(engine: Engine) -> Iterator[str]:
    for scheduling in _scheduling(engine):
        for uid, cycle in scheduling.bindings.by_uid.items():
            placement = engine.cluster.placements.get(uid)
            if placement is None or placement.node != cycle.node:
                counts = "nowhere" if placement is None else f"on {placement.node}"
                yield f"pod {uid} is being bound to {cycle.node}, and counts {counts}"
