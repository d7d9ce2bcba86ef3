"""The evictor of a policy: DefaultEvictor or MigrationController with the limits of the whole, in one shape for both."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.config.descheduler.evictor_shapes import (
    DEFAULT_PROTECTIONS,
    DefaultEvictorArgs,
    MigrationControllerArgs,
    Namespaces,
    PriorityThreshold,
)
from trimtab.config.descheduler.policy import Fields, Policy
from trimtab.config.schema import fields_of
from trimtab.core.rescheduling.rivals.default_evictor import DefaultEvictor

SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
ONE_OF_BOTH = "set either include or exclude: the descheduler refuses both"
DEPRECATED = (
    "evictLocalStoragePods",
    "evictDaemonSetPods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "ignorePvcPods",
    "ignorePodsWithoutPDB",
)


def note_unsupported(fields: Fields, reasons: Mapping[str, str]) -> None:
    """A note on each of these fields that is set to something else than its default."""
    kind: type = type(fields.value)
    for each in fields_of(kind):
        if each.key in reasons and each.key in fields.entries and getattr(fields.value, each.name) != each.default:
            fields.entries[each.key].note(f"not supported: {reasons[each.key]}")


def evictor_of(policy: Policy, namespaces: Namespaces | None) -> DefaultEvictor:
    """namespaces: those of the strategy, in whose place Koordinator's evictor may have some."""
    top, args = policy.top.value, policy.evictor.value if policy.evictor is not None else DefaultEvictorArgs()
    migration = args if isinstance(args, MigrationControllerArgs) else MigrationControllerArgs()
    protected, extra = _protections(policy.evictor)
    default = args if isinstance(args, DefaultEvictorArgs) else DefaultEvictorArgs()
    chosen = namespaces or migration.namespaces or Namespaces()
    return DefaultEvictor(
        evict_local_storage_pods="PodsWithLocalStorage" not in protected,
        evict_daemon_set_pods="DaemonSetPods" not in protected,
        evict_system_critical_pods="SystemCriticalPods" not in protected,
        ignore_pvc_pods="PodsWithPVC" in extra,
        ignore_pods_without_pdb="PodsWithoutPDB" in extra,
        ignore_resource_claim_pods="PodsWithResourceClaims" in extra,
        mandatory_no_eviction=default.no_eviction_policy == "Mandatory",
        priority_threshold=_priority(policy.evictor, args.priority_threshold),
        min_replicas=default.min_replicas,
        min_pod_age=default.min_pod_age or 0.0,
        label_selector=args.label_selector,
        included_namespaces=chosen.include,
        excluded_namespaces=chosen.exclude,
        max_per_node=top.max_no_of_pods_to_evict_per_node,
        max_per_namespace=_lower(top.max_no_of_pods_to_evict_per_namespace, migration.max_migrating_per_namespace),
        max_total=_lower(top.max_no_of_pods_to_evict_total, migration.max_migrating_globally),
    )


def _lower(*limits: int | None) -> int | None:
    return min((each for each in limits if each is not None), default=None)


def _protections(fields: Fields | None) -> tuple[frozenset[str], frozenset[str]]:
    """The default protections that are left, and the extra ones."""
    if fields is None:
        return frozenset(DEFAULT_PROTECTIONS), frozenset()
    args = fields.value
    new = args.pod_protections if isinstance(args, DefaultEvictorArgs) else None
    if new is not None and (new.extra_enabled or new.default_disabled):
        if mixed := [key for key in DEPRECATED if key in fields.entries]:
            fields.at(mixed[0]).error("cannot be set together with podProtections: the descheduler refuses it")
        return frozenset(DEFAULT_PROTECTIONS) - {*new.default_disabled}, frozenset(new.extra_enabled)
    disabled = {
        "PodsWithLocalStorage": args.evict_local_storage_pods,
        "DaemonSetPods": getattr(args, "evict_daemon_set_pods", False),
        "SystemCriticalPods": args.evict_system_critical_pods,
        "FailedBarePods": args.evict_failed_bare_pods,
    }
    enabled = {
        "PodsWithPVC": args.ignore_pvc_pods,
        "PodsWithoutPDB": getattr(args, "ignore_pods_without_pdb", False),
    }
    return (
        frozenset(name for name, off in disabled.items() if not off),
        frozenset(name for name, on in enabled.items() if on),
    )


def _priority(fields: Fields | None, threshold: PriorityThreshold | None) -> int | None:
    if fields is None or threshold is None:
        return None
    if threshold.name and threshold.value is not None:
        fields.at("priorityThreshold").error("value and name are both set: leave one out")
    elif threshold.name and threshold.name not in SYSTEM_CLASSES:
        fields.at("priorityThreshold", "name").error(
            f"the priority of {threshold.name[:100]!r} is not known here: write value, as "
            f"`kubectl get priorityclass {threshold.name[:100]}` shows it"
        )
    return threshold.value if threshold.value is not None else SYSTEM_CLASSES.get(threshold.name)


def check_namespaces(fields: Fields, key: str, exclude_only: bool = False) -> Namespaces | None:
    """Those of a strategy, with what its project refuses; None without any."""
    found: Namespaces | None = getattr(fields.value, "namespaces" if key == "namespaces" else "evictable_namespaces")
    if found is None:
        return None
    if found.include and exclude_only:
        fields.at(key, "include").error("only exclude may be set here: the descheduler refuses include")
    elif found.include and found.exclude:
        fields.at(key).error(ONE_OF_BOTH)
    return found
