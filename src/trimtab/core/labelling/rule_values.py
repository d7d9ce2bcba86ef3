"""The value that a rule compares with its threshold, per node; NaN where no sample is trusted."""

from __future__ import annotations

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.load.pressure_rules import MEMORY_AVAILABLE, Denominator, Rule
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.tables import Floats


def rule_values(view: View, rule: Rule) -> Floats:
    """Shares as fractions of one; amounts in the units of requests."""
    if rule.metric in (CPU, MEMORY):
        return _share(view, rule.metric, _usage(view, rule), rule.denominator)
    if rule.metric == MEMORY_AVAILABLE:
        return _share(view, MEMORY, memory_available(view, rule), rule.denominator)
    return view.load.custom(rule.metric)[: view.count]


def memory_available(view: View, rule: Rule) -> Floats:
    """memory.available as the kubelet computes it: capacity less working set, unless a source measures it."""
    computed = _available_amount(view, MEMORY, Denominator.CAPACITY) - _usage(view, rule)
    measured = view.load.custom(MEMORY_AVAILABLE)[: view.count]
    return np.where(np.isnan(measured), computed, measured)


def _usage(view: View, rule: Rule) -> Floats:
    resource = CPU if rule.metric == CPU else MEMORY
    found = (
        view.load.recent_mean(resource, rule.average_seconds) if rule.average_seconds else view.load.latest(resource)
    )
    return found[: view.count]


def _share(view: View, resource: str, amounts: Floats, of: Denominator) -> Floats:
    return amounts if of is Denominator.NONE else amounts / _available_amount(view, resource, of)


def _available_amount(view: View, resource: str, of: Denominator) -> Floats:
    """NaN for a node that reports none: a share of nothing is undefined."""
    amounts = view.allocatable(resource) if of is Denominator.ALLOCATABLE else view.capacity(resource)
    return np.where(amounts > 0, amounts.astype(np.float64), np.nan)
