"""The strategies that exist here, by name, and the rivals of the simulator.

A new strategy takes its file, its test, its import and its line here. Those of other packages are found by `apps`.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import DeschedulerLowNodeUtilization
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import KoordinatorLowNodeLoad
from trimtab.core.rescheduling.strategies.consolidate import Consolidate
from trimtab.core.rescheduling.strategies.hot_spot import HotSpot
from trimtab.core.rescheduling.strategies.interface import RivalStrategy, Strategy
from trimtab.core.rescheduling.strategies.load_balancing import LoadBalancing
from trimtab.core.rescheduling.strategies.node_maintenance import NodeMaintenance
from trimtab.core.rescheduling.strategies.pod_count_balancing import PodCountBalancing
from trimtab.core.rescheduling.strategies.remove_duplicates import RemoveDuplicates
from trimtab.core.rescheduling.strategies.remove_pods_violating_inter_pod_anti_affinity import (
    RemovePodsViolatingInterPodAntiAffinity,
)
from trimtab.core.rescheduling.strategies.remove_pods_violating_node_affinity import RemovePodsViolatingNodeAffinity
from trimtab.core.rescheduling.strategies.remove_pods_violating_node_taints import RemovePodsViolatingNodeTaints
from trimtab.core.rescheduling.strategies.remove_pods_violating_topology_spread_constraint import (
    RemovePodsViolatingTopologySpreadConstraint,
)
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

_BUILTIN: tuple[type[Strategy], ...] = (
    NodeMaintenance,
    ResourceOptimization,
    HotSpot,
    LoadBalancing,
    PodCountBalancing,
    RemovePodsViolatingNodeTaints,
    RemovePodsViolatingNodeAffinity,
    RemovePodsViolatingInterPodAntiAffinity,
    RemovePodsViolatingTopologySpreadConstraint,
    RemoveDuplicates,
    Consolidate,
)
_RIVALS: tuple[type[RivalStrategy], ...] = (DeschedulerLowNodeUtilization, KoordinatorLowNodeLoad)

STRATEGIES: Mapping[str, type[Strategy]] = {strategy.name: strategy for strategy in _BUILTIN}
RIVALS: Mapping[str, type[RivalStrategy]] = {rival.name: rival for rival in _RIVALS}
