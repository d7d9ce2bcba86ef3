"""PodTopologySpread: refuses domains that hold too many of a pod's kin already, and prefers those with few.

*Kin* are the pods of the same namespace that a constraint selects, without those on their way out. A hard constraint asks
how many there would be in a node's domain above the emptiest one; soft ones, or the defaults where a pod has none of its
own, earn nodes of emptier domains a higher score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.labels import ABSENT
from trimtab.core.cluster.topology.pod_count import Floats, TopologyKey, take_rows
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
from trimtab.core.framework.spread_constraints import PreparedConstraint, PreparedConstraints, prepare_constraints
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import ArgumentError, setting

HOSTNAME = "kubernetes.io/hostname"
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(HOSTNAME, 3, hard=False),
    TopologySpreadConstraint("topology.kubernetes.io/zone", 5, hard=False),
)
SYSTEM, LIST = "System", "List"
SKEW_EXCEEDED, MISSING_LABEL = 1, -1


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """`default_constraints` are for pods without their own, with the type `List`; the type `System` brings its own."""

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

    def argument_errors(self) -> Iterator[tuple[str, int | None, str]]:
        seen: set[tuple[str, bool | None]] = set()
        for number, each in enumerate(self.default_constraints):
            if (each.topology_key, each.hard) in seen:
                message = f"a second one for {each.topology_key[:100]} with the same whenUnsatisfiable"
                yield "defaultConstraints", number, message
            seen.add((each.topology_key, each.hard))

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        rules = self._constraints(view, pod, hard=True)
        if rules is None:
            return PreFilterStatus.SKIP
        return Reject(rules.error) if rules.error else PreFilterStatus.SUCCESS

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        """The first constraint that a node fails is the one that is told."""
        rules = self._constraints(view, pod, hard=True)
        found: Ints | None = None
        for rule in reversed(rules.constraints if rules is not None else ()):
            codes = _skew_codes(view, rule, rows) if view.delta is None else _skew_codes_in_overlay(view, rule, rows)
            found = codes if found is None else np.where(codes, codes, found)
        return found if found is not None else np.zeros(len(view.pod_count[rows]), dtype=np.int64)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        words = "node(s) didn't match pod topology spread constraints"
        return (words if code == SKEW_EXCEEDED else f"{words} (missing required label)",)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """Kin in the node's domains, each weighed by how many domains there are; the fewer the better."""
        rules = self._constraints(view, pod, hard=False)
        if rules is None or rules.error:
            return None
        lacking = _missing_key(rules, rows)
        total = reduce(np.add, [_weighted_count(view, rule, rows, lacking) for rule in rules.constraints])
        raw: Ints = (total + 0.5).astype(np.int64)
        if lacking is not None:
            raw[lacking] = 0
        return raw

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        rules = self._constraints(view, pod, hard=False)
        lacking = _missing_key(rules, rows) if rules is not None else None
        held = raw if lacking is None else raw[~lacking]
        if not held.size:
            return np.zeros_like(raw)
        lowest, highest = int(held.min()), int(held.max())
        if not highest:
            scaled = np.full_like(raw, MAX_SCORE)
        else:
            scaled = scale_by_table(raw, lowest, highest, lambda each: (highest + lowest - each) * MAX_SCORE // highest)
        if lacking is not None:
            scaled[lacking] = 0
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
    """The same where pods have come and gone: each row with what its own node gained and lost, and no other."""
    assert view.delta is not None
    key, domains = constraint.key, constraint.domains
    view.topology_counts.refresh(constraint.count)
    own = view.topology_counts.overlay_delta(
        view.topology_counts.count_selected((constraint.added_selector,)), view.delta
    )
    own = (own if domains.eligible is None else own * domains.eligible)[rows]
    least, emptiest, next_least = domains.two_smallest()
    held = domains.at_rows(rows) + own
    floor = np.where(key.ids[rows] == emptiest, next_least, least)
    floor = np.where(domains.in_eligible_domain(rows), np.minimum(floor, held), floor)
    if len(domains.eligible_domains) < constraint.min_domains:
        floor = np.zeros(len(own))
    codes = (held + constraint.self_match - floor > constraint.max_skew).astype(np.int64)
    return codes if key.on_all_nodes else np.where(key.present[rows], codes, MISSING_LABEL)


def _weighted_count(view: View, constraint: PreparedConstraint, rows: Rows, missing_key: Bools | None) -> Floats:
    """What one constraint adds to each row's score; nothing where the node lacks the key."""
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
    """How many domains the scored rows make up; to lack the key is to have the empty value here."""
    ids = take_rows(key.ids, rows)
    if missing_key is None and len(key.ids) - len(ids) < key.smallest_domain:
        return key.domain_count  # too few are left out to hide one
    seen = np.bincount(ids if missing_key is None else ids[~missing_key], minlength=key.size) > 0
    if key.empty_value is not None and seen[ABSENT]:
        seen[key.empty_value] = False
    return int(np.count_nonzero(seen))


def _missing_key(constraints: PreparedConstraints, rows: Rows) -> Bools | None:
    return None if constraints.missing_key is None else take_rows(constraints.missing_key, rows)
