"""Checks from the API server's audit log whether a rescheduler behaved correctly; shares no code with the product.

- It never deletes a pod, and evicts only with the pod's UID.
- It evicts only pods that run and are ready, and none of an excluded namespace.
- In no window of the budget's length it evicts more pods than the budget has moves, over all processes of its account.
- It evicts no pods of one owner twice within the cool-down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from tests.live.audit_checker import AuditedRequest, Grant
from tests.live.node_accounting import Document

EVICT: Grant = ("create", "", "pods/eviction")
DELETE: Grant = ("delete", "", "pods")
EXCLUDED = ("kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class Eviction:
    """One that took effect."""

    at: datetime
    pod: str  # namespace/name
    uid: str
    owner: str


@dataclass(frozen=True)
class EvictionReport:
    """The rescheduler behaved correctly if there are no violations."""

    evictions: tuple[Eviction, ...]
    violations: tuple[str, ...]
    answers: tuple[int, ...]  # to all attempts


def check_evictions(
    events: Iterable[Document], account: str, moves: int, within: float, cooldown: float
) -> EvictionReport:
    """Everything that the account did; `moves` within so many seconds are allowed in the cluster."""
    requests = [AuditedRequest(each) for each in events]
    ours = [each for each in requests if each.user == account]
    attempts = [each for each in ours if each.grant == EVICT]
    pods = _PodHistory(requests)
    evictions = tuple(pods.eviction(each) for each in attempts if each.took_effect)
    violations = [f"deleted a pod: {each.event['requestURI']}" for each in ours if each.grant == DELETE]
    for attempt in attempts:
        violations += pods.mistakes(attempt)
    violations += _over_budget(evictions, moves, within)
    violations += _too_soon(evictions, cooldown)
    return EvictionReport(evictions, tuple(violations), tuple(each.code for each in attempts))


class _PodHistory:
    """What the audit log tells of each pod, by namespace and name, in the order of the answers."""

    def __init__(self, requests: Iterable[AuditedRequest]) -> None:
        self._known: dict[str, list[tuple[datetime, Document]]] = {}
        for request in requests:
            for pod in request.results("Pod"):
                if request.took_effect and "metadata" in pod and "spec" in pod:
                    key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                    self._known.setdefault(key, []).append((request.answered, pod))

    def at(self, key: str, time: datetime) -> Document:
        """The pod as it was before; of a log that begins later, an empty one."""
        return max(
            (each for each in self._known.get(key, ()) if each[0] <= time), key=lambda each: each[0], default=(time, {})
        )[1]

    def eviction(self, request: AuditedRequest) -> Eviction:
        key = _key(request)
        metadata = self.at(key, request.arrived).get("metadata", {})
        owner = next((each["uid"] for each in metadata.get("ownerReferences", ()) if each.get("controller")), key)
        return Eviction(request.arrived, key, _uid(request), owner)

    def mistakes(self, request: AuditedRequest) -> Iterator[str]:
        key = _key(request)
        if not _uid(request):
            yield f"evicted {key} without a UID"
        if key.partition("/")[0] in EXCLUDED:
            yield f"evicted {key} of an excluded namespace"
        pod = self.at(key, request.arrived)
        status = pod.get("status", {})
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        if pod and request.took_effect and (status.get("phase"), conditions.get("Ready")) != ("Running", "True"):
            yield f"evicted {key}, which was not running and ready"


def _key(request: AuditedRequest) -> str:
    target = request.event["objectRef"]
    return f"{target['namespace']}/{target['name']}"


def _uid(request: AuditedRequest) -> str:
    options = request.event.get("requestObject", {}).get("deleteOptions", {})
    uid: str = options.get("preconditions", {}).get("uid", "")
    return uid


def _over_budget(evictions: Iterable[Eviction], moves: int, within: float) -> Iterator[str]:
    times = sorted(each.at for each in evictions)
    for index, first in enumerate(times):
        count = sum(time < first + timedelta(seconds=within) for time in times[index:])
        if count > moves:
            yield f"{count} evictions within {within:.0f} s from {first:%H:%M:%S} on: {moves} are allowed"


def _too_soon(evictions: Iterable[Eviction], cooldown: float) -> Iterator[str]:
    for first, second in combinations(sorted(evictions, key=lambda each: each.at), 2):
        if first.owner == second.owner and second.at < first.at + timedelta(seconds=cooldown):
            yield f"evicted {second.pod} {(second.at - first.at).total_seconds():.0f} s after {first.pod} of the same owner"
