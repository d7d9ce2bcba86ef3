"""Decides from the API server's own audit log whether a scheduler behaved; leaves provoking it to the tests.

It shares no code with the product. The log is written by the server, so it holds what happened and not what was meant;
a final consistent list stands beside it, for what a crashed server could not write down.

A request takes effect somewhere between its arrival and its answer, and nobody learns of others' changes at once. So
the scheduler always gets the benefit of the doubt: its own bind counts from the answer on, a pod that leaves gives back
its room on arrival of the request, and what others took or withdrew counts only after a lag. What is reported is sure.
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
    """What the judge found; a scheduler behaved if there are no violations."""

    violations: tuple[str, ...]
    bound: Mapping[str, str]  # pod UID → node, by the scheduler's own successful binds
    answers: Mapping[int, int]  # how often each status code answered a bind
    used: frozenset[Grant]  # (verb, API group, resource), allowed ones only
    unlogged: tuple[str, ...]  # pods of ours on a node whose bind was answered to nobody: a crash hides them


@dataclass(frozen=True)
class AuditedRequest:
    """One answered request of the audit log."""

    event: Document

    @property
    def user(self) -> str:
        """Who asked."""
        name: str = self.event["user"]["username"]
        return name

    @property
    def grant(self) -> Grant:
        """What RBAC calls this: verb, API group, resource with its subresource."""
        target = self.event.get("objectRef", {})
        subresource = f"/{target['subresource']}" if target.get("subresource") else ""
        return self.event["verb"], target.get("apiGroup", ""), target.get("resource", "") + subresource

    @property
    def code(self) -> int:
        """The status answered with."""
        code: int = self.event.get("responseStatus", {}).get("code", 0)
        return code

    @property
    def took_effect(self) -> bool:
        """Whether it changed something."""
        return 200 <= self.code < 300 and "dryRun=" not in self.event["requestURI"]

    @property
    def arrived(self) -> datetime:
        """When the server got the request."""
        return datetime.fromisoformat(self.event["requestReceivedTimestamp"])

    @property
    def answered(self) -> datetime:
        """When the server had answered."""
        return datetime.fromisoformat(self.event["stageTimestamp"])

    @property
    def is_bind(self) -> bool:
        """Whether it asks to put a pod on a node, and was read so far; one turned away at the door tells no more."""
        return self.grant == BIND and "requestObject" in self.event

    @property
    def uid(self) -> str:
        """The UID that a bind insists on, if it does."""
        uid: str = self.event["requestObject"]["metadata"].get("uid", "")
        return uid

    @property
    def target(self) -> str:
        """The node that a bind names."""
        node: str = self.event["requestObject"]["target"]["name"]
        return node

    def results(self, kind: str) -> Iterator[Document]:
        """The objects of this kind that the server answered with, as they were afterwards."""
        answer: Any = self.event.get("responseObject") or {}
        found = answer.get("items", ()) if answer.get("kind") == f"{kind}List" else [answer]
        return (each for each in found if each.get("kind", kind) == kind and each.get("metadata", {}).get("uid"))


@dataclass
class PodRecord:
    """What the log tells of one pod."""

    pod: Document
    gated: bool = False
    free_from: datetime | None = None  # first request that left it without gates
    deleted: datetime | None = None  # answer to the first request that marked it deleted
    terminated: datetime | None = None  # arrival of the request that gave its room back
    placed: datetime | None = None  # answer to the request that put it on a node
    node: str = ""
    ours: bool = False


@dataclass(frozen=True)
class NodeRecord:
    """What a node offered, from the arrival of the request until the answer to the one after it; None once deleted."""

    arrived: datetime
    answered: datetime
    allocatable: Resources | None


@dataclass
class AuditState:
    """The evidence, put in order."""

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
    """Read the audit events and the final lists; the user's deeds are judged, for pods of these scheduler names."""
    deeds = sorted(
        (AuditedRequest(each) for each in events if each["stage"] == "ResponseComplete"), key=lambda deed: deed.answered
    )
    final = list(pods)
    case = AuditState(user, frozenset(schedulers))
    for deed in deeds:
        record_request(case, deed)
    for pod in final:
        case.pods.setdefault(pod["metadata"]["uid"], PodRecord(pod))
    record_foreign_binds(case, deeds)
    own = [deed for deed in deeds if deed.user == user]
    answers = Counter(deed.code for deed in own if deed.grant == BIND)
    case.violations += (
        f"refused with {deed.code}: {' '.join(deed.grant)}" for deed in own if deed.code in FORBIDDEN_CODES
    )
    bound = check_binds(case, [deed for deed in own if deed.is_bind])
    check_room(case)
    unlogged = check_end(case, final, {node["metadata"]["name"]: node_allocatable(node) for node in nodes}, bound)
    started = (AuditedRequest(each) for each in events if each["user"]["username"] == user)
    used = frozenset(deed.grant for deed in started if deed.code not in FORBIDDEN_CODES)
    return Report(tuple(case.violations), bound, answers, used, unlogged)


def record_request(case: AuditState, deed: AuditedRequest) -> None:
    """Take in what one deed tells of pods and nodes."""
    if not deed.took_effect or deed.grant[1]:
        return
    for pod in deed.results("Pod"):
        record_pod(case.pods.setdefault(pod["metadata"]["uid"], PodRecord(pod)), pod, deed)
    for node in deed.results("Node"):
        room = None if deed.grant[0].startswith("delete") else node_allocatable(node)
        case.nodes[node["metadata"]["name"]].append(NodeRecord(deed.arrived, deed.answered, room))


def record_pod(life: PodRecord, pod: Document, deed: AuditedRequest) -> None:
    """Take in one state of one pod."""
    meta, is_delete = pod["metadata"], deed.grant[0].startswith("delete")
    if pod["spec"].get("schedulingGates"):
        life.gated = True
    elif life.free_from is None:
        life.free_from = deed.arrived
    if life.deleted is None and (is_delete or meta.get("deletionTimestamp")):
        life.deleted = deed.answered
    if life.terminated is None and (is_terminated(pod) or (is_delete and not meta.get("deletionGracePeriodSeconds"))):
        life.terminated = deed.arrived
    if life.placed is None and pod["spec"].get("nodeName") and deed.grant[0] == "create":
        life.placed, life.node = deed.answered, pod["spec"]["nodeName"]


def record_foreign_binds(case: AuditState, deeds: Iterable[AuditedRequest]) -> None:
    """Take in where others put their pods; after all pods are known, for a bind may be answered before the create."""
    for deed in deeds:
        life = case.pods.get(deed.uid) if deed.is_bind else None
        if life and deed.took_effect and deed.user != case.user:
            life.placed, life.node = deed.answered, deed.target


def check_binds(case: AuditState, binds: Iterable[AuditedRequest]) -> dict[str, str]:
    """Each bind by itself: of a pod of ours, by UID, once, neither gated nor deleted; returns UID → node."""
    bound: dict[str, str] = {}
    for deed in binds:
        uid, node = deed.uid, deed.target
        case.violations += (f"bind of {name_of(deed)} to {node}: {fault}" for fault in bind_errors(case, deed))
        if deed.took_effect:
            if uid in bound:
                case.violations.append(f"{name_of(deed)} was bound twice: to {bound[uid]}, then to {node}")
            bound[uid] = node
            if life := case.pods.get(uid):
                life.placed, life.node, life.ours = deed.answered, node, True
    return bound


def bind_errors(case: AuditState, deed: AuditedRequest) -> Iterator[str]:
    """What is wrong with one bind. An attempt counts as a deed where only a scheduler in error could attempt it."""
    life = case.pods.get(deed.uid)
    if not deed.uid:
        yield "without the pod's UID"
    elif life is None:
        yield f"no pod was ever seen with UID {deed.uid}"
    else:
        if life.pod["spec"].get("schedulerName") not in case.schedulers:
            yield f"the pod belongs to scheduler {life.pod['spec'].get('schedulerName')}"
        if life.gated and (life.free_from is None or deed.answered < life.free_from):
            yield "the pod was gated"
        if deed.took_effect and life.deleted and life.deleted < deed.arrived:
            yield "the pod was deleted"


def check_room(case: AuditState) -> None:
    """In order of time: at every bind of ours, the node has room for the pod beside all that are certainly there."""
    arrivals = [(known_from(life), life) for life in case.pods.values() if life.placed]
    residents: dict[str, list[PodRecord]] = defaultdict(list)
    for moment, life in sorted(arrivals, key=lambda arrival: arrival[0]):
        if life.ours:
            present = [each.pod for each in residents[life.node] if each.terminated is None or each.terminated > moment]
            case.violations += (
                f"{label(life.pod)} on {life.node}: {why}" for why in why_no_room(case, life, moment, present)
            )
        residents[life.node].append(life)


def known_from(life: PodRecord) -> datetime:
    """From when on the pod counts as being on its node."""
    assert life.placed
    return life.placed if life.ours else life.placed + LAG


def why_no_room(case: AuditState, life: PodRecord, moment: datetime, present: list[Document]) -> list[str]:
    """Why the pod should not have been put there at that moment."""
    room = offered_at(case.nodes.get(life.node, []), moment)
    return ["the node was not there"] if room is None else insufficient(life.pod, present, room)


def offered_at(states: list[NodeRecord], moment: datetime) -> Resources | None:
    """The most of each resource that the node offered in the lag before the moment; None if it was not there at all."""
    ends = [*(each.answered for each in states[1:]), moment][: len(states)]
    held = [each for each, end in zip(states, ends, strict=True) if each.arrived <= moment and end > moment - LAG]
    there = [each.allocatable for each in held if each.allocatable is not None]
    names = set(chain.from_iterable(there))
    return {name: max(room.get(name, 0) for room in there) for name in names} if there else None


def check_end(
    case: AuditState, pods: list[Document], nodes: Mapping[str, Resources], bound: Mapping[str, str]
) -> tuple[str, ...]:
    """The final list agrees with the log and no node with a pod of ours is over; returns pods the log does not know."""
    residents = defaultdict(list)
    unlogged = []
    for pod in pods:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if uid in bound and bound[uid] != node:
            case.violations.append(f"{label(pod)} was bound to {bound[uid]} but is on {node or 'no node'}")
        if node and not case.pods[uid].node and pod["spec"].get("schedulerName") in case.schedulers:
            unlogged.append(label(pod))
        if node in nodes and not is_terminated(pod):
            residents[node].append(pod)
    for node, there in residents.items():
        own = [pod for pod in there if pod["spec"].get("schedulerName") in case.schedulers]
        case.violations += (
            f"at the end {node} is over: {why}" for why in insufficient_for_any(own, there, nodes[node])
        )
    return tuple(unlogged)


def insufficient_for_any(own: list[Document], there: list[Document], room: Resources) -> set[str]:
    """Why ours do not fit among those there; of pods that ask for the same resources one stands for all."""
    alike = {(frozenset(requested_resources(pod)), frozenset(pod_host_ports(pod))): pod for pod in own}
    return {
        why for pod in alike.values() for why in insufficient(pod, [each for each in there if each is not pod], room)
    }


def label(pod: Document) -> str:
    """The pod's namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def name_of(deed: AuditedRequest) -> str:
    """Namespace and name of what the deed is about."""
    return f"{deed.event['objectRef']['namespace']}/{deed.event['objectRef']['name']}"


def grants(documents: Iterable[Document]) -> frozenset[Grant]:
    """All that the roles among these documents allow."""
    rules = chain.from_iterable(each.get("rules", ()) for each in documents if each["kind"] in ("Role", "ClusterRole"))
    allowed = (product(rule["verbs"], rule["apiGroups"], rule["resources"]) for rule in rules)
    return frozenset((verb, group, resource) for verb, group, resource in chain.from_iterable(allowed))
