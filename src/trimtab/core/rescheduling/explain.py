"""Explains what the rescheduler makes of a node: which strategies suggest it, and why each of its pods moves or stays.

Everything is as it would be planned now, by the guards, the objective and the filters that plans use; past plans stand beside
it. Explaining changes nothing. It is done in steps, on a fork of the cluster, so that pods are scheduled in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from msgspec import Struct

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.profile import Profile
from trimtab.core.model.pod import Pod
from trimtab.core.model.steps import Steps, finish
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.disruption import disruption_cost
from trimtab.core.rescheduling.guards import GuardContext, cluster_refusal, refusal
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.rescheduling.plan_history import PastPlan
from trimtab.core.rescheduling.planner import open_nodes
from trimtab.core.rescheduling.rehearsal import Rehearsal
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion, replaceable
from trimtab.core.rescheduling.strategy_record import STRATEGY_RECORD

PODS_SHOWN = 20  # of those that no guard refuses, by gain
ProfileOf = Callable[[str], Profile | None]


class LimitedUse(Struct, frozen=True):
    """The usage of a resource and its limit, as shares of what is allocatable; None where no sample is trusted."""

    resource: str
    usage: float | None
    limit: float


class Suggested(Struct, frozen=True):
    """A strategy that suggests the node; `pods` are those it names, none for any of them."""

    strategy: str
    reason: str
    pods: tuple[str, ...] = ()


class PodOutlook(Struct, frozen=True):
    """Why a pod stays, by the guard that refuses to move it; or else its best target, with what the move gains and costs."""

    pod: str
    guard: str = ""
    reason: str = ""
    target: str = ""
    gain: float = 0.0
    cost: float = 0.0


class NodePlan(Struct, frozen=True):
    """What a past plan had to do with the node."""

    at: float
    words: str


class NodeOutlook(Struct, frozen=True):
    """What the rescheduler makes of a node; `verdict` is the answer in one sentence."""

    node: str
    mode: str
    verdict: str
    uses: tuple[LimitedUse, ...] = ()
    penalty: float | None = None
    suggested: tuple[Suggested, ...] = ()
    silent: tuple[str, ...] = ()  # strategies that do not suggest it
    pods: tuple[PodOutlook, ...] = ()
    more_pods: int = 0
    plans: tuple[NodePlan, ...] = ()


def explain_rescheduling(controller: Rescheduling, node: str) -> NodeOutlook | None:
    """At once; None without a rescheduler, or if the node is not known."""
    steps = outlook_steps(controller, node)
    return None if steps is None else finish(steps)


def outlook_steps(controller: Rescheduling, node: str) -> Steps[NodeOutlook] | None:
    """The same step by step."""
    settings, state = controller.settings, controller.state
    if settings is None or settings.rivals or node not in state.cluster.node_table.row:
        return None
    context = controller.execution.guard_context(controller.history.now)
    guards = replace(context, cluster=state.cluster.fork(), forbidden=state.forbidden.copy())
    plans = tuple(NodePlan(each.at, _plan_words(each, node)) for each in controller.history)
    return explain_steps(guards, state.settings.any_profile_of, node, plans)


def explain_steps(
    guards: GuardContext, profile_of: ProfileOf, node: str, plans: tuple[NodePlan, ...] = ()
) -> Steps[NodeOutlook]:
    """guards: of a cluster that nobody changes meanwhile."""
    cluster, settings = guards.cluster, guards.settings
    row, load = cluster.node_table.row[node], NodeLoad(cluster, settings.limits, settings.forecaster)
    context = StrategyContext(cluster, load, guards.now, profile_of, replaceable, settings.required_gain)
    suggestions: dict[str, list[Suggestion]] = {}
    for strategy in settings.suggesting:
        suggestions[strategy.name] = [each for each in strategy.suggest(context) if each.node == node]
        yield
    found = [each for several in suggestions.values() for each in several]
    uses = tuple(_use(cluster, row, name, limit) for name, limit in settings.limits.items())
    known = all(each.usage is not None for each in uses)
    if known:
        yield from load.prepare()
    penalty = float(load.penalty[row]) if known else None
    yield
    margin = min((guards.standing(each).margin for each in found), default=1.0)
    gain = settings.required_gain * margin
    pods, more = (yield from _outlooks(context, guards, profile_of, row, gain)) if known else ((), 0)
    refused = cluster_refusal(guards)
    answers = (
        f"no pod is moved at all: {refused.guard}: {refused.reason}" if refused else "",
        _paused(guards, found),
        _verdict(uses, found, pods),
    )
    return NodeOutlook(
        node,
        settings.mode.value,
        next(filter(None, answers)),
        uses,
        penalty,
        tuple(_suggested(cluster, each) for each in found),
        tuple(name for name, several in suggestions.items() if not several),
        pods,
        more,
        plans,
    )


def _use(cluster: Cluster, row: int, resource: str, limit: float) -> LimitedUse:
    view = cluster.view
    used, room = float(view.load.expected(resource)[row]), float(view.allocatable(resource)[row])
    is_known = bool(view.load.trust(resource)[row] > 0) and used == used and room > 0
    return LimitedUse(resource, used / room if is_known else None, limit)


def _suggested(cluster: Cluster, suggestion: Suggestion) -> Suggested:
    names = tuple(sorted(cluster.pods[uid].key for uid in suggestion.pods))
    return Suggested(suggestion.strategy, suggestion.reason, names)


def _paused(guards: GuardContext, suggestions: list[Suggestion]) -> str:
    """Why the strategies that suggest the node suggest in vain; empty unless all do."""
    reasons = dict.fromkeys(guards.standing(each).paused for each in suggestions)
    return f"no pod leaves it: {STRATEGY_RECORD}: {'; '.join(reasons)}" if reasons and all(reasons) else ""


def _verdict(uses: Iterable[LimitedUse], suggestions: list[Suggestion], pods: tuple[PodOutlook, ...]) -> str:
    if unknown := [each.resource for each in uses if each.usage is None]:
        return f"no pod leaves or joins it: no sample of its {', '.join(unknown)} is trusted"
    if not suggestions:
        return "no pod leaves it: no strategy suggests the node"
    if not pods:
        return "no pod leaves it: it has none"
    movable = [each for each in pods if not each.guard]
    if not movable:
        return f"no pod leaves it: guards refuse to move all {len(pods)}"
    worth = max((each.worth for each in suggestions), default=0.0)
    best = max(movable, key=lambda each: each.gain - each.cost)
    if best.target and best.gain + worth > best.cost:
        return f"{best.pod} should move to {best.target}, unless moves of other nodes gain more"
    if not best.target:
        return "no pod leaves it: no other node would take one within its limits"
    return (
        f"no pod leaves it: no move is worth its disruption (the best gains {best.gain:.1f} and costs {best.cost:.1f})"
    )


# --- pods


def _outlooks(
    context: StrategyContext, guards: GuardContext, profile_of: ProfileOf, row: int, required_gain: float
) -> Steps[tuple[tuple[PodOutlook, ...], int]]:
    """Movable pods with the largest relief first, then those that guards refuse; and how many more are movable."""
    stay, movable = list[PodOutlook](), list[Pod]()
    here = guards.cluster.on_node.get(guards.cluster.view.nodes[row].name, {}).values()
    yield from guards.prepare(here)
    for pod in here:
        refused = refusal(guards, pod)
        if refused is None:
            movable.append(pod)
        else:
            stay.append(PodOutlook(pod.key, refused.guard, refused.reason))
        yield
    shown = (yield from _best_moves(context, guards, profile_of, row, movable, required_gain)) if movable else []
    ordered = sorted(shown, key=lambda each: (bool(each.guard), each.cost - each.gain))
    return (*ordered, *sorted(stay, key=lambda each: each.pod)), len(movable) - len(shown)


def _best_moves(
    context: StrategyContext,
    guards: GuardContext,
    profile_of: ProfileOf,
    row: int,
    pods: list[Pod],
    required_gain: float,
) -> Steps[list[PodOutlook]]:
    load, cluster = context.load, guards.cluster
    slots = np.array([cluster.pod_table.slot[pod.uid] for pod in pods], dtype=np.intp)
    relief = load.gains_without(row, load.pods(slots))
    targets = np.flatnonzero(open_nodes(guards, context))
    targets = targets[targets != row]
    rehearsal, found = (yield from Rehearsal.in_steps(cluster, profile_of)), list[PodOutlook]()
    for number in np.argsort(-relief, kind="stable")[:PODS_SHOWN].tolist():
        yield
        pod, usage, feasible = pods[number], load.pods(slots[[number]]), rehearsal.feasible(pods[number])
        workload = guards.workload(pod).pods if pod.owner is not None else ()
        cost = disruption_cost(pod, required_gain, workload, guards.recent_moves(pod.uid)).cost
        if feasible is None:
            reason = f"the rules of its scheduler, {pod.scheduler_name}, are not known"
            found.append(PodOutlook(pod.key, "scheduler", reason))
            continue
        rows = targets[feasible[targets] & load.fits(row, targets, usage)[0]]
        if not len(rows):
            found.append(PodOutlook(pod.key, cost=cost))
            continue
        gains = relief[number] - load.losses_with(rows, usage)[0]
        best = int(gains.argmax())
        found.append(PodOutlook(pod.key, "", "", cluster.view.nodes[int(rows[best])].name, float(gains[best]), cost))
    return found


def _plan_words(plan: PastPlan, node: str) -> str:
    if plan.refusal is not None:
        return f"nothing was moved at all: {plan.refusal.guard}: {plan.refusal.reason}"
    left = [
        f"{each.pod} to {each.goes_to} ({each.strategy}: {each.reason})" for each in plan.moves if each.source == node
    ]
    came = [f"{each.pod} from {each.source}" for each in plan.moves if each.target == node]
    if not left and not came:
        return f"{len(plan.moves)} moves, none of this node; {plan.refused} pods of suggested nodes were refused"
    return "; ".join([*(f"moves {each}" for each in left), *(f"takes {each}" for each in came)])
