"""Decides what becomes of every field of `kubescheduler.config.k8s.io/v1`; reading their values is left to others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from trimtab.config.config_node import ConfigNode
from trimtab.config.tree import MappingNode, SequenceNode


class Support(StrEnum):
    """A field is obeyed, read and set aside with a note, or not accepted."""

    SUPPORTED = "honoured"
    IGNORED = "ignored"
    REJECTED = "refused"


@dataclass(frozen=True, slots=True)
class Field:
    """A field by its path, where `[]` is any item and `POINT` any extension point."""

    path: str
    support: Support
    doc: str


_H, _I, _R = Support.SUPPORTED, Support.IGNORED, Support.REJECTED

_RESCHEDULING_ARGS = (
    "enableReschedulingController",
    "reschedulingInterval",
    "excludedNamespaces",
    "enabledStrategies",
    "imbalanceThreshold",
    "maxReschedulePods",
    "excludedPodSelector",
)
_REAL_USAGE = ("MemRealUsage", "CpuRealUsage")
_REAL_USAGE_ARGS = (
    ("prometheusApiAddr", "the address of a Prometheus: becomes a source, see below"),
    ("queryMetricTimeSeconds", "10 unless set, 1 to 3600: how long that source is waited for"),
    ("queryMetricIntervalSeconds", "10 unless set, 1 to 3600: how often it is asked"),
    ("strict", "false unless set: true stretches whole percent over 0 to 100, as the original does"),
)
_ESTIMATED = ("estimatedSecondsAfterPodScheduled", "estimatedSecondsAfterInitialized")

FIELDS: tuple[Field, ...] = (
    Field("apiVersion", _H, "kubescheduler.config.k8s.io/v1; v1beta3 and v1beta2 are read with a note, see below"),
    Field("kind", _H, "must be KubeSchedulerConfiguration"),
    Field("parallelism", _I, "one thread looks at all nodes at once; there is nothing to divide"),
    Field("leaderElection.leaderElect", _H, "true unless set: only the holder of the lease decides"),
    Field("leaderElection.leaseDuration", _H, "15s unless set; must be longer than renewDeadline"),
    Field("leaderElection.renewDeadline", _H, "10s unless set; must be longer than 1.2 × retryPeriod"),
    Field("leaderElection.retryPeriod", _H, "2s unless set"),
    Field("leaderElection.resourceLock", _H, "must be leases, the only kind of lock there is"),
    Field(
        "leaderElection.resourceName",
        _H,
        "`trimtab` unless set, but `kube-scheduler` when a profile is called default-scheduler",
    ),
    Field(
        "leaderElection.resourceNamespace",
        _H,
        "`trimtab` unless set, but `kube-system` when a profile is called default-scheduler",
    ),
    Field("clientConnection.kubeconfig", _H, "the file with the cluster's address and credentials"),
    Field("clientConnection.acceptContentTypes", _I, "answers are always read as JSON"),
    Field("clientConnection.contentType", _I, "requests are always written as JSON"),
    Field("clientConnection.qps", _H, "requests a second; unlimited unless set (kube-scheduler takes 50)"),
    Field("clientConnection.burst", _H, "requests at once above qps, 100 unless set; means nothing without qps"),
    Field("enableProfiling", _I, "there is no profiling endpoint"),
    Field("enableContentionProfiling", _I, "there are no locks to profile"),
    Field("percentageOfNodesToScore", _I, "all nodes are always looked at, as with 100"),
    Field("podInitialBackoffSeconds", _H, "1 unless set"),
    Field("podMaxBackoffSeconds", _H, "10 unless set; not less than podInitialBackoffSeconds"),
    Field("profiles[].schedulerName", _H, "`default-scheduler` unless set; each profile needs its own"),
    Field("profiles[].percentageOfNodesToScore", _I, "all nodes are always looked at, as with 100"),
    Field("profiles[].plugins.POINT.enabled[].name", _H, "a plugin that is not built yet is refused when named here"),
    Field("profiles[].plugins.POINT.enabled[].weight", _H, "weighs scores; 0 counts as 1, a negative one is refused"),
    Field("profiles[].plugins.POINT.disabled[].name", _H, "any known plugin, or `*` for all"),
    Field("profiles[].plugins.POINT.disabled[].weight", _I, "what is disabled has no weight"),
    Field("profiles[].pluginConfig[].name", _H, "a plugin that is not built yet is refused when named here"),
    Field("profiles[].pluginConfig[].args", _H, "the plugin's arguments, see below"),
    Field("extenders", _R, "extenders are not built yet: remove them, or leave those pods to another scheduler"),
    Field("delayCacheUntilActive", _I, "a standby always keeps its state warm"),
    Field("NodeAffinityArgs.addedAffinity", _H, "asked of every pod of the profile besides its own node affinity"),
    Field("NodeResourcesFitArgs.ignoredResources", _H, "extended resources that the filter leaves out"),
    Field("NodeResourcesFitArgs.ignoredResourceGroups", _H, "the same by the part before the `/`"),
    Field("NodeResourcesFitArgs.scoringStrategy.type", _H, "LeastAllocated, MostAllocated or RequestedToCapacityRatio"),
    Field("NodeResourcesFitArgs.scoringStrategy.resources", _H, "cpu and memory unless set; weights 1 to 100"),
    Field(
        "NodeResourcesFitArgs.scoringStrategy.requestedToCapacityRatio",
        _H,
        "the shape for that strategy; rising utilization 0 to 100, scores 0 to 10",
    ),
    Field("NodeResourcesBalancedAllocationArgs.resources", _H, "cpu and memory unless set; weights must be 1"),
    Field(
        "InterPodAffinityArgs.hardPodAffinityWeight", _H, "0 to 100, 1 unless set: what a hard affinity adds to scores"
    ),
    Field(
        "InterPodAffinityArgs.ignorePreferredTermsOfExistingPods",
        _H,
        "false unless set: what running pods prefer counts",
    ),
    Field(
        "PodTopologySpreadArgs.defaultConstraints", _H, "for pods without their own; no labelSelector, it is deduced"
    ),
    Field("PodTopologySpreadArgs.defaultingType", _H, "`System` unless set; defaultConstraints need `List`"),
    Field("VolumeBindingArgs.bindTimeoutSeconds", _H, "600 unless set: how long a pod waits for its volumes"),
    Field("VolumeBindingArgs.shape", _R, "storage capacity is not scored (in kube-scheduler an alpha feature, off)"),
    Field("DefaultPreemptionArgs.minCandidateNodesPercentage", _I, "room is sought on all nodes, always; 0 to 100"),
    Field(
        "DefaultPreemptionArgs.minCandidateNodesAbsolute", _I, "room is sought on all nodes, always; not both may be 0"
    ),
    Field("DynamicResourcesArgs", _R, "dynamic resources are not built yet"),
    Field(
        "CoschedulingArgs.permitWaitingTimeSeconds", _H, "60 unless set: how long members wait for the rest of a group"
    ),
    Field("CoschedulingArgs.podGroupBackoffSeconds", _H, "0 unless set: how long a group that failed is left alone"),
    Field("CoschedulingArgs.podGroupRejectPercentage", _I, "no member holds room while it waits; 0 to 100"),
    Field("SmallestFirstArgs.longestPenalty", _H, "60 unless set: the seconds by which the largest pods are put back"),
    Field("SmallestFirstArgs.largeCpu", _H, "8 unless set: the cores from which a pod has the whole penalty"),
    Field("SmallestFirstArgs.largeMemory", _H, "32 unless set: the same in GiB of memory"),
    Field(
        "TargetLoadPackingArgs.targetUtilization",
        _H,
        "40 unless set, 1 to 99: the percentage of CPU that nodes are filled up to",
    ),
    Field(
        "TargetLoadPackingArgs.defaultRequests",
        _H,
        "`{cpu: 1000m}` unless set: what a container is taken to use that names neither request nor limit",
    ),
    Field(
        "TargetLoadPackingArgs.defaultRequestsMultiplier",
        _H,
        '`"1.5"` unless set: times its request, what a container without a limit is taken to use',
    ),
    Field(
        "TargetLoadPackingArgs.metricProvider",
        _H,
        "`Prometheus` with an address, or `KubernetesMetricsServer`: becomes a source, see below",
    ),
    Field(
        "TargetLoadPackingArgs.watcherAddress",
        _I,
        "load-watcher is not asked: name the Prometheus that it reads as a source",
    ),
    Field("TargetLoadPackingArgs.strict", _H, "false unless set: true answers exactly as the original does"),
    Field(
        "LoadVariationRiskBalancingArgs.safeVarianceMargin",
        _H,
        "1 unless set: by how much the variation of the load is multiplied",
    ),
    Field(
        "LoadVariationRiskBalancingArgs.safeVarianceSensitivity",
        _H,
        "1 unless set: the degree of the root that is taken of it before",
    ),
    Field(
        "LoadVariationRiskBalancingArgs.metricProvider",
        _H,
        "`Prometheus` with an address, or `KubernetesMetricsServer`: becomes a source, see below",
    ),
    Field(
        "LoadVariationRiskBalancingArgs.watcherAddress",
        _I,
        "load-watcher is not asked: name the Prometheus that it reads as a source",
    ),
    Field("LoadVariationRiskBalancingArgs.strict", _H, "false unless set: true answers exactly as the original does"),
    Field(
        "LowRiskOverCommitmentArgs.smoothingWindowSize",
        _H,
        "5 unless set: how many samples a measured figure is the mean of",
    ),
    Field(
        "LowRiskOverCommitmentArgs.riskLimitWeights",
        _H,
        "`{cpu: 0.5, memory: 0.5}` unless set, 0 to 1: how much of the risk goes by limits, and not by load",
    ),
    Field(
        "LowRiskOverCommitmentArgs.metricProvider",
        _H,
        "`Prometheus` with an address, or `KubernetesMetricsServer`: becomes a source, see below",
    ),
    Field(
        "LowRiskOverCommitmentArgs.watcherAddress",
        _I,
        "load-watcher is not asked: name the Prometheus that it reads as a source",
    ),
    Field("LowRiskOverCommitmentArgs.strict", _H, "false unless set: true answers exactly as the original does"),
    Field(
        "ReschedulerArgs.cpuThreshold",
        _H,
        "80 unless set: above this percentage of CPU really used a node gets no new pods",
    ),
    Field("ReschedulerArgs.memoryThreshold", _H, "80 unless set: the same of memory"),
    Field("ReschedulerArgs.cpuScoreWeight", _H, "0.6 unless set, 0 to 1: how much free CPU counts in the score"),
    Field("ReschedulerArgs.memoryScoreWeight", _H, "0.4 unless set, 0 to 1: the same of memory"),
    Field(
        "ReschedulerArgs.loadBalanceBonus", _H, "10 unless set, 0 to 50: what a node with little load is given on top"
    ),
    Field(
        "ReschedulerArgs.enableSchedulingOptimization",
        _H,
        "true unless set: false switches filter, score and reserve off",
    ),
    Field(
        "ReschedulerArgs.enablePreventiveRescheduling",
        _H,
        "true unless set: a warning Event when a pod brings its node above a threshold",
    ),
    *(
        Field(f"ReschedulerArgs.{name}", _I, "moving pods that run already is not built yet")
        for name in _RESCHEDULING_ARGS
    ),
    Field("ReschedulerArgs.strict", _H, "false unless set: true goes by requests over capacity, as the original does"),
    *(Field(f"{plugin}Args.{name}", _H, about) for plugin in _REAL_USAGE for name, about in _REAL_USAGE_ARGS),
    Field("LowestLoadArgs.cpuWeight", _H, "1 unless set, 0 to 100: how much CPU counts in a node's load"),
    Field("LowestLoadArgs.memoryWeight", _H, "1 unless set, 0 to 100: the same of memory"),
    Field(
        "LoadAwareSchedulingArgs.filterExpiredNodeMetrics",
        _H,
        "true unless set: false never refuses nodes without data",
    ),
    Field(
        "LoadAwareSchedulingArgs.enableScheduleWhenNodeMetricsExpired",
        _H,
        "true unless set (in Koordinator false): false refuses nodes without data",
    ),
    Field(
        "LoadAwareSchedulingArgs.nodeMetricExpirationSeconds",
        _H,
        "180 unless set: a node so far behind the others counts as one without data",
    ),
    Field(
        "LoadAwareSchedulingArgs.resourceWeights",
        _H,
        "`{cpu: 1, memory: 1}` unless set, 0 to 100: how much each counts in the score",
    ),
    Field(
        "LoadAwareSchedulingArgs.dominantResourceWeight",
        _H,
        "0 unless set, up to 100: how much the scarcer of the two counts once more",
    ),
    Field(
        "LoadAwareSchedulingArgs.usageThresholds",
        _H,
        "`{cpu: 65, memory: 95}` unless set: percent used with the pod above which a node is refused; 0 is none",
    ),
    Field(
        "LoadAwareSchedulingArgs.prodUsageThresholds",
        _H,
        "none unless set: the same for prod pods, of what prod pods use; then usageThresholds are not asked about them",
    ),
    Field(
        "LoadAwareSchedulingArgs.scoreAccordingProdUsage",
        _H,
        "false unless set: true scores nodes for prod pods by what prod pods use",
    ),
    Field(
        "LoadAwareSchedulingArgs.prodUsageIncludeSys",
        _H,
        "false unless set: true adds what a node uses beside its pods to what prod pods use",
    ),
    Field(
        "LoadAwareSchedulingArgs.estimator",
        _I,
        "what a pod will use is learnt from its siblings, and estimated by the factors where there are none",
    ),
    Field(
        "LoadAwareSchedulingArgs.estimatedScalingFactors",
        _H,
        "`{cpu: 85, memory: 70}` unless set: percent of request or limit that a pod is taken to use",
    ),
    *(Field(f"LoadAwareSchedulingArgs.{name}", _I, "a pod is estimated until it is measured") for name in _ESTIMATED),
    Field("LoadAwareSchedulingArgs.allowCustomizeEstimation", _I, "pods do not bring estimates of their own"),
    Field(
        "LoadAwareSchedulingArgs.aggregated",
        _H,
        "avg, p50, p90, p95 or p99 over 5m, 10m or 30m in place of the latest value, as in Koordinator",
    ),
    Field("LoadAwareSchedulingArgs.supportedResources", _I, "CPU and memory alone are judged"),
    Field(
        "LoadAwareSchedulingArgs.strict",
        _H,
        "false unless set: true is the original: nodes without data are refused or have no points, only factors estimate",
    ),
    Field(
        "DynamicArgs.policy",
        _H,
        "the `spec` of Crane's DynamicSchedulerPolicy: predicate, priority, hotValue (syncPolicy is checked and left aside)",
    ),
    Field(
        "DynamicArgs.policyConfigPath",
        _H,
        "a file with Crane's DynamicSchedulerPolicy, seen from this one; without it, and without `policy`, Crane's own holds",
    ),
    Field(
        "DynamicArgs.strict",
        _H,
        "false unless set: true takes metrics as they are and whole points, as the original does",
    ),
    Field(
        "UsageArgs.thresholds",
        _H,
        "`{cpu: 80, mem: 80}` unless set: percent used above which a node is refused; 0 is none",
    ),
    Field("UsageArgs.usageWeight", _I, "say the weight where the plugin is enabled; Volcano multiplies by 5"),
    Field("UsageArgs.cpuWeight", _H, "1 unless set: how much CPU counts in the score (`cpu.weight` in Volcano)"),
    Field("UsageArgs.memoryWeight", _H, "1 unless set: the same of memory (`memory.weight` in Volcano)"),
    Field("UsageArgs.strict", _H, "false unless set: true goes by averages of ten minutes alone, as the original does"),
    Field(
        "PeakRiskArgs.resources",
        _H,
        "cpu at 80 and memory at 90 unless set: each `name`, and the `limit` in percent of capacity for its load",
    ),
    Field(
        "PeakRiskArgs.floor",
        _H,
        "2 unless set: the least deviation of a node's load, in percent of its capacity",
    ),
    Field(
        "PeakRiskArgs.spread",
        _H,
        "25 unless set, at least floor: the same for a node that nobody measures",
    ),
    Field(
        "PeakRiskArgs.lean",
        _H,
        "10 unless set, above 0 to 100: how many of the points go by the mean load instead of the risk",
    ),
)


def children(parent: str, fields: Iterable[Field] = FIELDS) -> dict[str, Field | None]:
    """What may stand directly under a path: each name, with its field unless it is a mapping or list of more."""
    found: dict[str, Field | None] = {}
    for each in fields:
        inner = each.path.removeprefix(f"{parent}.") if parent else each.path
        if parent and inner == each.path:
            continue
        head, _, rest = inner.partition(".")
        if parent or not head.endswith("Args"):
            found[head.removesuffix("[]")] = None if rest else each
    return found


def is_ignored(field: Field | None) -> bool:
    return field is not None and field.support is Support.IGNORED


def checked_fields(node: ConfigNode, parent: str, extra: Iterable[Field] = ()) -> dict[str, ConfigNode]:
    """The fields that stand at a place: unknown and refused ones are reported, ignored ones noted."""
    allowed = children(parent) | {field.path: field for field in extra}
    entries = node.fields(allowed) or {}
    for name, each in entries.items():
        field = allowed[name]
        if field is None or _is_empty(each):
            continue
        if field.support is Support.REJECTED:
            each.error(field.doc)
        elif field.support is Support.IGNORED:
            each.note(f"ignored: {field.doc}")
    return entries


def _is_empty(node: ConfigNode) -> bool:
    match node.yaml:
        case SequenceNode(items=()):
            return True
        case MappingNode(entries=entries):
            return not entries
    return False
