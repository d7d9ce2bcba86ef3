"""RemovePodsViolatingNodeAffinity: pods leave nodes that their node selector or affinity no longer allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.violations import Violations


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingNodeAffinity:
    """Labels of a node may have changed since the pod was placed; preferred terms are no reason to leave."""

    name: ClassVar[str] = "RemovePodsViolatingNodeAffinity"

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        found = Violations(context, "NodeAffinity", lambda pod, code: code != 0)
        return found.suggestions(self.name, "the pod's node selector or required node affinity does not match its node")
