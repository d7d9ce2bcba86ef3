"""Runs recorded steps of gangs through Coscheduling and returns the results in the recorded format.

The recorded plugin remembers between steps who was permitted, which gang has passed the look at its resources, and which
has failed of late. Here that is the engine's business, so this file plays the engine as upstream has it: a permitted pod
takes a place, and an unreserved one gives it back.
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
AFTERWARDS = 1e10
GAP = "resource gap"  # to which the recording shortens the words


def answer(plugin: Coscheduling, case: Case) -> dict[str, Any]:
    steps = Steps(plugin, case)
    return {"steps": [steps.take(step) for step in case["steps"]]}


def read_group(data: Mapping[str, Any]) -> PodGroup:
    named = {**data, "metadata": {"uid": data["metadata"]["name"], **data["metadata"]}}
    group = GROUPS.read(json.dumps(named).encode())
    if isinstance(group, Malformed):
        raise Unreadable(str(group))
    return group


class Steps:
    """One plugin, the cluster of a case, and what upstream's plugin would remember."""

    def __init__(self, plugin: Coscheduling, case: Case) -> None:
        self.plugin, self.case, self.cluster = plugin, case, cluster_of(case)
        for group in case["podGroups"]:
            self.cluster.upsert_object(read_group(group))
        self.pods = {pod.name: pod for pod in map(read_pod, case["pendingPods"])}
        self.known = {pod.uid: pod for pod in (*self.cluster.pods.values(), *self.pods.values())}
        self.permitted: dict[str, Pod] = {}
        self.passed: set[str] = set()
        self.resting: set[str] = set()
        self.failed: dict[str, float] = {}
        self.count = 0

    def take(self, step: Mapping[str, str]) -> dict[str, Any]:
        ways: dict[str, Callable[[Pod], dict[str, Any]]] = {
            "preFilter": self.pre_filter,
            "permit": self.permit,
            "unreserve": self.unreserve,
            "postFilter": self.post_filter,
            "less": lambda pod: {"less": self.key(pod) < self.key(self.pods[step["other"]])},
        }
        return ways[step["op"]](self.pods[step["pod"]])

    def gang(self, pod: Pod) -> Gang:
        key = pod_group_key(pod)
        members = {uid: each for uid, each in self.known.items() if pod_group_key(each) == key}
        bound = {uid: each.node for uid, each in members.items() if each.node}
        flying = {uid: "" for uid, each in self.permitted.items() if pod_group_key(each) == key}
        group = self.cluster.objects.of_kind(PodGroup).get(key)
        past = (self.failed.get(key), key in self.resting, key in self.passed)
        return Gang(key, group, members, {**flying, **bound}, *past)

    def fails(self, gang: Gang) -> None:
        """No time passes in a case, but what fails later is queued later; all of it is long after the recorded times."""
        self.failed[gang.key] = AFTERWARDS + self.count
        self.count += 1
        self.passed.discard(gang.key)

    def pre_filter(self, pod: Pod) -> dict[str, Any]:
        gang = self.gang(pod)
        refused = self.plugin.pre_filter_gang(self.cluster.view, pod, gang) if gang.key else None
        if refused is None:
            self.passed |= {gang.key} if gang.group and gang.group.min_resources else set()
            return {**SUCCESS}
        return rejection(refused.unresolvable, (GAP if refused.reason.startswith(GAP) else refused.reason,))

    def permit(self, pod: Pod) -> dict[str, Any]:
        if not pod_group_key(pod):
            return {**SUCCESS, "waitSeconds": 0}
        gang = self.gang(pod)
        if gang.group is not None:
            self.permitted[pod.uid] = pod
        match self.plugin.permit_gang(self.gang(pod)):
            case Reject(reason, final):
                return {**rejection(final, (reason,)), "waitSeconds": 0}
            case Wait(seconds):
                return {"code": "Wait", "waitSeconds": int(seconds)}
        self.failed.pop(gang.key, None)
        return {**SUCCESS, "waitSeconds": 0}

    def unreserve(self, pod: Pod) -> dict[str, Any]:
        if self.gang(pod).group is not None:
            self.permitted.pop(pod.uid, None)
            self.fails(self.gang(pod))
        return {}

    def post_filter(self, pod: Pod) -> dict[str, Any]:
        gang = self.gang(pod)
        refused = self.plugin.post_filter_rejection(pod, gang)
        if refused.reason.startswith("PodGroup"):
            self.fails(gang)
            self.resting |= {gang.key} if self.plugin.gang_backoff(gang) else set()
        return rejection(refused.unresolvable, (refused.reason,) if refused.reason else ())

    def key(self, pod: Pod) -> tuple[tuple[float, ...], str]:
        """Ties go by name; the queue's own go by UID, which is as good where members of a gang go together."""
        first = self.case.get("initialAttemptTimestamps", {}).get(pod.name)
        since = (
            self.plugin.gang_queued_at(self.gang(pod), _seconds(first) if first else 0.0)
            if pod_group_key(pod)
            else None
        )
        return self.plugin.queue_sort_key(pod, _seconds(first) if since is None else since), replace(pod, node="").key
