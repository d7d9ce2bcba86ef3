"""DefaultPreemption: finds room for a pod at the cost of pods of lower priority; acting on it is left to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import FilterStatus, PreemptionCandidate, Reject
from trimtab.core.framework.preempt import dry_run, failure_message, pick_one_node, victims
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import ArgumentError, Support, setting

INT32 = (1 << 31) - 1
PREEMPTION_NEVER = "not eligible due to preemptionPolicy=Never."
VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class DefaultPreemption:
    """Looks at all nodes always, so the two limits on how many are looked at are accepted and change nothing."""

    name: ClassVar[str] = "DefaultPreemption"
    requeue_on: ClassVar[Change] = Change.POD_DELETED
    needs_kinds: ClassVar[tuple[str, ...]] = ("poddisruptionbudgets",)

    min_candidate_nodes_percentage: int = setting(
        10, "all nodes are always candidates for preemption; 0 to 100", between=(0, 100), support=Support.IGNORED
    )
    min_candidate_nodes_absolute: int = setting(
        100,
        "all nodes are always candidates for preemption; not both may be 0",
        between=(0, INT32),
        support=Support.IGNORED,
    )

    def __post_init__(self) -> None:
        if self.min_candidate_nodes_percentage == self.min_candidate_nodes_absolute == 0:
            raise ArgumentError("minCandidateNodesAbsolute", "cannot be 0 while minCandidateNodesPercentage is 0")

    def post_filter(self, view: View, pod: Pod, status: FilterStatus) -> PreemptionCandidate | Reject:
        words = ineligible_reason(view, pod, status)
        if words:
            return Reject(words, unresolvable=False)
        run = dry_run(view, pod, status)
        best = pick_one_node(view, pod, run)
        if best is None:
            return Reject(failure_message(view, pod, status, run).message())
        node = view.nodes[run.rows[best]].name
        return PreemptionCandidate(node, victims(view, run, best), int(run.pdb_violations[best]))


def ineligible_reason(view: View, pod: Pod, status: FilterStatus) -> str:
    """Why the pod may not preempt now; empty when it may."""
    if not pod.may_preempt:
        return PREEMPTION_NEVER
    row = view.row(pod.nominated_node) if pod.nominated_node else None
    if row is None or status.codes[row] < 0:  # what was promised can no longer be had, so it may try again
        return ""
    there = view.pods_on(pod.nominated_node).values()
    leaving = any(each.terminating and each.preempted and each.priority < pod.priority for each in there)
    return VICTIM_TERMINATING if leaving else ""
