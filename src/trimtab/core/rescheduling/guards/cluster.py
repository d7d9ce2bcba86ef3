"""Guards by the state of the whole cluster: while one of them has a reason, no pod is moved.

Missing data is never taken for an idle node, and a sick cluster is not made to do more.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.rescheduling.calendar import window_refusal
from trimtab.core.rescheduling.guards.context import GuardContext
from trimtab.core.rescheduling.settings import GUARDED_KINDS

RELEASE = 0.5  # of the limit of unready nodes


def stopped(context: GuardContext) -> str:
    """Somebody paused all moves, the ledger cannot be used, or replacements of earlier moves get no node."""
    return context.stopped


def window(context: GuardContext) -> str:
    return window_refusal(context.settings.windows, context.now)


def unreadable_kinds(context: GuardContext) -> str:
    """Without budgets and volumes a guard would find nothing to refuse."""
    found = next((kind for kind in GUARDED_KINDS if kind in context.forbidden), None)
    return "" if found is None else f"{found} cannot be listed: {context.forbidden[found]}"


def unready_nodes(context: GuardContext) -> str:
    """Once it has refused, it does so until no more than half of the limit are unready, lest nodes that come and go start and
    stop moves in turn."""
    nodes, limit = context.cluster.node_table.nodes, context.settings.max_unready_nodes
    unready, released = sum(not node.ready for node in nodes), limit * RELEASE if context.too_many_unready else limit
    return f"{unready} of {len(nodes)} nodes are not ready" if unready > released * len(nodes) else ""


def missing_metrics(context: GuardContext) -> str:
    load, count = context.cluster.load, len(context.cluster.node_table)
    for resource in context.settings.limits:
        missing = int((load.trust(resource)[:count] <= 0).sum())
        if missing > load.settings.most_missing * count:
            return f"{missing} of {count} nodes have no usable metrics of {resource}"
    return ""


def old_metrics(context: GuardContext) -> str:
    """By the newest sample of any node: older than this, all of them are."""
    load, count = context.cluster.load, len(context.cluster.node_table)
    for resource in context.settings.limits:
        age = context.now - float(np.nan_to_num(load.sampled_at(resource)[:count], nan=-np.inf).max(initial=-np.inf))
        if count and age > context.settings.max_metrics_age:
            return f"the newest metrics of {resource} are {age:.0f} s old"
    return ""


def jump(context: GuardContext) -> str:
    """Nearly all nodes seem to have become idle or full at once: rather the metrics have changed than the load."""
    load = context.cluster.load
    held = load.store.jump_guard.is_holding(context.now - load.settings.stale)
    return "the metrics of nearly all nodes have jumped, and are held back" if held else ""
