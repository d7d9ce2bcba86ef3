"""The permissions that a configuration needs, the file in deploy/ that grants each, and access reviews of them.

A review covers RBAC alone; admission is checked by the dry runs of `label_checks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trimtab.apps.controller_configuration import DEFAULT_SCHEDULER_LEASE
from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.doctor.finding import Area, Finding, ok, problem, warning
from trimtab.apps.process import (
    LABELLER,
    LABELLER_IN_SCHEDULER,
    RESCHEDULER,
    SCHEDULER,
    ControllerSpec,
)
from trimtab.apps.watched_kinds import extra_watched_kinds
from trimtab.config.configuration import Configuration, LeaderElection
from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.core.model.instructions import (
    Bind,
    BindVolume,
    EmitEvent,
    EndSurge,
    Evict,
    GetPod,
    Instruction,
    LabelNode,
    Nominate,
    Preempt,
    ReadLedger,
    ResizePod,
    SelectNode,
    SetUnschedulable,
    StartSurge,
    WriteLedger,
)
from trimtab.core.rescheduling.settings import Method, Mode, ReschedulingSettings
from trimtab.kube.access_review import SERVICE_ACCOUNT, ReviewResult, review, whoami
from trimtab.kube.call_table import required_rules
from trimtab.kube.kinds import UnknownKind
from trimtab.kube.lease import LABELLER_LEASE, RESCHEDULER_LEASE
from trimtab.wire.forbidden import (
    KUBE_SCHEDULER,
    KUBE_SCHEDULER_FILE,
    LABELLER_ACCOUNT,
    OUR_ACCOUNTS,
    RESCHEDULER_ACCOUNT,
    SCHEDULER_ACCOUNT,
)
from trimtab.wire.ledger import LEDGER_NAME

LEASES, METRICS = "coordination.k8s.io", "metrics.k8s.io"
APPLY_FILE, OTHER_LEASE = "apply deploy/{}", " with the lease's namespace and name in its Role"
ACCOUNTS = {SCHEDULER: SCHEDULER_ACCOUNT, LABELLER: LABELLER_ACCOUNT, RESCHEDULER: RESCHEDULER_ACCOUNT}
# Groups and namespaces of what that user's stock roles lack, and the file grants.
KUBE_SCHEDULER_LACKS = {
    (METRICS, ""),
    ("scheduling.x-k8s.io", ""),
    ("scheduling.sigs.k8s.io", ""),
    (LEASES, "trimtab"),
}


class Permission(NamedTuple):
    """A verb on a resource (or a subresource: `pods/binding`), and the remedy if it is missing."""

    verb: str
    resource: str
    remedy: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """The resource attributes of an access review."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        return attributes | {"namespace": self.namespace, "name": self.name}

    @property
    def target(self) -> str:
        """What the verb applies to."""
        group, name = (f".{self.group}" if self.group else ""), (f" {self.name}" if self.name else "")
        return f"{self.resource}{group}{name}" + (f" in {self.namespace}" if self.namespace else "")


SERVING_REMEDY = APPLY_FILE.format("rbac-serving.yaml")
SERVING = (
    Permission("create", "tokenreviews", SERVING_REMEDY, "authentication.k8s.io"),
    Permission("create", "subjectaccessreviews", SERVING_REMEDY, "authorization.k8s.io"),
    Permission("get", "configmaps", SERVING_REMEDY, "", "kube-system", "extension-apiserver-authentication"),
)


def required(configuration: Configuration) -> Iterator[Permission]:
    """All permissions that a process with this configuration uses."""
    settings, schedules = configuration.settings, bool(configuration.settings.profiles)
    basic = APPLY_FILE.format(_main(configuration).role_file)
    core = [kind for kind in ("pods", "nodes") if kind in settings.kinds]
    yield from (Permission(verb, kind, basic) for kind in core for verb in ("list", "watch"))
    if schedules:
        yield from _scheduling(configuration, basic)
    elif settings.rescheduling is not None:
        yield from _further_kinds(configuration)
    if settings.rescheduling is not None and settings.rescheduling.mode is not Mode.OBSERVE:
        yield from _moving(settings.rescheduling, configuration.leader_election.namespace)
    if settings.labels is not None and settings.labels.apply:
        yield from _for_instructions(f"apply {LABELLER_IN_SCHEDULER}" if schedules else basic, LabelNode)
    if any(isinstance(source, MetricsServerSettings) for source in configuration.trimtab.sources):
        remedy = APPLY_FILE.format("rbac-metrics.yaml")
        yield from (Permission("list", kind, remedy, METRICS) for kind in ("nodes", "pods"))
    if configuration.leader_election.enabled:
        yield from _leader_election(configuration.leader_election, basic)
    for lease in sorted({*configuration.scheduler_leases.values()}):
        namespace, _, name = lease.partition("/")
        remedy = basic if lease in ("trimtab/trimtab", DEFAULT_SCHEDULER_LEASE) else f"{basic}{OTHER_LEASE}"
        yield Permission("get", "leases", remedy, LEASES, namespace, name)


def _main(configuration: Configuration) -> ControllerSpec:
    """The controller whose account and role file the process has."""
    settings = configuration.settings
    if settings.profiles:
        return SCHEDULER
    return RESCHEDULER if settings.rescheduling is not None else LABELLER


def _further_kinds(configuration: Configuration) -> Iterator[Permission]:
    for kind in extra_watched_kinds(configuration.settings):
        group, resource = _group_and_resource(kind.path)
        yield from (Permission(verb, resource, kind.remedy(), group) for verb in ("list", "watch"))


def _scheduling(configuration: Configuration, basic: str) -> Iterator[Permission]:
    yield from _for_instructions(basic, GetPod, Bind, SetUnschedulable, Nominate, EmitEvent)
    yield from _further_kinds(configuration)
    profiles = configuration.settings.profiles
    remedies = {kind.name: kind.remedy() for kind in extra_watched_kinds(configuration.settings)}
    if "poddisruptionbudgets" in remedies and any(profile.post_filters for profile in profiles):
        yield from _for_instructions(remedies["poddisruptionbudgets"], Preempt)
    if any(profile.pre_binds for profile in profiles):
        for kind_name, instruction in (("persistentvolumeclaims", SelectNode), ("persistentvolumes", BindVolume)):
            if kind_name in remedies:
                yield from _for_instructions(remedies[kind_name], instruction)


def _moving(settings: ReschedulingSettings, namespace: str) -> Iterator[Permission]:
    """What moves need, as far as the settings use it; the ledger is one ConfigMap, next to the lease."""
    remedy = APPLY_FILE.format(RESCHEDULER.role_file)
    used: list[type[Instruction]] = [Nominate, EmitEvent]
    used += [Evict] if settings.method is not Method.REPLACEMENT_ONLY else []
    used += [StartSurge, EndSurge] if settings.method is not Method.EVICTION else []
    used += [LabelNode] if settings.remedies.soft_taint else []
    used += [ResizePod] if settings.remedies.resize else []
    yield from _for_instructions(remedy, *used)
    for rule in required_rules(ReadLedger, WriteLedger):
        name = LEDGER_NAME if rule.verb != "create" else ""  # RBAC cannot restrict create to a name
        yield Permission(rule.verb, rule.resource, remedy, rule.group, namespace, name)


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
    shipped = {("trimtab", name) for name in ("trimtab", LABELLER_LEASE, RESCHEDULER_LEASE)}
    place = (leader.namespace, leader.name)
    if place == ("kube-system", "kube-scheduler"):
        remedy = APPLY_FILE.format("components/default-scheduler/rbac-default-scheduler.yaml")
    else:
        remedy = basic if place in shipped else f"{basic}{OTHER_LEASE}"
    yield Permission("create", "leases", remedy, LEASES, leader.namespace)
    yield from (Permission(verb, "leases", remedy, LEASES, leader.namespace, leader.name) for verb in ("get", "update"))


def account_of(configuration: Configuration) -> str:
    """The service account of the shipped roles for this configuration."""
    return ACCOUNTS[_main(configuration)]


async def check_rbac(server: ApiServer, configuration: Configuration, account: str) -> tuple[Finding, ...]:
    """Review all permissions concurrently: those of the account, or our own if it is empty."""
    try:
        permissions = _unique(required(configuration))
    except UnknownKind as error:
        return (problem(Area.RIGHTS, "kinds", str(error), "disable that plugin"),)
    results = await asyncio.gather(*(review(server.transport, each.attributes, account) for each in permissions))
    who = account or await whoami(server.transport)
    return _findings(permissions, results, who, account_of(configuration))


def _remedy_for(permission: Permission, who: str, expected: str) -> str:
    """The remedy for the account that was refused: shipped roles are for one account, or for kube-scheduler's user."""
    if who == expected:
        return permission.remedy
    place = (permission.group, permission.namespace)
    if who == KUBE_SCHEDULER and place in KUBE_SCHEDULER_LACKS and permission.name in ("", "trimtab"):
        return APPLY_FILE.format(KUBE_SCHEDULER_FILE)
    return f"{permission.remedy}; it grants them to {expected}, so bind its roles to {who}"


def _findings(
    permissions: Sequence[Permission], results: Sequence[ReviewResult], who: str, expected: str
) -> tuple[Finding, ...]:
    missing = [each for each, result in zip(permissions, results, strict=True) if result.allowed is False]
    silent = [result for result in results if result.allowed is None]
    verbs: dict[tuple[str, str], list[str]] = {}
    for each in missing:
        verbs.setdefault((each.target, _remedy_for(each, who, expected)), []).append(each.verb)
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


async def check_serving(server: ApiServer, account: str) -> tuple[Finding, ...]:
    """Whether the secure port can ask the API server about callers; it is on for accounts of a cluster.

    Without that it refuses every page but the health checks. `check_rbac` reports reviews that are not answered.
    """
    who = account or await whoami(server.transport)
    if not who.startswith(SERVICE_ACCOUNT) and who != KUBE_SCHEDULER:
        return ()
    results = await asyncio.gather(*(review(server.transport, each.attributes, account) for each in SERVING))
    missing = [each for each, result in zip(SERVING, results, strict=True) if result.allowed is False]
    if not missing:
        return ()
    targets = ", ".join(f"{each.verb} {each.target}" for each in missing)
    effect = "so the secure port cannot tell who may read /metrics and /explain, and refuses them"
    roles = f", and bind its roles (system:auth-delegator, extension-apiserver-authentication-reader) to {who}"
    others = "" if who in OUR_ACCOUNTS else roles
    return (warning(Area.RIGHTS, "secure port", f"{who} may not {targets}, {effect}", SERVING_REMEDY + others),)
