"""Coscheduling: when a gang may be tried, and when enough of its members have a node.

The results are those of the plugin of this name in kubernetes-sigs/scheduler-plugins. There, members that have a node
hold it while they wait for the others; here the engine tries all members in one turn and holds nothing for an
incomplete gang, so `pod_group_reject_percentage` is accepted and has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Gang, Reject, StageResult, StageStatus, Wait
from trimtab.core.model.change import Change
from trimtab.core.model.duration import INT64
from trimtab.core.model.objects import pod_group_key
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import PODS
from trimtab.core.model.setting import Support, check_ranges, setting
from trimtab.core.tables import Ints


@dataclass(frozen=True, slots=True)
class Coscheduling:
    """Seconds to wait for a gang whose PodGroup names no timeout, and seconds between failed attempts."""

    name: ClassVar[str] = "Coscheduling"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.ALLOCATABLE | Change.POD_DELETED
    needs_kinds: ClassVar[tuple[str, ...]] = ("podgroups",)

    permit_waiting_time_seconds: int = setting(
        60, "60 unless set: how long members wait for the rest of their group", between=(0, INT64)
    )
    pod_group_backoff_seconds: int = setting(
        0, "0 unless set: how long a group that failed is not tried again", between=(0, INT64)
    )
    pod_group_reject_percentage: int = setting(
        10, "no member holds resources while it waits; 0 to 100", between=(0, 100), support=Support.IGNORED
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def needs_kinds_for(self, pod: Pod) -> bool:
        return bool(pod_group_key(pod))

    def queue_sort_key(self, pod: Pod, queued_at: float) -> tuple[float, ...]:
        return (-pod.priority, queued_at)

    def gang_queued_at(self, gang: Gang, queued_at: float) -> float:
        """Members of a gang queue together: by the creation time of their group, or by the last failed attempt."""
        if gang.group is None:
            return queued_at
        return gang.group.created if gang.failed_at is None else gang.failed_at

    def pre_filter_gang(self, view: View, pod: Pod, gang: Gang) -> Reject | None:
        """PreFilter: do enough members exist, are enough of them ungated, and does the cluster have the resources?"""
        group = gang.group
        if group is None:
            return None
        if gang.backing_off:
            return Reject(f"podGroup {gang.key} failed recently")
        if len(gang.members) < group.min_member:
            counts = f"current pods number: {len(gang.members)}, minMember of group: {group.min_member}"
            return Reject(f"pre-filter pod {pod.name} cannot find enough sibling pods, {counts}")
        if sum(not each.scheduling_gates for each in gang.members.values()) < group.min_member:
            return Reject(f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup")
        insufficient = [] if gang.resources_checked else self.insufficient_resources(view, gang)
        return Reject(f"resource gap: {', '.join(insufficient)}") if insufficient else None

    def insufficient_resources(self, view: View, gang: Gang) -> list[str]:
        """Resources of which all nodes together have less than `minResources`, not counting the gang's own pods."""
        if gang.group is None or gang.group.min_resources is None:
            return []
        required = {**dict(gang.group.min_resources.amounts), PODS: gang.group.min_member}
        return [
            name for name, amount in required.items() if _max_running_sum(_free_without_gang(view, gang, name)) < amount
        ]

    def permit_gang(self, gang: Gang) -> StageResult:
        """Permit: do enough members have a node?"""
        if gang.group is None:
            return Reject("PodGroup not found", unresolvable=False)
        if len(gang.placed) >= gang.group.min_member:
            return StageStatus.SUCCESS
        return Wait(float(gang.group.timeout or self.permit_waiting_time_seconds))

    def gang_backoff(self, gang: Gang) -> float:
        """Seconds until a gang that failed may be tried again; 0 for one that was incomplete."""
        complete = gang.group is not None and len(gang.members) >= gang.group.min_member
        return float(self.pod_group_backoff_seconds) if complete else 0.0

    def post_filter_rejection(self, pod: Pod, gang: Gang) -> Reject:
        """PostFilter: the message for the whole gang when one of its pods is unschedulable."""
        if gang.group is None:
            return Reject("can not find pod group", unresolvable=False)
        missing = gang.group.min_member - len(gang.placed)
        if missing * 100 <= self.pod_group_reject_percentage * gang.group.min_member:
            return Reject("", unresolvable=False)
        message = f"PodGroup {gang.key} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        return Reject(message, unresolvable=False)


def _free_without_gang(view: View, gang: Gang, resource: str) -> Ints:
    taken = view.pod_count if resource == PODS else view.requested(resource)
    free = view.allocatable(resource) - taken
    for uid, node in gang.placed.items():
        row, pod = view.row(node), gang.members.get(uid)
        if row is not None and pod is not None:
            free[row] += 1 if resource == PODS else pod.requests.of(resource)
    return free


def _max_running_sum(free: Ints) -> float:
    """The most found while summing over all nodes: upstream stops there, so later, overcommitted nodes do not count."""
    return float(np.cumsum(free, dtype=np.float64).max(initial=0.0))
