"""ResourceOptimization: pods leave nodes whose usage is above the limit of a resource."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion


@dataclass(frozen=True, slots=True)
class ResourceOptimization:
    """By the newest sample, with the pods that it does not show yet."""

    name: ClassVar[str] = "ResourceOptimization"

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        view = context.cluster.view
        for resource, limit in context.load.limits.items():
            with np.errstate(divide="ignore", invalid="ignore"):
                utilisation = view.load.expected(resource) / view.allocatable(resource)
            hot = np.flatnonzero(utilisation > limit)
            for row in hot[np.argsort(-utilisation[hot], kind="stable")].tolist():
                reason = f"{resource} at {utilisation[row]:.0%}, above {limit:.0%}"
                yield Suggestion(self.name, view.nodes[row].name, reason)
