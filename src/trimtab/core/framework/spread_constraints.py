"""What a pod's spread constraints come to in a cluster: whom each counts, where, and over which nodes; judges no node."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from trimtab.core.cluster.node_selection import required_nodes
from trimtab.core.cluster.topology.default_spread_selector import default_selector, generation
from trimtab.core.cluster.topology.pod_count import Bools, Domains, PodCount, TopologyKey
from trimtab.core.cluster.topology.pod_selectors import ALL_PODS, PodSelector
from trimtab.core.cluster.view import View
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector, selector_error
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint, tolerated

HONOR = "Honor"


@dataclass(frozen=True, slots=True)
class PreparedConstraint:
    """One constraint. `me` is 1 if the pod itself is of its kin; `added_selector` says whom an overlay adds to the count."""

    key: TopologyKey
    count: PodCount
    domains: Domains
    added_selector: PodSelector
    self_match: int
    max_skew: int
    min_domains: int


@dataclass(frozen=True, slots=True)
class PreparedConstraints:
    """All constraints of one sort, and the rows that lack a key of theirs (None: none does, or it does not matter).

    With a `fault` in any selector there are no rules at all.
    """

    constraints: tuple[PreparedConstraint, ...]
    missing_key: Bools | None
    error: str
    _keep_alive: object  # known by identity, so they must not go


def prepare_constraints(
    view: View, pod: Pod, defaults: tuple[TopologySpreadConstraint, ...], *, hard: bool, allow_missing_keys: bool
) -> PreparedConstraints | None:
    """Rules of the pod's own constraints, or else of the defaults; None without any.

    With `allow_missing_keys` defaults a node may lack one of their keys.
    """
    spec = pod.spec
    name: Hashable = (hard, id(spec), id(pod.labels), pod.namespace)
    if not spec.topology_spread:
        if not any(each.hard is hard for each in defaults):
            return None
        name = (name, id(pod.owner), id(defaults), generation(view.objects))
    strict = bool(spec.topology_spread) or not allow_missing_keys
    rules = view.topology_counts.memo(name, lambda: _prepare(view, pod, defaults, hard=hard, strict=strict))
    return rules if rules.constraints or rules.error else None


def _prepare(
    view: View, pod: Pod, defaults: tuple[TopologySpreadConstraint, ...], *, hard: bool, strict: bool
) -> PreparedConstraints:
    own, held = pod.spec.topology_spread, (pod.spec, pod.labels, pod.owner, defaults)
    if wrong := _selector_error(own):
        return PreparedConstraints((), None, wrong, held)
    kin = None if own else default_selector(view.topology_counts, view.objects, pod)
    constraints = [each for each in own or defaults if each.hard is hard]
    if not constraints or (kin is not None and kin.empty):
        return PreparedConstraints((), None, "", held)
    keys = {each.topology_key: view.topology_counts.key(each.topology_key) for each in constraints}
    needed = tuple(name for name, key in keys.items() if strict and not key.on_all_nodes)
    rules = tuple(_prepare_one(view, pod, each, kin or _selector_of(pod, each), needed) for each in constraints)
    lacking = None if not needed else ~np.logical_and.reduce([keys[name].present for name in needed])
    return PreparedConstraints(rules, lacking, "", held)


def _selector_error(constraints: tuple[TopologySpreadConstraint, ...]) -> str:
    faults = ((number, selector_error(each.selector)) for number, each in enumerate(constraints))
    wrong = (f"spec.topologySpreadConstraints[{number}].labelSelector: {words}" for number, words in faults if words)
    return next(wrong, "")


def _prepare_one(
    view: View,
    pod: Pod,
    constraint: TopologySpreadConstraint,
    selector: LabelSelector | None,
    required_keys: tuple[str, ...],
) -> PreparedConstraint:
    """An empty selector counts nobody that stands, and takes in everybody who joins, because kube-scheduler does so."""
    namespace = frozenset((pod.namespace,))
    counted = None if selector is not None and selector.empty else selector
    count = view.topology_counts.count_selected((PodSelector(namespace, counted),), live=True)
    key = view.topology_counts.key(constraint.topology_key)
    return PreparedConstraint(
        key=key,
        count=count,
        domains=count.by_key(key, _eligible(view, pod, constraint, required_keys)),
        added_selector=PodSelector(namespace, ALL_PODS if selector is not None and selector.empty else selector),
        self_match=int(selector is not None and selector.matches(pod.labels)),
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
    )


def _selector_of(pod: Pod, constraint: TopologySpreadConstraint) -> LabelSelector | None:
    selector = constraint.selector
    more = tuple((key, pod.labels[key]) for key in constraint.match_label_keys if key in pod.labels)
    if selector is None or not more:
        return selector
    return LabelSelector((*selector.match_labels, *more), selector.match_expressions)


def _eligible(
    view: View, pod: Pod, constraint: TopologySpreadConstraint, required_keys: tuple[str, ...]
) -> Bools | None:
    """Rows that count: with all keys, and with what the pod's node affinity and tolerations allow where these matter."""
    spec = pod.spec
    required = spec.affinity.node_affinity.required if spec.affinity is not None else None
    tied = constraint.node_affinity_policy == HONOR and (bool(spec.node_selector) or required is not None)
    tainted = constraint.node_taints_policy == HONOR
    if not required_keys and not tied and not tainted:
        return None

    def build() -> Bools:
        rows = required_nodes(view, spec) if tied else np.ones(view.count, dtype=np.bool_)
        for name in required_keys:
            rows &= view.topology_counts.key(name).present
        return rows & _tolerated_rows(view, pod) if tainted else rows

    name = (required_keys, (spec.node_selector, required) if tied else None, spec.tolerations if tainted else None)
    return view.topology_counts.mask(name, build)


def _tolerated_rows(view: View, pod: Pod) -> Bools:
    def allowed(taints: tuple[Taint, ...]) -> bool:
        hard = (taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE))
        return all(tolerated(taint, pod.spec.tolerations) for taint in hard)

    return np.fromiter(map(allowed, view.taint_sets), dtype=np.bool_)[view.taint_set]
