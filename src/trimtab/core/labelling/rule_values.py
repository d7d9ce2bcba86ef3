"""What a rule compares with its threshold, one number a node, NaN where nothing can be believed; judges nothing."""

from __future__ import annotations

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.load.pressure_rules import AVAILABLE, Of, Rule
from trimtab.core.model.resources import CPU, MEMORY


def rule_values(view: View, rule: Rule) -> Floats:
    """Shares as fractions of one; amounts in the units of requests."""
    if rule.metric in (CPU, MEMORY):
        return _share(view, rule.metric, _used(view, rule), rule.of)
    if rule.metric == AVAILABLE:
        return _share(view, MEMORY, memory_available(view, rule), rule.of)
    return view.load.custom(rule.metric)[: view.count]


def memory_available(view: View, rule: Rule) -> Floats:
    """As the kubelet reckons it before it evicts: what the machine has less its working set, unless a source says so."""
    reckoned = _offered(view, MEMORY, Of.CAPACITY) - _used(view, rule)
    told = view.load.custom(AVAILABLE)[: view.count]
    return np.where(np.isnan(told), reckoned, told)


def _used(view: View, rule: Rule) -> Floats:
    resource = CPU if rule.metric == CPU else MEMORY
    found = view.load.recent_mean(resource, rule.over) if rule.over else view.load.latest(resource)
    return found[: view.count]


def _share(view: View, resource: str, amounts: Floats, of: Of) -> Floats:
    return amounts if of is Of.ITSELF else amounts / _offered(view, resource, of)


def _offered(view: View, resource: str, of: Of) -> Floats:
    """NaN for a node that does not say how much it has: a share of nothing is no share."""
    cells = view.allocatable(resource) if of is Of.ALLOCATABLE else view.capacity(resource)
    return np.where(cells > 0, cells.astype(np.float64), np.nan)
