"""RemovePodsViolatingNodeTaints: pods leave nodes whose taints they do not tolerate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import setting
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_TAINT, tolerated
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.violations import Violations


@dataclass(frozen=True, slots=True)
class RemovePodsViolatingNodeTaints:
    """A cordon is no reason to leave; NodeMaintenance can drain cordoned nodes."""

    name: ClassVar[str] = "RemovePodsViolatingNodeTaints"

    excluded_taints: tuple[str, ...] = setting(
        (UNSCHEDULABLE_TAINT,),
        f"`[{UNSCHEDULABLE_TAINT}]` unless set: keys of taints that are no reason to leave",
    )

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        cluster = context.cluster

        def violates(pod: Pod, code: int) -> bool:
            node = cluster.node_table.nodes[cluster.node_table.row[pod.node]]
            hard = (taint for taint in node.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE))
            return code != 0 and any(
                taint.key not in self.excluded_taints and not tolerated(taint, pod.spec.tolerations) for taint in hard
            )

        found = Violations(context, "TaintToleration", violates)
        return found.suggestions(self.name, "the pod does not tolerate a taint of its node")
