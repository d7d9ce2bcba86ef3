"""Explanations of pods and nodes: why this node, why not that one, why none.

A decision is explained as it would be made now, with the pod's own placement left out; what was decided at the time stands
beside it, from the ring of past decisions. Explaining changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import evaluate
from trimtab.core.framework.explain import Explanation, NodeRow, explain, node_rows
from trimtab.core.framework.profile import Profile
from trimtab.core.model.objects import pod_group_key
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.schedule_result import Decision, Placement
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.pod_events import ignored_group_note
from trimtab.core.scheduling.waiting import Waiting, waiting_of

NODES_SHOWN = 20
PODS_SHOWN = 20
DECISIONS_SHOWN = 10
STANDBY = "this process is a standby: ask the leader for its decisions"


class PastDecision(Struct, frozen=True):
    """A decision as it was made."""

    at: float
    attempt: int
    node: str
    words: str


class PodExplanation(Struct, frozen=True):
    """A pod: its state, past decisions, and the table as of now with the best nodes and those that were asked about."""

    pod: str
    scheduler: str
    state: str
    node: str
    verdict: str
    lines: tuple[NodeRow, ...]
    nodes: int
    past: tuple[PastDecision, ...]
    standby: str = ""  # a note, unless this process leads
    waiting: Waiting | None = None
    stock: str = ""  # what kube-scheduler's own profile would choose now
    note: str = ""  # that the label of its pod group is ignored


class ResourceUse(Struct, frozen=True):
    """One resource of one node in the units of requests; None where no sample is trusted."""

    resource: str
    allocatable: int
    requested: int
    latest: float | None
    expected: float | None
    trust: float


class WaitingPod(Struct, frozen=True):
    """A pending pod and the node's row in its table."""

    pod: str
    line: NodeRow


class NodeExplanation(Struct, frozen=True):
    """A node: its resources, its pods, the last pods scheduled to it, and how it ranks for pending pods."""

    node: str
    state: str
    uses: tuple[ResourceUse, ...]
    pods: tuple[str, ...]
    waiting: tuple[WaitingPod, ...]
    past: tuple[PastDecision, ...]
    standby: str = ""


def explain_now(scheduling: Scheduling, pod: Pod) -> Explanation:
    """The whole table for the pod, without the pod's own placement."""
    profile = scheduling.state.settings.profile_of(pod.scheduler_name)
    if profile is None:
        return Explanation(pod.key, f"no profile is named {pod.scheduler_name}", "", ())
    excluded = scheduling.evaluator.not_evaluated(pod, profile)
    if excluded is not None:
        return Explanation(pod.key, excluded.message(), "", ())
    unbound = replace(pod, node="")  # else the NodeName filter would reject every other node
    try:
        return explain(
            view_without_pod(scheduling.state.cluster, pod), unbound, profile, scheduling.evaluator.nominated()
        )
    except Exception as error:  # the plugin that fails is the answer
        return Explanation(pod.key, _plugin_error(error), "", ())


def view_without_pod(cluster: Cluster, pod: Pod) -> View:
    placed = cluster.placements.get(pod.uid)
    return cluster.view if placed is None else cluster.view.with_pods({}, {placed.node: [placed.pod]})


def find_pod(cluster: Cluster, key: str) -> Pod | None:
    """The newest pod of this namespace/name: one that has finished may still be listed beside its successor."""
    return max((pod for pod in cluster.pods.values() if pod.key == key), key=lambda pod: pod.created, default=None)


def explain_pod(scheduling: Scheduling, pod: Pod, wanted: Iterable[str] = ()) -> PodExplanation:
    """Everything about the pod; the rows of `wanted` nodes are shown however they rank."""
    now = explain_now(scheduling, pod)
    named = {*wanted, pod.node}
    best = now.rows[:NODES_SHOWN]
    more = tuple(line for line in now.rows[NODES_SHOWN:] if line.node in named)
    decisions = [each for each in scheduling.decisions if each.uid == pod.uid][-DECISIONS_SHOWN:]
    return PodExplanation(
        pod.key,
        pod.scheduler_name,
        state_of(scheduling, pod),
        pod.node,
        now.verdict,
        (*best, *more),
        len(now.rows),
        tuple(_past(each) for each in decisions),
        _standby(scheduling),
        waiting_of(scheduling.queue, pod.uid, pod),
        _stock_choice(scheduling, pod),
        _ignored_group(scheduling, pod),
    )


def _ignored_group(scheduling: Scheduling, pod: Pod) -> str:
    """As the Event PodGroupIgnored says it, which only the first pod of a group gets."""
    profile, group = scheduling.state.settings.profile_of(pod.scheduler_name), pod_group_key(pod)
    return (
        ignored_group_note(group, profile.name) if group and profile is not None and profile.gang_plugin is None else ""
    )


def _stock_choice(scheduling: Scheduling, pod: Pod) -> str:
    view = view_without_pod(scheduling.state.cluster, pod)
    try:
        return scheduling.evaluator.stock_choice(view, replace(pod, node=""))
    except Exception as error:  # what our own profile says is still shown
        return _plugin_error(error)


def _standby(scheduling: Scheduling) -> str:
    return STANDBY if scheduling.state.term is None else ""


def state_of(scheduling: Scheduling, pod: Pod) -> str:
    """Where the pod is between creation and binding, as a phrase."""
    if pod.finished:
        return f"has finished ({pod.phase})"
    if pod.node:
        return f"is bound to {pod.node}"
    if (cycle := scheduling.bindings.by_uid.get(pod.uid)) is not None:
        return f"is being bound to {cycle.node} ({cycle.state.value})"
    if (waiting := scheduling.queue.pods.get(pod.uid)) is not None:
        by = f", because of {', '.join(waiting.plugins)}" if waiting.plugins else ""
        return f"waits ({waiting.state.value}) after {waiting.attempts} attempt(s){by}"
    return "is not scheduled by this process"


def explain_node(scheduling: Scheduling, name: str) -> NodeExplanation | None:
    """Everything about the node; None if it is unknown."""
    cluster = scheduling.state.cluster
    row = cluster.node_table.row.get(name)
    if row is None:
        return None
    node = cluster.node_table.nodes[row]
    conditions = [*(["cordoned"] if node.unschedulable else []), *(["not ready"] if not node.ready else [])]
    sent = [each for each in scheduling.decisions if getattr(each.verdict, "node", "") == name]
    return NodeExplanation(
        name,
        ", ".join(conditions) or "schedulable",
        tuple(_use(cluster.view, row, resource) for resource in (CPU, MEMORY)),
        tuple(sorted(pod.key for pod in cluster.on_node.get(name, {}).values())),
        tuple(_waiting_pods(scheduling, row)),
        tuple(_past(each) for each in sent[-DECISIONS_SHOWN:]),
        _standby(scheduling),
    )


def _use(view: View, row: int, resource: str) -> ResourceUse:
    load = view.load
    return ResourceUse(
        resource,
        int(view.allocatable(resource)[row]),
        int(view.requested(resource)[row]),
        _finite(load.latest(resource)[row]),
        _finite(load.expected(resource)[row]),
        float(load.trust(resource)[row]),
    )


def _finite(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _waiting_pods(scheduling: Scheduling, row: int) -> Iterable[WaitingPod]:
    for uid in list(scheduling.queue.pods)[:PODS_SHOWN]:
        pod = scheduling.state.cluster.pods[uid]
        profile = scheduling.state.settings.profile_of(pod.scheduler_name)
        if profile is not None:
            yield WaitingPod(
                pod.key, _line(scheduling.state.cluster.view, row, pod, profile, scheduling.evaluator.nominated())
            )


def _line(view: View, row: int, pod: Pod, profile: Profile, nominated: Iterable[Pod]) -> NodeRow:
    try:
        (line,) = node_rows(view, pod, evaluate(view, pod, profile), nominated, (row,))
    except Exception as error:  # the rows of other pods are still shown
        return NodeRow(view.nodes[row].name, profile.name, (_plugin_error(error),))
    return line


def _plugin_error(error: Exception) -> str:
    return f"a plugin failed: {type(error).__name__}: {error}"


def _past(decision: Decision) -> PastDecision:
    verdict = decision.verdict
    if isinstance(verdict, Placement):
        words = f"{decision.pod}: best of {verdict.feasible} of {verdict.nodes} nodes"
        return PastDecision(decision.at, decision.attempt, verdict.node, words)
    return PastDecision(decision.at, decision.attempt, "", f"{decision.pod}: {verdict.message()}")
