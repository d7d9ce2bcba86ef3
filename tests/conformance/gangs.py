"""Runs recorded steps of gangs through Coscheduling and returns the results in the recorded format.

The recorded plugin keeps state between steps: permitted pods, gangs whose resources were checked, and gangs that failed
recently. Here the engine keeps it, so this module stands in for the engine as upstream does it: a permitted pod is placed,
and an unreserved one is removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tests.conformance.corpus import Case, Unreadable, cluster_of, read_pod
from tests.conformance.single_plugin import SUCCESS, _seconds, rejection
from trimtab.core.framework.interface import Gang, Reject, Wait
from trimtab.core.model.objects import PodGroup, pod_group_key
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.wire.decoding import Malformed
from trimtab.wire.objects import pod_groups

GROUPS = pod_groups()
FIRST_FAILURE_AT = 1e10
GAP = "resource gap"  # to which the recording shortens the words


def answer(plugin: Coscheduling, case: Case) -> dict[str, Any]:
    steps = Steps(plugin, case)
    return {"steps": [steps.run(step) for step in case["steps"]]}


def read_group(data: Mapping[str, Any]) -> PodGroup:
    named = {**data, "metadata": {"uid": data["metadata"]["name"], **data["metadata"]}}
    group = GROUPS.read(json.dumps(named).encode())
    if isinstance(group, Malformed):
        raise Unreadable(str(group))
    return group


class Steps:
    """One plugin, the cluster of a case, and the state that upstream's plugin would keep."""

    def __init__(self, plugin: Coscheduling, case: Case) -> None:
        self.plugin, self.case, self.cluster = plugin, case, cluster_of(case)
        for group in case["podGroups"]:
            self.cluster.upsert_object(read_group(group))
        self.pods = {pod.name: pod for pod in map(read_pod, case["pendingPods"])}
        self.known = {pod.uid: pod for pod in (*self.cluster.pods.values(), *self.pods.values())}
        self.permitted: dict[str, Pod] = {}
        self.resources_checked: set[str] = set()
        self.backing_off: set[str] = set()
        self.failed_at: dict[str, float] = {}
        self.count = 0

    def run(self, step: Mapping[str, str]) -> dict[str, Any]:
        handlers: dict[str, Callable[[Pod], dict[str, Any]]] = {
            "preFilter": self.pre_filter,
            "permit": self.permit,
            "unreserve": self.unreserve,
            "postFilter": self.post_filter,
            "less": lambda pod: {"less": self.key(pod) < self.key(self.pods[step["other"]])},
        }
        return handlers[step["op"]](self.pods[step["pod"]])

    def gang(self, pod: Pod) -> Gang:
        key = pod_group_key(pod)
        members = {uid: each for uid, each in self.known.items() if pod_group_key(each) == key}
        bound = {uid: each.node for uid, each in members.items() if each.node}
        assumed = {uid: "" for uid, each in self.permitted.items() if pod_group_key(each) == key}
        group = self.cluster.objects.of_kind(PodGroup).get(key)
        history = (self.failed_at.get(key), key in self.backing_off, key in self.resources_checked)
        return Gang(key, group, members, {**assumed, **bound}, *history)

    def record_failure(self, gang: Gang) -> None:
        """No time passes in a case, but what fails later is queued later; all of it is long after the recorded times."""
        self.failed_at[gang.key] = FIRST_FAILURE_AT + self.count
        self.count += 1
        self.resources_checked.discard(gang.key)

    def pre_filter(self, pod: Pod) -> dict[str, Any]:
        gang = self.gang(pod)
        rejected = self.plugin.pre_filter_gang(self.cluster.view, pod, gang) if gang.key else None
        if rejected is None:
            self.resources_checked |= {gang.key} if gang.group and gang.group.min_resources else set()
            return {**SUCCESS}
        return rejection(rejected.unresolvable, (GAP if rejected.reason.startswith(GAP) else rejected.reason,))

    def permit(self, pod: Pod) -> dict[str, Any]:
        if not pod_group_key(pod):
            return {**SUCCESS, "waitSeconds": 0}
        gang = self.gang(pod)
        if gang.group is not None:
            self.permitted[pod.uid] = pod
        match self.plugin.permit_gang(self.gang(pod)):
            case Reject(reason, unresolvable):
                return {**rejection(unresolvable, (reason,)), "waitSeconds": 0}
            case Wait(seconds):
                return {"code": "Wait", "waitSeconds": int(seconds)}
        self.failed_at.pop(gang.key, None)
        return {**SUCCESS, "waitSeconds": 0}

    def unreserve(self, pod: Pod) -> dict[str, Any]:
        if self.gang(pod).group is not None:
            self.permitted.pop(pod.uid, None)
            self.record_failure(self.gang(pod))
        return {}

    def post_filter(self, pod: Pod) -> dict[str, Any]:
        gang = self.gang(pod)
        rejected = self.plugin.post_filter_rejection(pod, gang)
        if rejected.reason.startswith("PodGroup"):
            self.record_failure(gang)
            self.backing_off |= {gang.key} if self.plugin.gang_backoff(gang) else set()
        return rejection(rejected.unresolvable, (rejected.reason,) if rejected.reason else ())

    def key(self, pod: Pod) -> tuple[tuple[float, ...], str]:
        """Ties go by name; the queue's own go by UID, which is as good where members of a gang go together."""
        first_attempt = self.case.get("initialAttemptTimestamps", {}).get(pod.name)
        queued_at = (
            self.plugin.gang_queued_at(self.gang(pod), _seconds(first_attempt) if first_attempt else 0.0)
            if pod_group_key(pod)
            else None
        )
        return self.plugin.queue_sort_key(pod, _seconds(first_attempt) if queued_at is None else queued_at), replace(
            pod, node=""
        ).key
