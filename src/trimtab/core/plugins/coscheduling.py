"""Coscheduling: when a gang may be tried and when enough of it has come together; trying it is left to the engine.

The answers are those of the plugin of this name in kubernetes-sigs/scheduler-plugins. There, members that have found room
hold it while they wait for the others; here the engine tries all members in one turn and holds nothing for a gang that is
not complete, so `pod_group_reject_percentage` is accepted and has nothing to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.cells import Ints
from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import PODS
from trimtab.core.placing.contract import Gang, Go, Refuse, Staged, Wait


@dataclass(frozen=True, slots=True)
class Coscheduling:
    """Seconds that a gang has to come together where its PodGroup names none, and seconds between two failed tries."""

    name: ClassVar[str] = "Coscheduling"
    woken_by: ClassVar[Change] = Change.NODE_ADDED | Change.ALLOCATABLE | Change.POD_LEFT
    watches: ClassVar[tuple[str, ...]] = ("podgroups",)

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10

    def __post_init__(self) -> None:
        if self.permit_waiting_time_seconds < 0:
            raise ValueError("permitWaitingTimeSeconds must be 0 or more")
        if self.pod_group_backoff_seconds < 0:
            raise ValueError("podGroupBackoffSeconds must be 0 or more")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            raise ValueError("podGroupRejectPercentage must be from 0 to 100")

    def order(self, pod: Pod, since: float) -> tuple[float, ...]:
        return (-pod.priority, since)

    def since(self, gang: Gang, since: float) -> float:
        """Members of one gang stand together: by the age of their group, or behind others once a try has failed."""
        if gang.group is None:
            return since
        return gang.group.created if gang.failed is None else gang.failed

    def gather(self, view: View, pod: Pod, gang: Gang) -> Refuse | None:
        """PreFilter: are enough members there, is none of those needed held back, and could the cluster carry them?"""
        group = gang.group
        if group is None:
            return None
        if gang.resting:
            return Refuse(f"podGroup {gang.key} failed recently")
        if len(gang.members) < group.min_member:
            found = f"current pods number: {len(gang.members)}, minMember of group: {group.min_member}"
            return Refuse(f"pre-filter pod {pod.name} cannot find enough sibling pods, {found}")
        if sum(not each.gates for each in gang.members.values()) < group.min_member:
            return Refuse(f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup")
        lacking = [] if gang.passed else self.lacking(view, gang)
        return Refuse(f"resource gap: {', '.join(lacking)}") if lacking else None

    def lacking(self, view: View, gang: Gang) -> list[str]:
        """Resources of which all nodes together have too little for `minResources`, the gang's own pods left out."""
        if gang.group is None or gang.group.min_resources is None:
            return []
        wanted = {**dict(gang.group.min_resources.amounts), PODS: gang.group.min_member}
        return [name for name, amount in wanted.items() if _most(_free(view, gang, name)) < amount]

    def quorum(self, gang: Gang) -> Staged:
        """Permit: do so many stand that all may go on?"""
        if gang.group is None:
            return Refuse("PodGroup not found", final=False)
        if len(gang.standing) >= gang.group.min_member:
            return Go.GO
        return Wait(float(gang.group.timeout or self.permit_waiting_time_seconds))

    def rest(self, gang: Gang) -> float:
        """Seconds until a gang that has failed may be tried again; one that was not complete may at once."""
        complete = gang.group is not None and len(gang.members) >= gang.group.min_member
        return float(self.pod_group_backoff_seconds) if complete else 0.0

    def rejected(self, pod: Pod, gang: Gang) -> Refuse:
        """PostFilter: what is said of the whole gang when one of its pods fits nowhere."""
        if gang.group is None:
            return Refuse("can not find pod group", final=False)
        missing = gang.group.min_member - len(gang.standing)
        if missing * 100 <= self.pod_group_reject_percentage * gang.group.min_member:
            return Refuse("", final=False)
        words = f"PodGroup {gang.key} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        return Refuse(words, final=False)


def _free(view: View, gang: Gang, resource: str) -> Ints:
    taken = view.pod_count if resource == PODS else view.requested(resource)
    free = view.allocatable(resource) - taken
    for uid, node in gang.standing.items():
        row, pod = view.row(node), gang.members.get(uid)
        if row is not None and pod is not None:
            free[row] += 1 if resource == PODS else pod.demand.of(resource)
    return free


def _most(free: Ints) -> float:
    """What is found on the way through all nodes at best: those after need not be looked at, however overfull they are."""
    return float(np.cumsum(free, dtype=np.float64).max(initial=0.0))
