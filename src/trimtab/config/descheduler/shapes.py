"""The fields of a DeschedulerPolicy v1alpha2, of Koordinator's DeschedulerConfiguration, and of their strategies.

The fields are those of the descheduler 0.33 to 0.36 and of Koordinator 1.4 to 1.6. What becomes of each is said where it is
converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trimtab.config.descheduler.evictor_shapes import COUNT, YEAR, Namespaces
from trimtab.core.framework.resource_amounts import ResourceValues
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.setting import setting

NONE = ResourceValues()
KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"
SOURCES = (KUBERNETES_METRICS, PROMETHEUS)


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
