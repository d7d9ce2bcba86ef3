"""Decides which rights a configuration needs, which file in deploy/ grants each, and which of them are missing.

Only reviews are asked for, by which the API server says what it would allow; whether admission lets it pass is tried by
`trying`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from trimtab.apps.doctor.finding import Area, Finding, problem, warning, well
from trimtab.apps.doctor.server import PATIENCE, Named
from trimtab.apps.scheduler import looked_at
from trimtab.config.configuration import Configuration, LeaderElection
from trimtab.config.own.settings import MetricsServerSettings
from trimtab.kube.kinds import Unknown
from trimtab.kube.transport import Unreachable
from trimtab.wire.fault import read_part
from trimtab.wire.request import Request, sent
from trimtab.wire.status import read_status

REVIEWS = "/apis/authorization.k8s.io/v1"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCOUNT = "system:serviceaccount:trimtab:trimtab"
LABELLER = "system:serviceaccount:trimtab:trimtab-labeller"
SERVICE_ACCOUNT = "system:serviceaccount:"
EVENTS, LEASES, METRICS = "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"
GRANTED = "apply deploy/{}"


class Right(NamedTuple):
    """A verb on a kind (`pods/binding` for a part of it), and what to do where it is missing."""

    verb: str
    resource: str
    remedy: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def what(self) -> str:
        """Whatever the verb is for."""
        group, name = (f".{self.group}" if self.group else ""), (f" {self.name}" if self.name else "")
        return f"{self.resource}{group}{name}" + (f" in {self.namespace}" if self.namespace else "")


class Asked(NamedTuple):
    """A right and what the server says of it: None where it does not say, for the reason beside."""

    right: Right
    allowed: bool | None
    reason: str = ""


class _Verdict(Struct, frozen=True):
    allowed: bool = False


class _Review(Struct, frozen=True):
    status: _Verdict | None = None


class _User(Struct, frozen=True):
    username: str = ""


class _Who(Struct, frozen=True, rename={"user": "userInfo"}):
    user: _User = _User()


class _Self(Struct, frozen=True):
    status: _Who = _Who()


def needed(configuration: Configuration) -> Iterator[Right]:
    """All that is asked of the API server with this configuration; without profiles it is the labeller's."""
    settings, places = configuration.settings, bool(configuration.settings.profiles)
    basic = GRANTED.format("rbac.yaml" if places else "labeller.yaml")
    plain = [kind for kind in ("pods", "nodes") if kind in settings.kinds]
    yield from (Right(verb, kind, basic) for kind in plain for verb in ("list", "watch"))
    yield from _placing(configuration, basic) if places else ()
    if settings.labels is not None and settings.labels.apply and not places:
        yield Right("patch", "nodes", basic)
    if any(isinstance(source, MetricsServerSettings) for source in configuration.own.sources):
        remedy = GRANTED.format("rbac-metrics.yaml")
        yield from (Right("list", kind, remedy, METRICS) for kind in ("nodes", "pods"))
    if configuration.leader.enabled:
        yield from _leading(configuration.leader, basic)


def _placing(configuration: Configuration, basic: str) -> Iterator[Right]:
    yield Right("get", "pods", basic)
    yield Right("create", "pods/binding", basic)
    yield Right("patch", "pods/status", basic)
    yield from (Right(verb, "events", basic, EVENTS) for verb in ("create", "patch"))
    profiles, remedies = configuration.settings.profiles, dict[str, str]()
    for kind in looked_at(configuration.settings):
        remedies[kind.name] = kind.remedy
        group, resource = _home(kind.path)
        yield from (Right(verb, resource, kind.remedy, group) for verb in ("list", "watch"))
    if "poddisruptionbudgets" in remedies and any(profile.post_filters for profile in profiles):
        yield Right("delete", "pods", remedies["poddisruptionbudgets"])
    if any(profile.pre_binds for profile in profiles):
        for kind_name in ("persistentvolumeclaims", "persistentvolumes"):
            if kind_name in remedies:
                yield Right("patch", kind_name, remedies[kind_name])


def _home(path: str) -> tuple[str, str]:
    """/api/v1/pods, /apis/apps/v1/replicasets: the group and the resource."""
    parts = path.split("/")
    return (parts[2] if parts[1] == "apis" else ""), parts[-1]


def _leading(leader: LeaderElection, basic: str) -> Iterator[Right]:
    shipped = {("trimtab", "trimtab"), ("trimtab", "trimtab-labeller")}
    place = (leader.namespace, leader.name)
    if place == ("kube-system", "kube-scheduler"):
        remedy = GRANTED.format("rbac-default-scheduler.yaml")
    else:
        remedy = basic if place in shipped else f"{basic} with the lease's namespace and name in its Role"
    yield Right("create", "leases", remedy, LEASES, leader.namespace)
    yield from (Right(verb, "leases", remedy, LEASES, leader.namespace, leader.name) for verb in ("get", "update"))


async def check(server: Named, configuration: Configuration, account: str) -> tuple[Finding, ...]:
    """All rights at once, those of an account, or our own where none is named."""
    try:
        rights = tuple(dict.fromkeys(needed(configuration)))
    except Unknown as error:
        return (problem(Area.RIGHTS, "kinds", str(error), "disable that plugin"),)
    asked, who = await asyncio.gather(
        asyncio.gather(*(_ask(server, right, account) for right in rights)),
        who_asks(server) if not account else _named(account),
    )
    return _findings(asked, who, LABELLER if not configuration.settings.profiles else ACCOUNT)


def _findings(asked: list[Asked], who: str, expected: str) -> tuple[Finding, ...]:
    missing, silent = (
        [each for each in asked if each.allowed is False],
        [each for each in asked if each.allowed is None],
    )
    verbs: dict[tuple[str, str], list[str]] = {}
    for right, _, _ in missing:
        verbs.setdefault((right.what, right.remedy), []).append(right.verb)
    found = [
        problem(Area.RIGHTS, what, f"{who} may not {', '.join(those)} them", remedy)
        for (what, remedy), those in verbs.items()
    ]
    if silent:
        says = f"{len(silent)} of {len(asked)} cannot be asked about: {silent[0].reason}"
        remedy = "let doctor ask: reviews are granted by system:basic-user, those of others (--as) to administrators"
        found.append(warning(Area.RIGHTS, "reviews", says, remedy))
    if not missing and not silent:
        hint = "" if who.startswith(SERVICE_ACCOUNT) else f"the same of the account that runs it: --as {expected}"
        found.append(well(Area.RIGHTS, who, f"has all {len(asked)} that are needed", hint))
    return tuple(found)


async def _ask(server: Named, right: Right, account: str) -> Asked:
    try:
        answer = await server.transport.send(_review(right, account), PATIENCE)
    except Unreachable as error:
        return Asked(right, None, str(error))
    review = read_part(answer.body, _Review, "", [])
    if answer.status != 201 or review is None or review.status is None:
        return Asked(right, None, f"{answer.status} {read_status(answer.body).message}")
    return Asked(right, review.status.allowed)


def _review(right: Right, account: str) -> Request:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": part}
    attributes |= {"namespace": right.namespace, "name": right.name}
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    spec: dict[str, object] = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    if account:
        spec |= {"user": account, "groups": _groups(account)}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return sent("POST", f"{REVIEWS}/{kind.lower()}s", body)


def _groups(account: str) -> list[str]:
    """Those that the server itself puts a service account into; nobody knows a person's."""
    if not account.startswith(SERVICE_ACCOUNT):
        return ["system:authenticated"]
    namespace = account.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


async def _named(account: str) -> str:
    return account


async def who_asks(server: Named) -> str:
    """Who we are to the server, as far as it says."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await server.transport.send(sent("POST", WHO, body), PATIENCE)
    except Unreachable:
        return "this account"
    found = read_part(answer.body, _Self, "", [])
    return (found.status.user.username if found is not None else "") or "this account"
