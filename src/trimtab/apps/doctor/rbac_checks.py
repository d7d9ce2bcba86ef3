"""The permissions that a configuration needs, the file in deploy/ that grants each, and access reviews of them.

A review covers RBAC alone; admission is checked by the dry runs of `label_checks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from trimtab.apps.doctor.apiserver_checks import TIMEOUT, ApiServer
from trimtab.apps.doctor.finding import Area, Finding, ok, problem, warning
from trimtab.apps.process import LABELLER_IN_SCHEDULER, extra_watched_kinds
from trimtab.config.configuration import Configuration, LeaderElection
from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.core.model.instructions import (
    Bind,
    BindVolume,
    EmitEvent,
    GetPod,
    Instruction,
    LabelNode,
    Nominate,
    Preempt,
    SelectNode,
    SetUnschedulable,
)
from trimtab.kube.api_calls import required_rules
from trimtab.kube.kinds import UnknownKind
from trimtab.kube.transport import Unreachable
from trimtab.wire.decoding import decode_part, read_status
from trimtab.wire.requests import Request, json_request

ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1"
SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SCHEDULER_ACCOUNT = "system:serviceaccount:trimtab:trimtab"
LABELLER_ACCOUNT = "system:serviceaccount:trimtab:trimtab-labeller"
SERVICE_ACCOUNT = "system:serviceaccount:"
LEASES, METRICS = "coordination.k8s.io", "metrics.k8s.io"
APPLY_FILE = "apply deploy/{}"


class Permission(NamedTuple):
    """A verb on a resource (or a subresource: `pods/binding`), and the remedy if it is missing."""

    verb: str
    resource: str
    remedy: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def target(self) -> str:
        """What the verb applies to."""
        group, name = (f".{self.group}" if self.group else ""), (f" {self.name}" if self.name else "")
        return f"{self.resource}{group}{name}" + (f" in {self.namespace}" if self.namespace else "")


class ReviewResult(NamedTuple):
    """A permission and the server's answer: allowed, denied, or None if it does not say, and why."""

    permission: Permission
    allowed: bool | None
    reason: str = ""


class _ReviewStatus(Struct, frozen=True):
    allowed: bool = False


class _Review(Struct, frozen=True):
    status: _ReviewStatus | None = None


class _User(Struct, frozen=True):
    username: str = ""


class _SelfStatus(Struct, frozen=True, rename={"user": "userInfo"}):
    user: _User = _User()


class _SelfReview(Struct, frozen=True):
    status: _SelfStatus = _SelfStatus()


def required(configuration: Configuration) -> Iterator[Permission]:
    """All permissions that a process with this configuration uses."""
    settings, schedules = configuration.settings, bool(configuration.settings.profiles)
    basic = APPLY_FILE.format("rbac.yaml" if schedules else "labeller.yaml")
    core = [kind for kind in ("pods", "nodes") if kind in settings.kinds]
    yield from (Permission(verb, kind, basic) for kind in core for verb in ("list", "watch"))
    yield from _scheduling(configuration, basic) if schedules else ()
    if settings.labels is not None and settings.labels.apply:
        yield from _for_instructions(f"apply {LABELLER_IN_SCHEDULER}" if schedules else basic, LabelNode)
    if any(isinstance(source, MetricsServerSettings) for source in configuration.trimtab.sources):
        remedy = APPLY_FILE.format("rbac-metrics.yaml")
        yield from (Permission("list", kind, remedy, METRICS) for kind in ("nodes", "pods"))
    if configuration.leader_election.enabled:
        yield from _leader_election(configuration.leader_election, basic)


def _scheduling(configuration: Configuration, basic: str) -> Iterator[Permission]:
    yield from _for_instructions(basic, GetPod, Bind, SetUnschedulable, Nominate, EmitEvent)
    profiles, remedies = configuration.settings.profiles, dict[str, str]()
    for kind in extra_watched_kinds(configuration.settings):
        remedies[kind.name] = kind.remedy
        group, resource = _group_and_resource(kind.path)
        yield from (Permission(verb, resource, kind.remedy, group) for verb in ("list", "watch"))
    if "poddisruptionbudgets" in remedies and any(profile.post_filters for profile in profiles):
        yield from _for_instructions(remedies["poddisruptionbudgets"], Preempt)
    if any(profile.pre_binds for profile in profiles):
        for kind_name, instruction in (("persistentvolumeclaims", SelectNode), ("persistentvolumes", BindVolume)):
            if kind_name in remedies:
                yield from _for_instructions(remedies[kind_name], instruction)


def _for_instructions(remedy: str, *instructions: type[Instruction]) -> Iterator[Permission]:
    return (Permission(rule.verb, rule.resource, remedy, rule.group) for rule in required_rules(*instructions))


def _unique(permissions: Iterable[Permission]) -> tuple[Permission, ...]:
    """Each once, with its first remedy."""
    found: dict[Permission, Permission] = {}
    for permission in permissions:
        found.setdefault(permission._replace(remedy=""), permission)
    return tuple(found.values())


def _group_and_resource(path: str) -> tuple[str, str]:
    """/api/v1/pods, /apis/apps/v1/replicasets: the group and the resource."""
    parts = path.split("/")
    return (parts[2] if parts[1] == "apis" else ""), parts[-1]


def _leader_election(leader: LeaderElection, basic: str) -> Iterator[Permission]:
    shipped = {("trimtab", "trimtab"), ("trimtab", "trimtab-labeller")}
    place = (leader.namespace, leader.name)
    if place == ("kube-system", "kube-scheduler"):
        remedy = APPLY_FILE.format("rbac-default-scheduler.yaml")
    else:
        remedy = basic if place in shipped else f"{basic} with the lease's namespace and name in its Role"
    yield Permission("create", "leases", remedy, LEASES, leader.namespace)
    yield from (Permission(verb, "leases", remedy, LEASES, leader.namespace, leader.name) for verb in ("get", "update"))


def account_of(configuration: Configuration) -> str:
    """The service account of the shipped roles for this configuration."""
    return SCHEDULER_ACCOUNT if configuration.settings.profiles else LABELLER_ACCOUNT


async def check_rbac(server: ApiServer, configuration: Configuration, account: str) -> tuple[Finding, ...]:
    """Review all permissions concurrently: those of the account, or our own if it is empty."""
    try:
        rights = _unique(required(configuration))
    except UnknownKind as error:
        return (problem(Area.RIGHTS, "kinds", str(error), "disable that plugin"),)
    asked, who = await asyncio.gather(
        asyncio.gather(*(_send_review(server, right, account) for right in rights)),
        whoami(server) if not account else _named(account),
    )
    return _findings(asked, who, account_of(configuration))


def _findings(results: list[ReviewResult], who: str, expected: str) -> tuple[Finding, ...]:
    missing, silent = (
        [each for each in results if each.allowed is False],
        [each for each in results if each.allowed is None],
    )
    verbs: dict[tuple[str, str], list[str]] = {}
    for right, _, _ in missing:
        verbs.setdefault((right.target, right.remedy), []).append(right.verb)
    found = [
        problem(Area.RIGHTS, what, f"{who} may not {', '.join(those)} them", remedy)
        for (what, remedy), those in verbs.items()
    ]
    if silent:
        message = f"{len(silent)} of {len(results)} cannot be reviewed: {silent[0].reason}"
        remedy = "allow access reviews: system:basic-user grants one's own, administrators may review others (--as)"
        found.append(warning(Area.RIGHTS, "reviews", message, remedy))
    if not missing and not silent:
        hint = "" if who.startswith(SERVICE_ACCOUNT) else f"check the account that runs it, too: --as {expected}"
        found.append(ok(Area.RIGHTS, who, f"has all {len(results)} permissions", hint))
    return tuple(found)


async def _send_review(server: ApiServer, permission: Permission, account: str) -> ReviewResult:
    try:
        answer = await server.transport.send(_review_request(permission, account), TIMEOUT)
    except Unreachable as error:
        return ReviewResult(permission, None, str(error))
    review = decode_part(answer.body, _Review, "", [])
    if answer.status != 201 or review is None or review.status is None:
        return ReviewResult(permission, None, f"{answer.status} {read_status(answer.body).message}")
    return ReviewResult(permission, review.status.allowed)


def _review_request(permission: Permission, account: str) -> Request:
    resource, _, part = permission.resource.partition("/")
    attributes = {"verb": permission.verb, "group": permission.group, "resource": resource, "subresource": part}
    attributes |= {"namespace": permission.namespace, "name": permission.name}
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    spec: dict[str, object] = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    if account:
        spec |= {"user": account, "groups": _groups(account)}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return json_request("POST", f"{ACCESS_REVIEWS}/{kind.lower()}s", body)


def _groups(account: str) -> list[str]:
    """The groups that the server gives a service account; a person's groups are not known."""
    if not account.startswith(SERVICE_ACCOUNT):
        return ["system:authenticated"]
    namespace = account.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


async def _named(account: str) -> str:
    return account


async def whoami(server: ApiServer) -> str:
    """Our user name, as the server sees it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await server.transport.send(json_request("POST", SELF_REVIEWS, body), TIMEOUT)
    except Unreachable:
        return "this account"
    found = decode_part(answer.body, _SelfReview, "", [])
    return (found.status.user.username if found is not None else "") or "this account"
