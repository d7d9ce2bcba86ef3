"""The fields of DefaultEvictor, and of MigrationController in its place in Koordinator's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trimtab.core.model.duration import DAY
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.setting import INT32, setting

COUNT = (0, INT32)
YEAR = (0, 365 * DAY)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """At most one of the two is set."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PriorityThreshold:
    """At most one of the two is set."""

    value: int | None = setting(None, between=(-INT32, INT32))
    name: str = ""


# --- the evictors


@dataclass(frozen=True, slots=True)
class StorageClass:
    name: str = setting("", required="write the name of a storage class")


@dataclass(frozen=True, slots=True)
class ClaimProtection:
    protected_storage_classes: tuple[StorageClass, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtectionConfig:
    pods_with_pvc: ClaimProtection | None = setting(None, name="PodsWithPVC")


DEFAULT_PROTECTIONS = ("PodsWithLocalStorage", "DaemonSetPods", "SystemCriticalPods", "FailedBarePods")
EXTRA_PROTECTIONS = ("PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims")


@dataclass(frozen=True, slots=True)
class PodProtections:
    extra_enabled: tuple[str, ...] = setting((), choices=EXTRA_PROTECTIONS, unique=True)
    default_disabled: tuple[str, ...] = setting((), choices=DEFAULT_PROTECTIONS, unique=True)
    config: ProtectionConfig | None = None


@dataclass(frozen=True, slots=True)
class DefaultEvictorArgs:
    node_selector: str = ""
    label_selector: LabelSelector | None = None
    namespace_label_selector: LabelSelector | None = None
    priority_threshold: PriorityThreshold | None = None
    node_fit: bool = False
    min_replicas: int = setting(0, between=COUNT)
    min_pod_age: float | None = setting(None, seconds=YEAR)
    no_eviction_policy: str = setting("Preferred", choices=("Preferred", "Mandatory"))
    pod_protections: PodProtections = PodProtections()
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = setting(False, name="ignorePodsWithoutPDB")
    evict_failed_bare_pods: bool = False


@dataclass(frozen=True, slots=True)
class Limiter:
    """At most `max_migrating` within `duration`."""

    duration: float = setting(300.0, seconds=YEAR)
    max_migrating: str | float | None = None


@dataclass(frozen=True, slots=True)
class Limiters:
    workload: Limiter | None = None
    namespace: Limiter | None = None


@dataclass(frozen=True, slots=True)
class Arbitration:
    enabled: bool = True
    interval: float | None = setting(None, seconds=YEAR)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_period_seconds: int | None = setting(None, between=COUNT)
    propagation_policy: str = ""


@dataclass(frozen=True, slots=True)
class MigrationControllerArgs:
    """Koordinator's evictor."""

    dry_run: bool = False
    max_concurrent_reconciles: int | None = setting(None, between=COUNT)
    evict_failed_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: PriorityThreshold | None = None
    label_selector: LabelSelector | None = None
    namespaces: Namespaces | None = None
    node_fit: bool = False
    node_selector: str = ""
    max_migrating_globally: int | None = setting(None, between=COUNT)
    max_migrating_per_node: int | None = setting(None, between=COUNT)
    max_migrating_per_namespace: int | None = setting(None, between=COUNT)
    max_migrating_per_workload: str | float | None = None
    max_unavailable_per_workload: str | float | None = None
    skip_check_expected_replicas: bool = False
    object_limiters: Limiters | None = None
    default_job_mode: str = ""
    default_job_ttl: float | None = setting(None, name="defaultJobTTL", seconds=YEAR)
    scheduler_names: tuple[str, ...] = ()
    evict_qps: str | float | None = setting(None, name="evictQPS")
    evict_burst: int | None = setting(None, between=COUNT)
    eviction_policy: str = ""
    default_delete_options: DeleteOptions | None = None
    arbitration_args: Arbitration | None = None


DEFAULT_EVICTOR, MIGRATION_CONTROLLER = "DefaultEvictor", "MigrationController"
EVICTORS: Mapping[str, type] = MappingProxyType(
    {DEFAULT_EVICTOR: DefaultEvictorArgs, MIGRATION_CONTROLLER: MigrationControllerArgs}
)
