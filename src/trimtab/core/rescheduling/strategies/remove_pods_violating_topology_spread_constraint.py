"""RemovePodsViolatingTopologySpreadConstraint: pods leave domains that have too many of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.violations import Violations


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingTopologySpreadConstraint:
    """Constraints with `DoNotSchedule` only; where no domain has room for one more, the skew stays."""

    name: ClassVar[str] = "RemovePodsViolatingTopologySpreadConstraint"

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        found = Violations(
            context, "PodTopologySpread", lambda pod, code: code > 0
        )  # below 0 the node has no such label
        return found.suggestions(self.name, "the domain of the pod's node exceeds the pod's topology spread constraint")
