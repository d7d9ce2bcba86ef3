"""Whether the moves of an earlier plan still make sense: their pods and nodes are as planned, and the gain is still there.

Guards, budgets and the filters of the pod's scheduler are asked later, move by move, when `execution.py` charges them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trimtab.core.model.plan import Move
from trimtab.core.rescheduling.guards import GuardContext
from trimtab.core.rescheduling.guards.nodes import possible_targets
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.rescheduling.reservations import with_replacements


def drifted_moves(moves: Iterable[Move], guards: GuardContext) -> dict[str, str]:
    """The reasons not to make some of the moves any more, by the UID of their pods. Each move counts for the next one."""
    cluster = with_replacements(guards.cluster, guards.under_way)
    load = NodeLoad(cluster, guards.settings.limits, guards.settings.forecaster)
    reasons: dict[str, str] = {}
    for move in moves:
        if reason := _place_reason(move, guards) or _load_reason(move, guards, load):
            reasons[move.uid] = reason
    return reasons


def _place_reason(move: Move, guards: GuardContext) -> str:
    pod, rows = guards.cluster.pods.get(move.uid), guards.cluster.node_table.row
    if pod is None:
        return "there is no pod with its UID any more"
    if pod.node != move.source:
        return f"it runs on {pod.node or 'no node'} now, and not on {move.source}"
    if pod.terminating or pod.finished:
        return "it is being deleted" if pod.terminating else "it has finished"
    if move.source not in rows:
        return f"node {move.source} does not exist any more"
    if move.target not in rows:
        return f"node {move.target} does not exist any more" if move.target else "the plan has no target for it"
    row = rows[move.target]
    if not possible_targets(guards)[row] or guards.cluster.view.unschedulable[row]:
        return f"node {move.target} takes no pods now: it is cordoned, not ready or about to be removed"
    return ""


def _load_reason(move: Move, guards: GuardContext, load: NodeLoad) -> str:
    """Also makes the move in `load`, if there is none. A move that was planned for its gain must still be worth its cost;
    others have a reason that load says nothing about."""
    cluster, view = load.cluster, load.cluster.view
    source, target = cluster.node_table.row[move.source], cluster.node_table.row[move.target]
    for name in load.resources:
        if unknown := [
            node for node, row in ((move.source, source), (move.target, target)) if not view.load.trust(name)[row]
        ]:
            return f"no sample of the {name} of {unknown[0]} is trusted"
    pod, targets = load.pods(np.array([cluster.pod_table.slot[move.uid]])), np.array([target])
    if not load.fits(source, targets, pod).all():
        return f"node {move.target} would be above its limits with it"
    gain = float((load.gains_without(source, pod) - load.losses_with(targets, pod)[:, 0])[0])
    if move.gain > move.cost >= gain:
        return f"it would gain {gain:.1f} now, which is not worth its cost of {move.cost:.1f}"
    load.move(pod, source, target)
    return ""
