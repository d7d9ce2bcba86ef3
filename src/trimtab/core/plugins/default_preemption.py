"""DefaultPreemption: finds room for a pod at the cost of pods of lower priority; acting on it is left to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import Refuse, Room, Stuck
from trimtab.core.placing.preempt import chosen, dry_run, refusals, victims

NEVER = "not eligible due to preemptionPolicy=Never."
LEAVING = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class DefaultPreemption:
    """Looks at all nodes always, so the two limits on how many are looked at are accepted and change nothing."""

    name: ClassVar[str] = "DefaultPreemption"
    woken_by: ClassVar[Change] = Change.POD_LEFT
    watches: ClassVar[tuple[str, ...]] = ("poddisruptionbudgets",)

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def post_filter(self, view: View, pod: Pod, stuck: Stuck) -> Room | Refuse:
        words = ineligible(view, pod, stuck)
        if words:
            return Refuse(words, final=False)
        run = dry_run(view, pod, stuck)
        best = chosen(view, pod, run)
        if best is None:
            return Refuse(refusals(view, pod, stuck, run).message())
        node = view.nodes[run.rows[best]].name
        return Room(node, victims(view, run, best), int(run.violations[best]))


def ineligible(view: View, pod: Pod, stuck: Stuck) -> str:
    """Why the pod may not preempt now; empty when it may."""
    if not pod.preempts:
        return NEVER
    row = view.row(pod.nominated) if pod.nominated else None
    if row is None or stuck.codes[row] < 0:  # what was promised can no longer be had, so it may try again
        return ""
    there = view.pods_on(pod.nominated).values()
    leaving = any(each.deleting and each.preempted and each.priority < pod.priority for each in there)
    return LEAVING if leaving else ""
