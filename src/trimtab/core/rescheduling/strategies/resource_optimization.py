"""ResourceOptimization: pods leave nodes whose usage is above the limit of a resource, or a little below it.

A node close to its limit is not hot, but may have been so often enough for a move to be worth it before it is again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import PERCENTAGE, check_ranges, setting
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.utilisation import expected_utilisation, highest_first


@dataclass(frozen=True, slots=True)
class ResourceOptimization:
    """By the newest sample, with the pods that it does not show yet."""

    name: ClassVar[str] = "ResourceOptimization"

    cpu_threshold: float | None = setting(
        None, "the limit of CPU unless set: percent of allocatable above which pods should leave", **PERCENTAGE
    )
    memory_threshold: float | None = setting(
        None, "the limit of memory unless set: percent of allocatable above which pods should leave", **PERCENTAGE
    )

    margin: float = setting(
        5.0,
        "5 unless set: from so many percentage points below the limit on pods may leave, if the past makes that worth it",
        between=(0, 100),
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        view = context.cluster.view
        for resource, limit in self._limits(context.load.limits).items():
            utilisation = expected_utilisation(view, resource)
            for row in highest_first(utilisation > limit - self.margin / 100, utilisation):
                is_hot = bool(utilisation[row] > limit)
                reason = f"{resource} at {utilisation[row]:.0%}, {'above' if is_hot else 'near'} {limit:.0%}"
                yield Suggestion(self.name, view.nodes[row].name, reason, is_hot=is_hot)

    def _limits(self, limits: Mapping[str, float]) -> dict[str, float]:
        own = {CPU: self.cpu_threshold, MEMORY: self.memory_threshold}
        return {**limits, **{name: percent / 100 for name, percent in own.items() if percent is not None}}
