"""RemovePodsViolatingInterPodAntiAffinity: pods leave where required anti-affinity forbids them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.violations import Violations


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingInterPodAntiAffinity:
    """The pod's own terms and those of the pods around it; of two pods that exclude each other one leaves."""

    name: ClassVar[str] = "RemovePodsViolatingInterPodAntiAffinity"

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        found = Violations(context, "InterPodAffinity", lambda pod, code: code > 0)  # below 0 is affinity
        return found.suggestions(self.name, "required anti-affinity between the pod and another forbids its node")
