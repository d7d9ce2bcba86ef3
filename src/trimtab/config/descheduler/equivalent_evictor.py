"""What the evictor of a policy amounts to in the section `rescheduling`: exclusions, permissions and limits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trimtab.config.descheduler.evictor import evictor_of, note_unsupported
from trimtab.config.descheduler.evictor_shapes import DefaultEvictorArgs, MigrationControllerArgs, Namespaces
from trimtab.config.descheduler.policy import Fields, Policy
from trimtab.config.diagnostics import Info
from trimtab.core.model.selectors import LabelSelector, Requirement
from trimtab.core.rescheduling.rivals.default_evictor import DefaultEvictor
from trimtab.core.rescheduling.settings import COOLDOWN, ReschedulingSettings

MOST_MOVES = 1000
EXCLUDED_ANYWAY: tuple[str, ...] = ReschedulingSettings().excluded_namespaces
OPPOSITES = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
_NEVER_SYSTEM = "pods of system-critical priority are never moved"
_BARE = "a pod without a controller would not come back, and is never moved"
_OTHERWISE = "evictions are carried out in another way"

_UNSUPPORTED = {
    "nodeSelector": "all nodes are planned for",
    "namespaceLabelSelector": "namespaces are excluded by name, as excludedNamespaces",
    "evictDaemonSetPods": "a pod of a DaemonSet belongs to its node",
    "evictSystemCriticalPods": _NEVER_SYSTEM,
    "evictFailedBarePods": _BARE,
    "ignorePvcPods": "pods whose volumes can follow them are moved, and those with pinned volumes never are",
    "ignorePodsWithoutPDB": "a pod without a disruption budget may be moved, at most one of its owner at a time",
    "maxMigratingPerNode": "a plan has one limit for all nodes, maxMoves",
    "maxMigratingPerNamespace": "a plan has one limit for all namespaces, maxMoves",
    "maxMigratingPerWorkload": "of one owner one pod moves at a time",
    "defaultJobMode": _OTHERWISE,
    "defaultJobTTL": _OTHERWISE,
    "schedulerNames": "the planned node is nominated, whichever scheduler places the pod",
    "evictQPS": _OTHERWISE,
    "evictBurst": _OTHERWISE,
    "evictionPolicy": _OTHERWISE,
    "defaultDeleteOptions": "pods get their own grace period",
    "arbitrationArgs": _OTHERWISE,
    "maxConcurrentReconciles": _OTHERWISE,
    "dryRun": "the mode is observe anyway, in which nothing is moved",
}
_PROTECTIONS = {
    "DaemonSetPods": _UNSUPPORTED["evictDaemonSetPods"],
    "SystemCriticalPods": _NEVER_SYSTEM,
    "FailedBarePods": _BARE,
    "PodsWithPVC": _UNSUPPORTED["ignorePvcPods"],
    "PodsWithoutPDB": _UNSUPPORTED["ignorePodsWithoutPDB"],
    "PodsWithResourceClaims": "a pod with resource claims is moved where its claims can be met",
}


def evictor_settings(policy: Policy, excluded: Collection[str]) -> dict[str, Any]:
    """Fields of `ReschedulingSettings`. excluded: namespaces that every strategy excludes."""
    fields, evictor = policy.evictor, evictor_of(policy, Namespaces(exclude=tuple(sorted(excluded))))
    if fields is not None:
        note_unsupported(fields, _UNSUPPORTED)
        _note_protections(fields)
        _note_differences(fields)
    namespaces = (*EXCLUDED_ANYWAY, *evictor.excluded_namespaces, *_evictor_namespaces(fields))
    values: dict[str, Any] = {
        "excluded_namespaces": tuple(dict.fromkeys(namespaces)),
        "allow_local_data": evictor.evict_local_storage_pods,
        "priority_threshold": evictor.priority_threshold,
    }
    if evictor.min_pod_age:
        values["min_pod_age"] = min(evictor.min_pod_age, 30 * 86400.0)
    if evictor.label_selector is not None and fields is not None:
        values["excluded_pod_selector"] = _opposite(fields, evictor.label_selector)
    values |= _max_moves(policy, evictor)
    return values | (_migration(fields, fields.value) if _is_migration(fields) and fields is not None else {})


def _is_migration(fields: Fields | None) -> bool:
    return fields is not None and isinstance(fields.value, MigrationControllerArgs)


def _evictor_namespaces(fields: Fields | None) -> tuple[str, ...]:
    """Koordinator's evictor has namespaces of its own."""
    namespaces = getattr(fields.value, "namespaces", None) if fields is not None else None
    if namespaces is None or fields is None:
        return ()
    if namespaces.include:
        fields.at("namespaces", "include").note(
            "not supported: pods of all namespaces are planned for but those of excludedNamespaces"
        )
    return tuple(namespaces.exclude)


def _note_protections(fields: Fields) -> None:
    if not isinstance(fields.value, DefaultEvictorArgs):
        return
    protections = fields.value.pod_protections
    listed = {"extraEnabled": protections.extra_enabled, "defaultDisabled": protections.default_disabled}
    for key, names in listed.items():
        for number, name in enumerate(names):
            if name in _PROTECTIONS:
                fields.at("podProtections", key).items()[number].note(f"not supported: {_PROTECTIONS[name]}")
    if protections.config is not None:
        fields.at("podProtections", "config").note(f"not supported: {_PROTECTIONS['PodsWithPVC']}")


def _note_differences(fields: Fields) -> None:
    """What is always so here."""
    args = fields.value
    if not args.node_fit:
        fields.at("nodeFit").note("where a pod fits is always checked, also without nodeFit", Info)
    if not isinstance(args, DefaultEvictorArgs):
        return
    if "noEvictionPolicy" in fields.entries:
        fields.at("noEvictionPolicy").note(
            "pods with the annotation prefer-no-eviction are never moved, as if Mandatory", Info
        )
    if args.min_replicas > 2:
        fields.at("minReplicas").note("not supported: the only ready pod of a workload stays, and no others by number")
    elif args.min_replicas < 2:
        fields.at("minReplicas").note("the only ready pod of a workload stays: set allowLastReplica to move it", Info)


def _opposite(fields: Fields, selector: LabelSelector) -> LabelSelector | None:
    """Pods that do not match; only one requirement has an opposite."""
    lines = [Requirement(key, "In", (value,)) for key, value in selector.match_labels]
    lines += selector.match_expressions
    if len(lines) == 1:
        return LabelSelector((), (Requirement(lines[0].key, OPPOSITES[lines[0].operator], lines[0].values),))
    fields.at("labelSelector").note(
        "not supported: pods are chosen by what excludedPodSelector excludes, and several requirements have no opposite, so "
        "pods that do not match may be planned for, too"
    )
    return None


def _max_moves(policy: Policy, evictor: DefaultEvictor) -> dict[str, Any]:
    if evictor.max_total is None:
        return {}
    moves = min(max(evictor.max_total, 1), MOST_MOVES)
    if moves != evictor.max_total:
        policy.top.at("maxNoOfPodsToEvictTotal").note(f"maxMoves is {moves}, the nearest value that is possible")
    return {"max_moves": moves}


def _migration(fields: Fields, args: MigrationControllerArgs) -> dict[str, Any]:
    values: dict[str, Any] = {"allow_last_replica": args.skip_check_expected_replicas}
    if args.max_unavailable_per_workload is not None:
        share = str(args.max_unavailable_per_workload)
        if share.endswith("%") and share[:-1].isdecimal() and int(share[:-1]) <= 100:
            values["max_unavailable"] = int(share[:-1]) / 100
        else:
            fields.at("maxUnavailablePerWorkload").note("not supported: write a percentage, such as 10%")
    limiters = args.object_limiters
    if limiters is not None and limiters.workload is not None:
        values["cooldown"] = min(max(limiters.workload.duration, COOLDOWN), 30 * 86400.0)
        if limiters.workload.max_migrating is not None:
            fields.at("objectLimiters", "workload", "maxMigrating").note(
                "not supported: one pod of an owner in that time"
            )
    if limiters is not None and limiters.namespace is not None:
        fields.at("objectLimiters", "namespace").note("not supported: namespaces have no cool-down of their own")
    return values
