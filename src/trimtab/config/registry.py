"""The plugins: those that exist here, those enabled by default, and the names that Kubernetes knows.

The only module that names concrete plugins. CONTRIBUTING.md says what a new one takes; its line in `_BUILTIN` goes to the end
of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trimtab.core.framework.interface import Plugin
from trimtab.core.framework.profile import ExtensionPoint, Profile, TieBreak, multipoint
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.plugins.default_preemption import DefaultPreemption
from trimtab.core.plugins.dynamic import Dynamic
from trimtab.core.plugins.gpu_share import GpuShare
from trimtab.core.plugins.image_locality import ImageLocality
from trimtab.core.plugins.inter_pod_affinity import InterPodAffinity
from trimtab.core.plugins.load_aware_scheduling import LoadAwareScheduling
from trimtab.core.plugins.lowest_load import LowestLoad
from trimtab.core.plugins.node_affinity import NodeAffinity
from trimtab.core.plugins.node_name import NodeName
from trimtab.core.plugins.node_ports import NodePorts
from trimtab.core.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from trimtab.core.plugins.node_resources_fit import NodeResourcesFit
from trimtab.core.plugins.node_unschedulable import NodeUnschedulable
from trimtab.core.plugins.node_volume_limits import NodeVolumeLimits
from trimtab.core.plugins.peak_risk import PeakRisk
from trimtab.core.plugins.pod_topology_spread import PodTopologySpread
from trimtab.core.plugins.priority_sort import PrioritySort
from trimtab.core.plugins.random import Random
from trimtab.core.plugins.real_usage import CpuRealUsage, MemRealUsage
from trimtab.core.plugins.rescheduler import Rescheduler
from trimtab.core.plugins.round_robin import RoundRobin
from trimtab.core.plugins.scheduling_gates import SchedulingGates
from trimtab.core.plugins.smallest_first import SmallestFirst
from trimtab.core.plugins.taint_toleration import TaintToleration
from trimtab.core.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from trimtab.core.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from trimtab.core.plugins.trimaran.target_load_packing import TargetLoadPacking
from trimtab.core.plugins.usage import Usage
from trimtab.core.plugins.usage_overcommit import UsageOvercommit
from trimtab.core.plugins.volume_binding import VolumeBinding
from trimtab.core.plugins.volume_restrictions import VolumeRestrictions
from trimtab.core.plugins.volume_zone import VolumeZone
from trimtab.wire.pod_template import DEFAULT_SCHEDULER

_BUILTIN: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
    InterPodAffinity,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    SmallestFirst,
    Coscheduling,
    TargetLoadPacking,
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    PeakRisk,
    Rescheduler,
    MemRealUsage,
    CpuRealUsage,
    LowestLoad,
    LoadAwareScheduling,
    Dynamic,
    Usage,
    Random,
    RoundRobin,
    UsageOvercommit,
    GpuShare,
)
IN_TREE: Mapping[str, type[Plugin]] = {plugin.name: plugin for plugin in _BUILTIN}
# The node annotations that plugins read, with a parser for each: None means without effect, ValueError invalid.
NODE_ANNOTATIONS: Mapping[str, Callable[[str], object]] = {
    key: parse for plugin in _BUILTIN for key, parse in getattr(plugin, "node_annotations", {}).items()
}

# The default plugins of kube-scheduler 1.35 with their weights, in its order; 0 for plugins that do not score.
DEFAULT_PLUGINS: Mapping[str, int] = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
}

# Binding is the engine's own last step, so this name is accepted and is no plugin.
DEFAULT_BINDER = "DefaultBinder"

# The extension points of every plugin in Kubernetes: files that list plugins by point must stay valid, even where one
# method here does the work of two there.
_FILTER_POINTS = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER)
_SCORE_POINTS = (ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
KUBERNETES_POINTS: Mapping[str, tuple[ExtensionPoint, ...]] = {
    "SchedulingGates": (ExtensionPoint.PRE_ENQUEUE,),
    "PrioritySort": (ExtensionPoint.QUEUE_SORT,),
    "NodeUnschedulable": (ExtensionPoint.FILTER,),
    "NodeName": (ExtensionPoint.FILTER,),
    "TaintToleration": (ExtensionPoint.FILTER, *_SCORE_POINTS),
    "NodeAffinity": (*_FILTER_POINTS, *_SCORE_POINTS),
    "NodePorts": _FILTER_POINTS,
    "NodeResourcesFit": (*_FILTER_POINTS, *_SCORE_POINTS),
    "VolumeRestrictions": _FILTER_POINTS,
    "NodeVolumeLimits": _FILTER_POINTS,
    "VolumeBinding": (*_FILTER_POINTS, *_SCORE_POINTS, ExtensionPoint.RESERVE, ExtensionPoint.PRE_BIND),
    "VolumeZone": _FILTER_POINTS,
    "PodTopologySpread": (*_FILTER_POINTS, *_SCORE_POINTS),
    "InterPodAffinity": (*_FILTER_POINTS, *_SCORE_POINTS),
    "DynamicResources": (
        ExtensionPoint.PRE_ENQUEUE,
        *_FILTER_POINTS,
        ExtensionPoint.POST_FILTER,
        ExtensionPoint.SCORE,
        ExtensionPoint.RESERVE,
        ExtensionPoint.PRE_BIND,
    ),
    "DefaultPreemption": (ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.POST_FILTER),
    "NodeResourcesBalancedAllocation": _SCORE_POINTS,
    "ImageLocality": (ExtensionPoint.SCORE,),
    DEFAULT_BINDER: (ExtensionPoint.BIND,),
    "NodeDeclaredFeatures": _FILTER_POINTS,
    "GangScheduling": (ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.RESERVE, ExtensionPoint.PERMIT),
}
# The same with the plugins of other projects that exist here.
POINTS: Mapping[str, tuple[ExtensionPoint, ...]] = {
    **KUBERNETES_POINTS,
    "Coscheduling": (
        ExtensionPoint.QUEUE_SORT,
        ExtensionPoint.PRE_FILTER,
        ExtensionPoint.POST_FILTER,
        ExtensionPoint.RESERVE,
        ExtensionPoint.PERMIT,
    ),
    "TargetLoadPacking": (ExtensionPoint.SCORE,),
    "LoadVariationRiskBalancing": (ExtensionPoint.SCORE,),
    "LowRiskOverCommitment": _SCORE_POINTS,
    "MemRealUsage": (ExtensionPoint.SCORE,),
    "CpuRealUsage": (ExtensionPoint.SCORE,),
    "LoadAwareScheduling": (*_FILTER_POINTS, *_SCORE_POINTS, ExtensionPoint.RESERVE),
}

# Plugins that Kubernetes has removed, and what replaces them.
VOLUME_LIMITS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
REMOVED: Mapping[str, str] = {
    **dict.fromkeys(sorted(VOLUME_LIMITS), "NodeVolumeLimits"),
    "NodeLabel": "NodeAffinity",
    "NodePreferAvoidPods": "TaintToleration",
    "NodeResourcesLeastAllocated": "the scoringStrategy of NodeResourcesFit",
    "NodeResourcesMostAllocated": "the scoringStrategy of NodeResourcesFit",
    "RequestedToCapacityRatio": "the scoringStrategy of NodeResourcesFit",
    "SelectorSpread": "PodTopologySpread",
    "ServiceAffinity": "InterPodAffinity",
}


def default_profile(name: str, tie_break: TieBreak = TieBreak.HASH) -> Profile:
    """The default plugins that exist here, each with its default arguments and weight."""
    built = ((IN_TREE[each](), weight or 1) for each, weight in DEFAULT_PLUGINS.items() if each in IN_TREE)
    return multipoint(name, built, tie_break)


def other_profiles(ours: Iterable[Profile], given: Mapping[str, Profile]) -> tuple[Profile, ...]:
    """The profiles of other schedulers in the cluster: those given, and the stock one unless default-scheduler is ours."""
    known = {each.name for each in ours} | given.keys()
    stock = () if DEFAULT_SCHEDULER in known else (default_profile(DEFAULT_SCHEDULER),)
    return (*stock, *given.values())
