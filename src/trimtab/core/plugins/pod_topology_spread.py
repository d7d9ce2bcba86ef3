"""PodTopologySpread: rejects nodes whose domain has too many matching pods, and prefers domains with few.

Matching pods are those in the pod's namespace that a constraint selects, except terminating ones. A hard constraint
limits how many more there may be in a node's domain than in the emptiest one; soft constraints, or the defaults for
pods without their own, score nodes in emptier domains higher.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.labels import ABSENT
from trimtab.core.cluster.node_selection import required_nodes
from trimtab.core.cluster.topology.default_spread_selector import default_selector, generation
from trimtab.core.cluster.topology.pod_count import Domains, PodCount, TopologyKey, take_rows
from trimtab.core.cluster.topology.pod_selectors import ALL_PODS, PodSelector
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import (
    MAX_SCORE,
    Bools,
    Ints,
    Normalise,
    PreFilterResult,
    PreFilterStatus,
    Reject,
    Rows,
    any_node_passes,
    scale_by_table,
)
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.change import Change
from trimtab.core.model.node import HOSTNAME
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector, selector_error
from trimtab.core.model.setting import ArgumentError, ParsedFields, setting
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Tolerations
from trimtab.core.tables import Floats

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(HOSTNAME, 3, hard=False),
    TopologySpreadConstraint("topology.kubernetes.io/zone", 5, hard=False),
)
SYSTEM, LIST = "System", "List"
HONOR = "Honor"
SKEW_EXCEEDED, MISSING_LABEL = 1, -1


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """`default_constraints` are for pods without their own, with type `List`; type `System` uses built-in ones."""

    name: ClassVar[str] = "PodTopologySpread"
    requeue_on: ClassVar[Change] = (
        Change.PODS
        | Change.NODE_ADDED
        | Change.NODE_DELETED
        | Change.LABELS
        | Change.TAINTS
        | Change.SELECTORS
        | Change.OWN_POD_UPDATED
    )
    needs_kinds: ClassVar[tuple[str, ...]] = ("services", "replicasets", "replicationcontrollers", "statefulsets")
    normalise: ClassVar[Normalise] = Normalise.CUSTOM

    default_constraints: tuple[TopologySpreadConstraint, ...] = setting(
        (), "for pods without their own; no labelSelector, it is deduced"
    )
    defaulting_type: str = setting(
        SYSTEM, "`System` unless set; defaultConstraints need `List`", choices=(SYSTEM, LIST)
    )

    def __post_init__(self) -> None:
        if self.defaulting_type not in (SYSTEM, LIST):
            raise ValueError(f"defaultingType must be {SYSTEM} or {LIST}")
        if self.default_constraints and self.defaulting_type == SYSTEM:
            raise ArgumentError("defaultConstraints", f"must be empty unless defaultingType is {LIST}")

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        seen: set[tuple[str, bool | None]] = set()
        for number, each in enumerate(parsed.values.get("default_constraints", ())):
            if (each.topology_key, each.hard) in seen:
                message = f"a second one for {each.topology_key[:100]} with the same whenUnsatisfiable"
                parsed.entries["defaultConstraints"].items()[number].error(message)
            seen.add((each.topology_key, each.hard))

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        constraints = self._constraints(view, pod, hard=True)
        if constraints is None:
            return PreFilterStatus.SKIP
        return Reject(constraints.error) if constraints.error else PreFilterStatus.SUCCESS

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        """The first constraint that a node violates is the one that is reported."""
        constraints = self._constraints(view, pod, hard=True)
        result: Ints | None = None
        for each in reversed(constraints.constraints if constraints is not None else ()):
            codes = _skew_codes(view, each, rows) if view.delta is None else _skew_codes_in_overlay(view, each, rows)
            result = codes if result is None else np.where(codes, codes, result)
        return result if result is not None else np.zeros(len(view.pod_count[rows]), dtype=np.int64)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        reason = "node(s) didn't match pod topology spread constraints"
        return (reason if code == SKEW_EXCEEDED else f"{reason} (missing required label)",)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """Matching pods in the node's domains, weighted by the number of domains; fewer is better."""
        constraints = self._constraints(view, pod, hard=False)
        if constraints is None or constraints.error:
            return None
        missing = _missing_key(constraints, rows)
        total = reduce(np.add, [_weighted_count(view, each, rows, missing) for each in constraints.constraints])
        raw: Ints = (total + 0.5).astype(np.int64)
        if missing is not None:
            raw[missing] = 0
        return raw

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        constraints = self._constraints(view, pod, hard=False)
        missing = _missing_key(constraints, rows) if constraints is not None else None
        scored = raw if missing is None else raw[~missing]
        if not scored.size:
            return np.zeros_like(raw)
        lowest, highest = int(scored.min()), int(scored.max())
        if not highest:
            scaled = np.full_like(raw, MAX_SCORE)
        else:
            scaled = scale_by_table(raw, lowest, highest, lambda each: (highest + lowest - each) * MAX_SCORE // highest)
        if missing is not None:
            scaled[missing] = 0
        return scaled

    def _constraints(self, view: View, pod: Pod, *, hard: bool) -> PreparedConstraints | None:
        system = self.defaulting_type == SYSTEM
        return prepare_constraints(
            view, pod, SYSTEM_DEFAULTS if system else self.default_constraints, hard=hard, allow_missing_keys=system
        )


def _skew_codes(view: View, constraint: PreparedConstraint, rows: Rows) -> Ints:
    view.topology_counts.refresh(constraint.count)
    key, domains = constraint.key, constraint.domains
    floor = domains.min_count() if len(domains.eligible_domains) >= constraint.min_domains else 0.0
    limit = floor + constraint.max_skew - constraint.self_match
    if not domains.by_row:
        table = (domains.counts > limit).astype(np.int64)
        table[ABSENT] = MISSING_LABEL
        return table.take(take_rows(key.ids, rows), mode="clip")
    codes = (take_rows(domains.counts, rows) > limit).astype(np.int64)
    return codes if key.on_all_nodes else np.where(take_rows(key.present, rows), codes, MISSING_LABEL)


def _skew_codes_in_overlay(view: View, constraint: PreparedConstraint, rows: Rows) -> Ints:
    """The same in an overlay: each row with the pods added to and removed from its own node, and no other."""
    assert view.delta is not None
    key, domains = constraint.key, constraint.domains
    view.topology_counts.refresh(constraint.count)
    added = view.topology_counts.overlay_delta(
        view.topology_counts.count_selected((constraint.added_selector,)), view.delta
    )
    added = (added if domains.eligible is None else added * domains.eligible)[rows]
    smallest, emptiest, second_smallest = domains.two_smallest()
    counts = domains.at_rows(rows) + added
    floor = np.where(key.ids[rows] == emptiest, second_smallest, smallest)
    floor = np.where(domains.in_eligible_domain(rows), np.minimum(floor, counts), floor)
    if len(domains.eligible_domains) < constraint.min_domains:
        floor = np.zeros(len(added))
    codes = (counts + constraint.self_match - floor > constraint.max_skew).astype(np.int64)
    return codes if key.on_all_nodes else np.where(key.present[rows], codes, MISSING_LABEL)


def _weighted_count(view: View, constraint: PreparedConstraint, rows: Rows, missing_key: Bools | None) -> Floats:
    """One constraint's contribution to each row's score; 0 where the node lacks the key."""
    view.topology_counts.refresh(constraint.count)
    key, slack = constraint.key, constraint.max_skew - 1.0
    if key.name == HOSTNAME:
        here = take_rows(constraint.count.rows, rows)
        size = len(here) - (0 if missing_key is None else int(missing_key.sum()))
        added = here * math.log(size + 2) + slack
        return added if key.on_all_nodes else np.where(take_rows(key.present, rows), added, 0.0)
    counts = constraint.domains.by_domain()
    if key.empty_value is not None:
        counts[key.empty_value] += counts[ABSENT]
    table = counts * math.log(_count_domains(key, rows, missing_key) + 2) + slack
    table[ABSENT] = 0.0
    return table.take(take_rows(key.ids, rows), mode="clip")


def _count_domains(key: TopologyKey, rows: Rows, missing_key: Bools | None) -> int:
    """How many domains the scored rows have; a missing key counts as the empty value here."""
    ids = take_rows(key.ids, rows)
    if missing_key is None and len(key.ids) - len(ids) < key.smallest_domain:
        return key.domain_count  # too few rows are left out to hide a domain
    seen = np.bincount(ids if missing_key is None else ids[~missing_key], minlength=key.size) > 0
    if key.empty_value is not None and seen[ABSENT]:
        seen[key.empty_value] = False
    return int(np.count_nonzero(seen))


def _missing_key(constraints: PreparedConstraints, rows: Rows) -> Bools | None:
    return None if constraints.missing_key is None else take_rows(constraints.missing_key, rows)


@dataclass(frozen=True, slots=True)
class PreparedConstraint:
    """One constraint. `self_match` is 1 if it selects the pod itself; `added_selector` is for pods of an overlay."""

    key: TopologyKey
    count: PodCount
    domains: Domains
    added_selector: PodSelector
    self_match: int
    max_skew: int
    min_domains: int


@dataclass(frozen=True, slots=True)
class PreparedConstraints:
    """All hard or all soft constraints, and the rows that lack one of their keys (None: no row does, or it does not
    matter).

    With an `error` in any selector there are no constraints.
    """

    constraints: tuple[PreparedConstraint, ...]
    missing_key: Bools | None
    error: str
    _keep_alive: object  # the cache key holds their ids, so they must stay alive


def prepare_constraints(
    view: View, pod: Pod, defaults: tuple[TopologySpreadConstraint, ...], *, hard: bool, allow_missing_keys: bool
) -> PreparedConstraints | None:
    """The pod's own constraints, or else the defaults, prepared; None without any.

    With `allow_missing_keys` a node may lack a key of the defaults.
    """
    spec = pod.spec
    key: Hashable = (hard, id(spec), id(pod.labels), pod.namespace)
    if not spec.topology_spread:
        if not any(each.hard is hard for each in defaults):
            return None
        key = (key, id(pod.owner), id(defaults), generation(view.objects))
    strict = bool(spec.topology_spread) or not allow_missing_keys
    prepared = view.topology_counts.memo(key, lambda: _prepare(view, pod, defaults, hard=hard, strict=strict))
    return prepared if prepared.constraints or prepared.error else None


def _prepare(
    view: View, pod: Pod, defaults: tuple[TopologySpreadConstraint, ...], *, hard: bool, strict: bool
) -> PreparedConstraints:
    own, keep_alive = pod.spec.topology_spread, (pod.spec, pod.labels, pod.owner, defaults)
    if error := _selector_error(own):
        return PreparedConstraints((), None, error, keep_alive)
    selector = None if own else default_selector(view.topology_counts, view.objects, pod)
    constraints = [each for each in own or defaults if each.hard is hard]
    if not constraints or (selector is not None and selector.empty):
        return PreparedConstraints((), None, "", keep_alive)
    keys = {each.topology_key: view.topology_counts.key(each.topology_key) for each in constraints}
    required_keys = tuple(name for name, key in keys.items() if strict and not key.on_all_nodes)
    prepared = tuple(
        _prepare_one(view, pod, each, selector or _selector_of(pod, each), required_keys) for each in constraints
    )
    missing_key = None if not required_keys else ~np.logical_and.reduce([keys[name].present for name in required_keys])
    return PreparedConstraints(prepared, missing_key, "", keep_alive)


def _selector_error(constraints: tuple[TopologySpreadConstraint, ...]) -> str:
    errors = ((index, selector_error(each.selector)) for index, each in enumerate(constraints))
    messages = (f"spec.topologySpreadConstraints[{index}].labelSelector: {error}" for index, error in errors if error)
    return next(messages, "")


def _prepare_one(
    view: View,
    pod: Pod,
    constraint: TopologySpreadConstraint,
    selector: LabelSelector | None,
    required_keys: tuple[str, ...],
) -> PreparedConstraint:
    """As in kube-scheduler, an empty selector counts no existing pod, and matches every pod that is added."""
    namespace = frozenset((pod.namespace,))
    counted = None if selector is not None and selector.empty else selector
    count = view.topology_counts.count_selected((PodSelector(namespace, counted),), skip_terminating=True)
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
    extra = tuple((key, pod.labels[key]) for key in constraint.match_label_keys if key in pod.labels)
    if selector is None or not extra:
        return selector
    return LabelSelector((*selector.match_labels, *extra), selector.match_expressions)


def _eligible(
    view: View, pod: Pod, constraint: TopologySpreadConstraint, required_keys: tuple[str, ...]
) -> Bools | None:
    """Rows that count: with all keys, and allowed by node affinity and tolerations where the policies honour them."""
    spec = pod.spec
    required = spec.affinity.node_affinity.required if spec.affinity is not None else None
    by_affinity = constraint.node_affinity_policy == HONOR and (bool(spec.node_selector) or required is not None)
    by_taints = constraint.node_taints_policy == HONOR
    if not required_keys and not by_affinity and not by_taints:
        return None

    def build() -> Bools:
        rows = required_nodes(view, spec) if by_affinity else np.ones(view.count, dtype=np.bool_)
        for name in required_keys:
            rows &= view.topology_counts.key(name).present
        return rows & _tolerated_rows(view, pod) if by_taints else rows

    name = (
        required_keys,
        (spec.node_selector, required) if by_affinity else None,
        spec.tolerations if by_taints else None,
    )
    return view.topology_counts.mask(name, build)


def _tolerated_rows(view: View, pod: Pod) -> Bools:
    tolerations = Tolerations(pod.spec.tolerations)

    def allowed(taints: tuple[Taint, ...]) -> bool:
        hard = (taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE))
        return all(map(tolerations.tolerate, hard))

    return np.fromiter(map(allowed, view.taint_sets), dtype=np.bool_)[view.taint_set]
