"""PodTopologySpread: refuses domains that hold too many of a pod's kin already, and prefers those with few.

*Kin* are the pods of the same namespace that a constraint selects, without those on their way out. A hard constraint asks
how many there would be in a node's domain above the emptiest one; soft ones, or the defaults where a pod has none of its
own, earn nodes of emptier domains a higher score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.labels import ABSENT
from trimtab.core.cluster.topology.counts import Floats, Key, chosen
from trimtab.core.cluster.view import View
from trimtab.core.model.affinity import Spread
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import (
    MAX_SCORE,
    Ahead,
    Bools,
    Ints,
    Normalise,
    Prefiltered,
    Refuse,
    Rows,
    by_table,
    passes_somewhere,
)
from trimtab.core.placing.spread_rules import Rule, Rules, rules_of

HOSTNAME = "kubernetes.io/hostname"
SYSTEM_DEFAULTS = (Spread(HOSTNAME, 3, hard=False), Spread("topology.kubernetes.io/zone", 5, hard=False))
SYSTEM, LIST = "System", "List"
CROWDED, UNLABELLED = 1, -1


@dataclass(frozen=True, slots=True)
class PodTopologySpread:
    """`default_constraints` are for pods without their own, with the type `List`; the type `System` brings its own."""

    name: ClassVar[str] = "PodTopologySpread"
    woken_by: ClassVar[Change] = (
        Change.PODS
        | Change.NODE_ADDED
        | Change.NODE_GONE
        | Change.LABELS
        | Change.TAINTS
        | Change.SELECTORS
        | Change.SELF
    )
    watches: ClassVar[tuple[str, ...]] = ("services", "replicasets", "replicationcontrollers", "statefulsets")
    normalise: ClassVar[Normalise] = Normalise.AMONG

    default_constraints: tuple[Spread, ...] = ()
    defaulting_type: str = SYSTEM

    def __post_init__(self) -> None:
        if self.defaulting_type not in (SYSTEM, LIST):
            raise ValueError(f"defaulting type must be {SYSTEM} or {LIST}")
        if self.default_constraints and self.defaulting_type == SYSTEM:
            raise ValueError(f"default constraints need the defaulting type {LIST}")

    def prefilter(self, view: View, pod: Pod) -> Prefiltered:
        rules = self._rules(view, pod, hard=True)
        if rules is None:
            return Ahead.SKIP
        return Refuse(rules.fault) if rules.fault else Ahead.GO

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        """The first constraint that a node fails is the one that is told."""
        rules = self._rules(view, pod, hard=True)
        found: Ints | None = None
        for rule in reversed(rules.rules if rules is not None else ()):
            codes = _judged(view, rule, rows) if view.moved is None else _judged_alone(view, rule, rows)
            found = codes if found is None else np.where(codes, codes, found)
        return found if found is not None else np.zeros(len(view.pod_count[rows]), dtype=np.int64)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        words = "node(s) didn't match pod topology spread constraints"
        return (words if code == CROWDED else f"{words} (missing required label)",)

    def wakes(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return passes_somewhere(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """Kin in the node's domains, each weighed by how many domains there are; the fewer the better."""
        rules = self._rules(view, pod, hard=False)
        if rules is None or rules.fault:
            return None
        lacking = _lacking(rules, rows)
        total = reduce(np.add, [_weighed(view, rule, rows, lacking) for rule in rules.rules])
        raw: Ints = (total + 0.5).astype(np.int64)
        if lacking is not None:
            raw[lacking] = 0
        return raw

    def scaled(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        rules = self._rules(view, pod, hard=False)
        lacking = _lacking(rules, rows) if rules is not None else None
        held = raw if lacking is None else raw[~lacking]
        if not held.size:
            return np.zeros_like(raw)
        lowest, highest = int(held.min()), int(held.max())
        if not highest:
            scaled = np.full_like(raw, MAX_SCORE)
        else:
            scaled = by_table(raw, lowest, highest, lambda each: (highest + lowest - each) * MAX_SCORE // highest)
        if lacking is not None:
            scaled[lacking] = 0
        return scaled

    def _rules(self, view: View, pod: Pod, *, hard: bool) -> Rules | None:
        system = self.defaulting_type == SYSTEM
        return rules_of(view, pod, SYSTEM_DEFAULTS if system else self.default_constraints, hard=hard, lenient=system)


def _judged(view: View, rule: Rule, rows: Rows) -> Ints:
    view.census.current(rule.count)
    key, domains = rule.key, rule.domains
    floor = domains.least() if len(domains.there) >= rule.min_domains else 0.0
    limit = floor + rule.max_skew - rule.me
    if not domains.by_row:
        table = (domains.counts > limit).astype(np.int64)
        table[ABSENT] = UNLABELLED
        return table.take(chosen(key.ids, rows), mode="clip")
    codes = (chosen(domains.counts, rows) > limit).astype(np.int64)
    return codes if key.everywhere else np.where(chosen(key.present, rows), codes, UNLABELLED)


def _judged_alone(view: View, rule: Rule, rows: Rows) -> Ints:
    """The same where pods have come and gone: each row with what its own node gained and lost, and no other."""
    assert view.moved is not None
    key, domains = rule.key, rule.domains
    view.census.current(rule.count)
    own = view.census.moved(view.census.picked((rule.joining,)), view.moved)
    own = (own if domains.eligible is None else own * domains.eligible)[rows]
    least, emptiest, next_least = domains.two_least()
    held = domains.at(rows) + own
    floor = np.where(key.ids[rows] == emptiest, next_least, least)
    floor = np.where(domains.exists(rows), np.minimum(floor, held), floor)
    if len(domains.there) < rule.min_domains:
        floor = np.zeros(len(own))
    codes = (held + rule.me - floor > rule.max_skew).astype(np.int64)
    return codes if key.everywhere else np.where(key.present[rows], codes, UNLABELLED)


def _weighed(view: View, rule: Rule, rows: Rows, lacking: Bools | None) -> Floats:
    """What one constraint adds to each row's score; nothing where the node lacks the key."""
    view.census.current(rule.count)
    key, slack = rule.key, rule.max_skew - 1.0
    if key.name == HOSTNAME:
        here = chosen(rule.count.rows, rows)
        size = len(here) - (0 if lacking is None else int(lacking.sum()))
        added = here * math.log(size + 2) + slack
        return added if key.everywhere else np.where(chosen(key.present, rows), added, 0.0)
    counts = rule.domains.by_domain()
    if key.empty is not None:
        counts[key.empty] += counts[ABSENT]
    table = counts * math.log(_domains_among(key, rows, lacking) + 2) + slack
    table[ABSENT] = 0.0
    return table.take(chosen(key.ids, rows), mode="clip")


def _domains_among(key: Key, rows: Rows, lacking: Bools | None) -> int:
    """How many domains the scored rows make up; to lack the key is to have the empty value here."""
    ids = chosen(key.ids, rows)
    if lacking is None and len(key.ids) - len(ids) < key.smallest:
        return key.number  # too few are left out to hide one
    seen = np.bincount(ids if lacking is None else ids[~lacking], minlength=key.size) > 0
    if key.empty is not None and seen[ABSENT]:
        seen[key.empty] = False
    return int(np.count_nonzero(seen))


def _lacking(rules: Rules, rows: Rows) -> Bools | None:
    return None if rules.lacking is None else chosen(rules.lacking, rows)
