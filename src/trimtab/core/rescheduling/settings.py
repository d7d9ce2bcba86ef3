"""Settings of the rescheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.strategies.interface import Strategy
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization


class Mode(StrEnum):
    """Whether moves are only planned, or carried out."""

    OBSERVE = "observe"
    AUTO = "auto"


# What a move must gain, by name: the fewer moves, the calmer.
EAGERNESS: Mapping[str, float] = MappingProxyType({"calm": 64.0, "balanced": 32.0, "eager": 16.0})


@dataclass(frozen=True, slots=True)
class ReschedulingSettings:
    """Times are in seconds; `limits` are shares of a node's allocatable that its usage should stay below."""

    mode: Mode = Mode.OBSERVE
    interval: float = 300.0
    limits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({CPU: 0.8, MEMORY: 0.9}))
    required_gain: float = EAGERNESS["balanced"]
    strategies: tuple[Strategy, ...] = (ResourceOptimization(),)
    max_moves: int = 20  # in one plan
    cooldown: float = 1800.0
    min_pod_age: float = 300.0
    excluded_namespaces: tuple[str, ...] = ("kube-system", "kube-public", "kube-node-lease")
