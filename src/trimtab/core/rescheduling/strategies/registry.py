"""The strategies that exist here, by name."""

from __future__ import annotations

from trimtab.core.rescheduling.strategies.interface import Strategy
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

IN_TREE_STRATEGIES: dict[str, type[Strategy]] = {ResourceOptimization.name: ResourceOptimization}
