"""Checks from the API server's audit log whether a scheduler behaved correctly.

It shares no code with the product. The server writes the log, so it contains what happened, not what was intended; a final
consistent list covers what a crashed server could not log.

A request takes effect at some time between its arrival and its response, and changes by others are not known at once. So the
scheduler gets the benefit of the doubt: its own bind counts from the response, a terminated pod frees its resources on
arrival of the request, and changes by others count only after a lag. What is reported is certain.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, product
from typing import Any

from tests.live.node_accounting import (
    Document,
    Resources,
    insufficient,
    is_terminated,
    node_allocatable,
    pod_host_ports,
    requested_resources,
)

LAG = timedelta(seconds=2)
FORBIDDEN_CODES = (401, 403)
Grant = tuple[str, str, str]
BIND: Grant = ("create", "", "pods/binding")


@dataclass(frozen=True)
class Report:
    """The result; a scheduler behaved correctly if there are no violations."""

    violations: tuple[str, ...]
    bound: Mapping[str, str]  # pod UID → node, by the scheduler's own successful binds
    answers: Mapping[int, int]  # how often each status code answered a bind
    used: frozenset[Grant]  # (verb, API group, resource) of allowed requests
    unlogged: tuple[str, ...]  # our pods on a node without a logged bind, because of a crash


@dataclass(frozen=True)
class AuditedRequest:
    """One completed request of the audit log."""

    event: Document

    @property
    def user(self) -> str:
        """The user name."""
        name: str = self.event["user"]["username"]
        return name

    @property
    def grant(self) -> Grant:
        """As RBAC sees it: verb, API group, resource with its subresource."""
        target = self.event.get("objectRef", {})
        subresource = f"/{target['subresource']}" if target.get("subresource") else ""
        return self.event["verb"], target.get("apiGroup", ""), target.get("resource", "") + subresource

    @property
    def code(self) -> int:
        """The status code of the response."""
        code: int = self.event.get("responseStatus", {}).get("code", 0)
        return code

    @property
    def took_effect(self) -> bool:
        """Whether it changed something."""
        return 200 <= self.code < 300 and "dryRun=" not in self.event["requestURI"]

    @property
    def arrived(self) -> datetime:
        """When the server received the request."""
        return datetime.fromisoformat(self.event["requestReceivedTimestamp"])

    @property
    def answered(self) -> datetime:
        """When the server sent the response."""
        return datetime.fromisoformat(self.event["stageTimestamp"])

    @property
    def is_bind(self) -> bool:
        """Whether it is a bind with a body; one rejected by authorization has none."""
        return self.grant == BIND and "requestObject" in self.event

    @property
    def uid(self) -> str:
        """The UID precondition of a bind, if any."""
        uid: str = self.event["requestObject"]["metadata"].get("uid", "")
        return uid

    @property
    def target(self) -> str:
        """The node of a bind."""
        node: str = self.event["requestObject"]["target"]["name"]
        return node

    def results(self, kind: str) -> Iterator[Document]:
        """The objects of this kind in the response."""
        answer: Any = self.event.get("responseObject") or {}
        found = answer.get("items", ()) if answer.get("kind") == f"{kind}List" else [answer]
        return (each for each in found if each.get("kind", kind) == kind and each.get("metadata", {}).get("uid"))


@dataclass
class PodRecord:
    """What the log says about one pod."""

    pod: Document
    gated: bool = False
    free_from: datetime | None = None  # arrival of the first request that left it without scheduling gates
    deleted: datetime | None = None  # response to the first request that deleted it
    terminated: datetime | None = None  # arrival of the request that released its resources
    placed: datetime | None = None  # response to the request that bound it
    node: str = ""
    ours: bool = False


@dataclass(frozen=True)
class NodeRecord:
    """A node's allocatable, from the arrival of the request until the response to the next one; None once deleted."""

    arrived: datetime
    answered: datetime
    allocatable: Resources | None


@dataclass
class AuditState:
    """Everything that the log says, by pod and node."""

    user: str
    schedulers: frozenset[str]
    pods: dict[str, PodRecord] = field(default_factory=dict)
    nodes: dict[str, list[NodeRecord]] = field(default_factory=lambda: defaultdict(list))
    violations: list[str] = field(default_factory=list)


def check_audit(
    events: Sequence[Document],
    pods: Iterable[Document],
    nodes: Iterable[Document],
    user: str,
    schedulers: Iterable[str],
) -> Report:
    """Check the requests of the user, for pods with these scheduler names."""
    requests = sorted(
        (AuditedRequest(each) for each in events if each["stage"] == "ResponseComplete"),
        key=lambda request: request.answered,
    )
    final = list(pods)
    state = AuditState(user, frozenset(schedulers))
    for request in requests:
        record_request(state, request)
    for pod in final:
        state.pods.setdefault(pod["metadata"]["uid"], PodRecord(pod))
    record_foreign_binds(state, requests)
    own = [request for request in requests if request.user == user]
    answers = Counter(request.code for request in own if request.grant == BIND)
    state.violations += (
        f"refused with {request.code}: {' '.join(request.grant)}" for request in own if request.code in FORBIDDEN_CODES
    )
    bound = check_binds(state, [request for request in own if request.is_bind])
    check_room(state)
    unlogged = check_end(state, final, {node["metadata"]["name"]: node_allocatable(node) for node in nodes}, bound)
    started = (AuditedRequest(each) for each in events if each["user"]["username"] == user)
    used = frozenset(request.grant for request in started if request.code not in FORBIDDEN_CODES)
    return Report(tuple(state.violations), bound, answers, used, unlogged)


def record_request(state: AuditState, request: AuditedRequest) -> None:
    """Record the pods and nodes in the response to a request."""
    if not request.took_effect or request.grant[1]:
        return
    for pod in request.results("Pod"):
        record_pod(state.pods.setdefault(pod["metadata"]["uid"], PodRecord(pod)), pod, request)
    for node in request.results("Node"):
        room = None if request.grant[0].startswith("delete") else node_allocatable(node)
        state.nodes[node["metadata"]["name"]].append(NodeRecord(request.arrived, request.answered, room))


def record_pod(record: PodRecord, pod: Document, request: AuditedRequest) -> None:
    """Record one state of one pod."""
    meta, is_delete = pod["metadata"], request.grant[0].startswith("delete")
    if pod["spec"].get("schedulingGates"):
        record.gated = True
    elif record.free_from is None:
        record.free_from = request.arrived
    if record.deleted is None and (is_delete or meta.get("deletionTimestamp")):
        record.deleted = request.answered
    if record.terminated is None and (is_terminated(pod) or (is_delete and not meta.get("deletionGracePeriodSeconds"))):
        record.terminated = request.arrived
    if record.placed is None and pod["spec"].get("nodeName") and request.grant[0] == "create":
        record.placed, record.node = request.answered, pod["spec"]["nodeName"]


def record_foreign_binds(state: AuditState, requests: Iterable[AuditedRequest]) -> None:
    """Record binds by others; after all pods are known, because a bind may be answered before the create."""
    for request in requests:
        record = state.pods.get(request.uid) if request.is_bind else None
        if record and request.took_effect and request.user != state.user:
            record.placed, record.node = request.answered, request.target


def check_binds(state: AuditState, binds: Iterable[AuditedRequest]) -> dict[str, str]:
    """Each bind: of one of our pods, by UID, once, neither gated nor deleted; returns UID → node."""
    bound: dict[str, str] = {}
    for request in binds:
        uid, node = request.uid, request.target
        state.violations += (f"bind of {name_of(request)} to {node}: {error}" for error in bind_errors(state, request))
        if request.took_effect:
            if uid in bound:
                state.violations.append(f"{name_of(request)} was bound twice: to {bound[uid]}, then to {node}")
            bound[uid] = node
            if record := state.pods.get(uid):
                record.placed, record.node, record.ours = request.answered, node, True
    return bound


def bind_errors(state: AuditState, request: AuditedRequest) -> Iterator[str]:
    """What is wrong with one bind; a failed attempt counts if only a faulty scheduler could make it."""
    record = state.pods.get(request.uid)
    if not request.uid:
        yield "without the pod's UID"
    elif record is None:
        yield f"no pod was ever seen with UID {request.uid}"
    else:
        if record.pod["spec"].get("schedulerName") not in state.schedulers:
            yield f"the pod belongs to scheduler {record.pod['spec'].get('schedulerName')}"
        if record.gated and (record.free_from is None or request.answered < record.free_from):
            yield "the pod was gated"
        if request.took_effect and record.deleted and record.deleted < request.arrived:
            yield "the pod was deleted"


def check_room(state: AuditState) -> None:
    """In order of time: at each of our binds, the node has room for the pod with all that are certainly there."""
    arrivals = [(known_from(record), record) for record in state.pods.values() if record.placed]
    residents: dict[str, list[PodRecord]] = defaultdict(list)
    for moment, record in sorted(arrivals, key=lambda arrival: arrival[0]):
        if record.ours:
            present = [
                each.pod for each in residents[record.node] if each.terminated is None or each.terminated > moment
            ]
            state.violations += (
                f"{label(record.pod)} on {record.node}: {why}" for why in why_no_room(state, record, moment, present)
            )
        residents[record.node].append(record)


def known_from(record: PodRecord) -> datetime:
    """From when the pod counts as being on its node."""
    assert record.placed
    return record.placed if record.ours else record.placed + LAG


def why_no_room(state: AuditState, record: PodRecord, moment: datetime, present: list[Document]) -> list[str]:
    """Why the pod should not have been bound there at that time."""
    room = offered_at(state.nodes.get(record.node, []), moment)
    return ["the node was not there"] if room is None else insufficient(record.pod, present, room)


def offered_at(states: list[NodeRecord], moment: datetime) -> Resources | None:
    """The maximum allocatable during the lag before this time; None if the node did not exist."""
    ends = [*(each.answered for each in states[1:]), moment][: len(states)]
    held = [each for each, end in zip(states, ends, strict=True) if each.arrived <= moment and end > moment - LAG]
    there = [each.allocatable for each in held if each.allocatable is not None]
    names = set(chain.from_iterable(there))
    return {name: max(room.get(name, 0) for room in there) for name in names} if there else None


def check_end(
    state: AuditState, pods: list[Document], nodes: Mapping[str, Resources], bound: Mapping[str, str]
) -> tuple[str, ...]:
    """The final list agrees with the log, and no node with our pods is over; returns pods that the log does not have."""
    residents = defaultdict(list)
    unlogged = []
    for pod in pods:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if uid in bound and bound[uid] != node:
            state.violations.append(f"{label(pod)} was bound to {bound[uid]} but is on {node or 'no node'}")
        if node and not state.pods[uid].node and pod["spec"].get("schedulerName") in state.schedulers:
            unlogged.append(label(pod))
        if node in nodes and not is_terminated(pod):
            residents[node].append(pod)
    for node, there in residents.items():
        own = [pod for pod in there if pod["spec"].get("schedulerName") in state.schedulers]
        state.violations += (
            f"at the end {node} is over: {why}" for why in insufficient_for_any(own, there, nodes[node])
        )
    return tuple(unlogged)


def insufficient_for_any(own: list[Document], there: list[Document], room: Resources) -> set[str]:
    """Why our pods do not fit; of pods that request the same resources only one is checked."""
    alike = {(frozenset(requested_resources(pod)), frozenset(pod_host_ports(pod))): pod for pod in own}
    return {
        why for pod in alike.values() for why in insufficient(pod, [each for each in there if each is not pod], room)
    }


def label(pod: Document) -> str:
    """namespace/name of the pod."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def name_of(request: AuditedRequest) -> str:
    """namespace/name of the object of the request."""
    return f"{request.event['objectRef']['namespace']}/{request.event['objectRef']['name']}"


def grants(documents: Iterable[Document]) -> frozenset[Grant]:
    """All permissions of the roles among these documents."""
    rules = chain.from_iterable(each.get("rules", ()) for each in documents if each["kind"] in ("Role", "ClusterRole"))
    allowed = (product(rule["verbs"], rule["apiGroups"], rule["resources"]) for rule in rules)
    return frozenset((verb, group, resource) for verb, group, resource in chain.from_iterable(allowed))
