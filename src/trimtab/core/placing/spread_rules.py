"""What a pod's spread constraints come to in a cluster: whom each counts, where, and over which nodes; judges no node."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from trimtab.core.cluster.selecting import required_nodes
from trimtab.core.cluster.topology.counts import Bools, Count, Domains, Key
from trimtab.core.cluster.topology.defaults import default_selector, edition
from trimtab.core.cluster.topology.picks import EVERYBODY, Pick
from trimtab.core.cluster.view import View
from trimtab.core.model.affinity import Spread
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint, tolerated
from trimtab.core.model.unsound import fault

HONOR = "Honor"


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint. `me` is 1 if the pod itself is of its kin; `joining` says whom an overlay adds to the count."""

    key: Key
    count: Count
    domains: Domains
    joining: Pick
    me: int
    max_skew: int
    min_domains: int


@dataclass(frozen=True, slots=True)
class Rules:
    """All constraints of one sort, and the rows that lack a key of theirs (None: none does, or it does not matter).

    With a `fault` in any selector there are no rules at all.
    """

    rules: tuple[Rule, ...]
    lacking: Bools | None
    fault: str
    _held: object  # known by identity, so they must not go


def rules_of(view: View, pod: Pod, defaults: tuple[Spread, ...], *, hard: bool, lenient: bool) -> Rules | None:
    """Rules of the pod's own constraints, or else of the defaults; None without any.

    With `lenient` defaults a node may lack one of their keys.
    """
    spec = pod.spec
    name: Hashable = (hard, id(spec), id(pod.labels), pod.namespace)
    if not spec.spread:
        if not any(each.hard is hard for each in defaults):
            return None
        name = (name, id(pod.owner), id(defaults), edition(view.objects))
    strict = bool(spec.spread) or not lenient
    rules = view.census.kept(name, lambda: _built(view, pod, defaults, hard=hard, strict=strict))
    return rules if rules.rules or rules.fault else None


def _built(view: View, pod: Pod, defaults: tuple[Spread, ...], *, hard: bool, strict: bool) -> Rules:
    own, held = pod.spec.spread, (pod.spec, pod.labels, pod.owner, defaults)
    if wrong := _fault(own):
        return Rules((), None, wrong, held)
    kin = None if own else default_selector(view.census, view.objects, pod)
    constraints = [each for each in own or defaults if each.hard is hard]
    if not constraints or (kin is not None and kin.empty):
        return Rules((), None, "", held)
    keys = {each.topology_key: view.census.key(each.topology_key) for each in constraints}
    needed = tuple(name for name, key in keys.items() if strict and not key.everywhere)
    rules = tuple(_rule(view, pod, each, kin or _own_kin(pod, each), needed) for each in constraints)
    lacking = None if not needed else ~np.logical_and.reduce([keys[name].present for name in needed])
    return Rules(rules, lacking, "", held)


def _fault(constraints: tuple[Spread, ...]) -> str:
    faults = ((number, fault(each.selector)) for number, each in enumerate(constraints))
    wrong = (f"spec.topologySpreadConstraints[{number}].labelSelector: {words}" for number, words in faults if words)
    return next(wrong, "")


def _rule(view: View, pod: Pod, constraint: Spread, kin: LabelSelector | None, needed: tuple[str, ...]) -> Rule:
    """An empty selector counts nobody that stands, and takes in everybody who joins, because kube-scheduler does so."""
    namespace = frozenset((pod.namespace,))
    counted = None if kin is not None and kin.empty else kin
    count = view.census.picked((Pick(namespace, counted),), live=True)
    key = view.census.key(constraint.topology_key)
    return Rule(
        key=key,
        count=count,
        domains=count.by(key, _eligible(view, pod, constraint, needed)),
        joining=Pick(namespace, EVERYBODY if kin is not None and kin.empty else kin),
        me=int(kin is not None and kin.picks(pod.labels)),
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
    )


def _own_kin(pod: Pod, constraint: Spread) -> LabelSelector | None:
    selector = constraint.selector
    more = tuple((key, pod.labels[key]) for key in constraint.match_label_keys if key in pod.labels)
    if selector is None or not more:
        return selector
    return LabelSelector((*selector.match_labels, *more), selector.match_expressions)


def _eligible(view: View, pod: Pod, constraint: Spread, needed: tuple[str, ...]) -> Bools | None:
    """Rows that count: with all keys, and with what the pod's node affinity and tolerations allow where these matter."""
    spec = pod.spec
    required = spec.affinity.node.required if spec.affinity is not None else None
    tied = constraint.node_affinity_policy == HONOR and (bool(spec.node_selector) or required is not None)
    tainted = constraint.node_taints_policy == HONOR
    if not needed and not tied and not tainted:
        return None

    def build() -> Bools:
        rows = required_nodes(view, spec) if tied else np.ones(view.count, dtype=np.bool_)
        for name in needed:
            rows &= view.census.key(name).present
        return rows & _tolerable(view, pod) if tainted else rows

    name = (needed, (spec.node_selector, required) if tied else None, spec.tolerations if tainted else None)
    return view.census.mask(name, build)


def _tolerable(view: View, pod: Pod) -> Bools:
    def allowed(taints: tuple[Taint, ...]) -> bool:
        hard = (taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE))
        return all(tolerated(taint, pod.spec.tolerations) for taint in hard)

    return np.fromiter(map(allowed, view.taint_sets), dtype=np.bool_)[view.taint_set]
