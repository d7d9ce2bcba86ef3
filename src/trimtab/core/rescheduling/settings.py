"""Settings of the rescheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.rescheduling.calendar import Window
from trimtab.core.rescheduling.strategies.interface import Strategy
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization


class Mode(StrEnum):
    """Whether moves are only planned, or carried out."""

    OBSERVE = "observe"
    AUTO = "auto"


# What a move must gain, by name: the fewer moves, the calmer.
EAGERNESS: Mapping[str, float] = MappingProxyType({"calm": 64.0, "balanced": 32.0, "eager": 16.0})


# The kinds besides pods and nodes that guards read.
GUARDED_KINDS = ("poddisruptionbudgets", "persistentvolumeclaims", "persistentvolumes", "statefulsets")


@dataclass(frozen=True, slots=True)
class ReschedulingSettings:
    """Times are in seconds; `limits` are shares of a node's allocatable that its usage should stay below.

    What guards refuse: pods by namespace, labels, priority (from `priority_threshold` on), age, local data (emptyDir and
    hostPath volumes) and Jobs; pods of a workload that was created or deleted pods within `settle_time`, or of which more
    than the share `max_unavailable` is missing. No pod is moved outside `windows`, or while metrics are older than
    `max_metrics_age` or more than the share `max_unready_nodes` of the nodes is not ready.
    """

    mode: Mode = Mode.OBSERVE
    interval: float = 300.0
    limits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({CPU: 0.8, MEMORY: 0.9}))
    required_gain: float = EAGERNESS["balanced"]
    strategies: tuple[Strategy, ...] = (ResourceOptimization(),)
    max_moves: int = 20  # in one plan
    cooldown: float = 1800.0
    min_pod_age: float = 300.0
    excluded_namespaces: tuple[str, ...] = ("kube-system", "kube-public", "kube-node-lease")
    excluded_pods: LabelSelector | None = None
    priority_threshold: int | None = None
    allow_local_data: bool = False
    allow_jobs: bool = False
    settle_time: float = 120.0
    max_unavailable: float = 0.1
    max_unready_nodes: float = 0.2
    max_metrics_age: float = 180.0
    windows: tuple[Window, ...] = ()
