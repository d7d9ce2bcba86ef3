"""The fields of a DeschedulerPolicy v1alpha2 and of Koordinator's DeschedulerConfiguration, as their files have them.

The fields are those of the descheduler 0.33 to 0.36 and of Koordinator 1.4 to 1.6. What becomes of each is said where it is
converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trimtab.core.framework.resource_amounts import ResourceValues
from trimtab.core.model.duration import DAY
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.setting import INT32, setting

NONE = ResourceValues()
COUNT = (0, INT32)
YEAR = (0, 365 * DAY)
KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"
SOURCES = (KUBERNETES_METRICS, PROMETHEUS)


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


# --- strategies


@dataclass(frozen=True, slots=True)
class PrometheusQuery:
    query: str = ""


@dataclass(frozen=True, slots=True)
class MetricsUtilization:
    metrics_server: bool = False
    source: str = setting("", choices=SOURCES)
    prometheus: PrometheusQuery | None = None


@dataclass(frozen=True, slots=True)
class EvictionLimits:
    node: int | None = setting(None, between=COUNT)


@dataclass(frozen=True, slots=True)
class LowNodeUtilizationArgs:
    use_deviation_thresholds: bool = False
    thresholds: ResourceValues = setting(NONE, required="write percentages, such as {cpu: 20, memory: 20, pods: 20}")
    target_thresholds: ResourceValues = setting(
        NONE, required="write percentages, such as {cpu: 50, memory: 50, pods: 50}"
    )
    number_of_nodes: int = setting(0, between=COUNT)
    metrics_utilization: MetricsUtilization = MetricsUtilization()
    evictable_namespaces: Namespaces | None = None
    eviction_limits: EvictionLimits | None = None


@dataclass(frozen=True, slots=True)
class HighNodeUtilizationArgs:
    thresholds: ResourceValues = setting(NONE, required="write percentages, such as {cpu: 20, memory: 20}")
    number_of_nodes: int = setting(0, between=COUNT)
    eviction_modes: tuple[str, ...] = setting((), choices=("OnlyThresholdingResources",))
    evictable_namespaces: Namespaces | None = None


@dataclass(frozen=True, slots=True)
class RemoveDuplicatesArgs:
    namespaces: Namespaces | None = None
    exclude_owner_kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingNodeTaintsArgs:
    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()


REQUIRED_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingNodeAffinityArgs:
    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    node_affinity_type: tuple[str, ...] = setting(
        (), required=f"write [{REQUIRED_AFFINITY}]", choices=(REQUIRED_AFFINITY, PREFERRED_AFFINITY)
    )


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingInterPodAntiAffinityArgs:
    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingTopologySpreadConstraintArgs:
    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None
    constraints: tuple[str, ...] = setting(("DoNotSchedule",), choices=("DoNotSchedule", "ScheduleAnyway"))
    topology_balance_node_fit: bool = True


@dataclass(frozen=True, slots=True)
class AnomalyCondition:
    timeout: float = setting(60.0, seconds=YEAR)
    consecutive_abnormalities: int = setting(5, between=COUNT)
    consecutive_normalities: int = setting(3, between=COUNT)


@dataclass(frozen=True, slots=True)
class NodePool:
    name: str = ""
    node_selector: LabelSelector | None = None
    use_deviation_thresholds: bool = False
    high_thresholds: ResourceValues = NONE
    low_thresholds: ResourceValues = NONE
    prod_high_thresholds: ResourceValues = NONE
    prod_low_thresholds: ResourceValues = NONE
    resource_weights: ResourceValues = NONE
    anomaly_condition: AnomalyCondition | None = None


@dataclass(frozen=True, slots=True)
class PodSelector:
    name: str = ""
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class LowNodeLoadArgs:
    """Koordinator's."""

    paused: bool = False
    dry_run: bool = False
    number_of_nodes: int = setting(0, between=COUNT)
    node_metric_expiration_seconds: int = setting(180, between=(1, 3600))
    evictable_namespaces: Namespaces | None = None
    node_selector: LabelSelector | None = None
    pod_selectors: tuple[PodSelector, ...] = ()
    node_fit: bool = True
    use_deviation_thresholds: bool = False
    high_thresholds: ResourceValues = NONE
    low_thresholds: ResourceValues = NONE
    prod_high_thresholds: ResourceValues = NONE
    prod_low_thresholds: ResourceValues = NONE
    resource_weights: ResourceValues = NONE
    anomaly_condition: AnomalyCondition = AnomalyCondition()
    detector_cache_timeout: float = setting(300.0, seconds=(1, 3600))
    node_pools: tuple[NodePool, ...] = ()
    continue_eviction_while_above_target: bool = False


LOW_NODE_UTILIZATION, LOW_NODE_LOAD = "LowNodeUtilization", "LowNodeLoad"
DEFAULT_EVICTOR, MIGRATION_CONTROLLER = "DefaultEvictor", "MigrationController"
EVICTORS: Mapping[str, type] = MappingProxyType(
    {DEFAULT_EVICTOR: DefaultEvictorArgs, MIGRATION_CONTROLLER: MigrationControllerArgs}
)
STRATEGY_ARGS: Mapping[str, type] = MappingProxyType(
    {
        LOW_NODE_UTILIZATION: LowNodeUtilizationArgs,
        "HighNodeUtilization": HighNodeUtilizationArgs,
        LOW_NODE_LOAD: LowNodeLoadArgs,
        "RemoveDuplicates": RemoveDuplicatesArgs,
        "RemovePodsViolatingNodeTaints": RemovePodsViolatingNodeTaintsArgs,
        "RemovePodsViolatingNodeAffinity": RemovePodsViolatingNodeAffinityArgs,
        "RemovePodsViolatingInterPodAntiAffinity": RemovePodsViolatingInterPodAntiAffinityArgs,
        "RemovePodsViolatingTopologySpreadConstraint": RemovePodsViolatingTopologySpreadConstraintArgs,
    }
)
# Plugins whose arguments are not read, because what they do has no counterpart.
ABOUT_FAILURES = (
    "it evicts pods because of how they are, and Trimtab moves pods because of their nodes: keep the descheduler for it, "
    "with a policy that has this plugin alone"
)
WITHOUT_COUNTERPART: Mapping[str, str] = MappingProxyType(
    {
        "PodLifeTime": ABOUT_FAILURES,
        "RemoveFailedPods": ABOUT_FAILURES,
        "RemovePodsHavingTooManyRestarts": ABOUT_FAILURES,
        "CustomPriority": "Trimtab has no order of node classes",
        "FragmentationAware": "Trimtab plans by measured usage, not by what requests leave unused",
        "ScaleDownBinPack": "use Consolidate, which empties nodes by measured usage",
    }
)


# --- the documents


@dataclass(frozen=True, slots=True)
class MetricsCollector:
    enabled: bool = False


@dataclass(frozen=True, slots=True)
class SecretReference:
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AuthToken:
    secret_reference: SecretReference | None = None


@dataclass(frozen=True, slots=True)
class PrometheusProvider:
    url: str = ""
    auth_token: AuthToken | None = None


@dataclass(frozen=True, slots=True)
class MetricsProvider:
    source: str = setting(KUBERNETES_METRICS, choices=SOURCES)
    prometheus: PrometheusProvider | None = None


@dataclass(frozen=True, slots=True)
class DeschedulerPolicy:
    """Without its profiles."""

    node_selector: str = ""
    max_no_of_pods_to_evict_per_node: int | None = setting(None, between=COUNT)
    max_no_of_pods_to_evict_per_namespace: int | None = setting(None, between=COUNT)
    max_no_of_pods_to_evict_total: int | None = setting(None, between=COUNT)
    eviction_failure_event_notification: bool = False
    metrics_collector: MetricsCollector | None = None
    metrics_providers: tuple[MetricsProvider, ...] = ()
    grace_period_seconds: int | None = setting(None, between=COUNT)


@dataclass(frozen=True, slots=True)
class DeschedulerConfiguration:
    """Koordinator's, without its profiles and without how the program itself runs (`OPERATIONAL`)."""

    descheduling_interval: float | None = setting(None, seconds=YEAR)
    dry_run: bool = False
    node_selector: LabelSelector | None = None
    max_no_of_pods_to_evict_per_node: int | None = setting(None, between=COUNT)
    max_no_of_pods_to_evict_per_namespace: int | None = setting(None, between=COUNT)
    max_no_of_pods_to_evict_total: int | None = setting(None, between=COUNT)


OPERATIONAL = (
    "leaderElection",
    "clientConnection",
    "healthzBindAddress",
    "metricsBindAddress",
    "enableProfiling",
    "enableContentionProfiling",
)
