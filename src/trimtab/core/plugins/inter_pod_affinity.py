"""InterPodAffinity: keeps pods near those they must be near to and far from those they must not, and likes what they prefer.

It cuts both ways: a pod that stands keeps others off by its own required anti-affinity, and what it prefers counts too.
"""

from __future__ import annotations

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
from trimtab.core.framework.pod_terms import PreparedTerms, TermCount, prepare_terms
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import setting

AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY = -1, 1, 2
_REASONS = {
    AFFINITY: "node(s) didn't match pod affinity rules",
    ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
}


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    """`hard_pod_affinity_weight` is what a standing pod's required affinity to this one is worth in scores."""

    name: ClassVar[str] = "InterPodAffinity"
    requeue_on: ClassVar[Change] = (
        Change.PODS
        | Change.NODE_ADDED
        | Change.NODE_DELETED
        | Change.LABELS
        | Change.NAMESPACES
        | Change.OWN_POD_UPDATED
    )
    needs_kinds: ClassVar[tuple[str, ...]] = ("namespaces",)
    normalise: ClassVar[Normalise] = Normalise.CUSTOM

    hard_pod_affinity_weight: int = setting(
        1, "0 to 100, 1 unless set: what a required affinity adds to scores", between=(0, 100)
    )
    ignore_preferred_terms_of_existing_pods: bool = setting(
        False, "false unless set: preferred terms of running pods count"
    )

    def __post_init__(self) -> None:
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            raise ValueError("hard pod affinity weight must be 0 to 100")

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        terms = self._terms(view, pod)
        if terms is not None and terms.error:
            return Reject(f"parsing pod: {terms.error}")
        if terms is None or not (
            terms.affinity or terms.anti_affinity or _any_matching(view, terms.existing_anti_affinity)
        ):
            return PreFilterStatus.SKIP
        return PreFilterStatus.SUCCESS

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        terms = self._terms(view, pod)
        kept_off = _matches_any(view, terms.existing_anti_affinity, rows) if terms is not None else None
        far = _matches_any(view, terms.anti_affinity, rows) if terms is not None else None
        if kept_off is None and far is None:
            found = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
        elif kept_off is None:
            found = far.astype(np.int64)  # type: ignore[union-attr]
        else:
            found = np.multiply(kept_off, EXISTING_ANTI_AFFINITY, dtype=np.int64)
            found = found if far is None else np.where(far, ANTI_AFFINITY, found)
        return (
            np.where(_satisfies_affinity(view, terms, rows), found, AFFINITY)
            if terms is not None and terms.affinity
            else found
        )

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """What stands in the node's domains, times what it is worth."""
        affinity = pod.spec.affinity
        if self.ignore_preferred_terms_of_existing_pods and not (
            affinity is not None and (affinity.pod_affinity.preferred or affinity.pod_anti_affinity.preferred)
        ):
            return None
        terms = self._terms(view, pod)
        if terms is None or not _any_matching(view, terms.preferred):
            return None
        by_key: dict[int, tuple[TopologyKey, Floats]] = {}
        for standing in terms.preferred:
            key, worth = standing.domains.key, standing.domains.counts * standing.weight
            by_key[id(key)] = (key, worth + by_key[id(key)][1] if id(key) in by_key else worth)
        columns = [_to_rows(key, worth, rows) for key, worth in by_key.values()]
        return columns[0] if len(columns) == 1 else reduce(np.add, columns)

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        if not raw.size:
            return raw
        lowest, highest = int(raw.min()), int(raw.max())
        if lowest == highest:
            return np.zeros_like(raw)
        span = highest - lowest
        return scale_by_table(raw, lowest, highest, lambda each: ((each - lowest) / span * MAX_SCORE).astype(np.int64))

    def _terms(self, view: View, pod: Pod) -> PreparedTerms | None:
        return prepare_terms(view, pod, self.hard_pod_affinity_weight)


def _any_matching(view: View, counts: tuple[TermCount, ...]) -> bool:
    """Whether anything of it stands in a domain."""
    for standing in counts:
        view.topology_counts.refresh(standing.count)
    return any(standing.domains.total for standing in counts)


def _to_rows(key: TopologyKey, weights: Floats, rows: Rows) -> Ints:
    """Worth by domain, or by row where each row is its own, as whole numbers for these rows."""
    if key.unique_per_node:
        found: Ints = take_rows(weights, rows).astype(np.int64)
        return found if key.on_all_nodes else np.where(take_rows(key.present, rows), found, 0)
    table = weights.astype(np.int64)
    table[ABSENT] = 0
    return table.take(take_rows(key.ids, rows), mode="clip")


def _matches_any(view: View, counts: tuple[TermCount, ...], rows: Rows) -> Bools | None:
    return reduce(np.logical_or, [_has_match(view, standing, rows) for standing in counts]) if counts else None


def _has_match(view: View, count: TermCount, rows: Rows) -> Bools:
    """Rows in whose domain something of it stands."""
    view.topology_counts.refresh(count.count)
    if view.delta is None:
        return count.domains.rows_above(0.0, rows)
    own = take_rows(view.topology_counts.overlay_delta(count.count, view.delta), rows)
    held: Bools = (count.domains.at_rows(rows) + own > 0.0) & take_rows(count.domains.key.present, rows)
    return held


def _satisfies_affinity(view: View, terms: PreparedTerms, rows: Rows) -> Bools:
    """Rows whose domains all hold pods that all terms pick; or any with all keys, for the first of a group."""
    held: Bools = reduce(np.logical_and, [_has_match(view, standing, rows) for standing in terms.affinity])
    inside = sum(standing.domains.total for standing in terms.affinity)
    if not terms.self_match or (inside and view.delta is None):
        return held
    present = [take_rows(standing.domains.key.present, rows) for standing in terms.affinity]
    labelled: Bools = reduce(np.logical_and, present)
    if view.delta is None:
        return labelled
    own = take_rows(view.topology_counts.overlay_delta(terms.affinity[0].count, view.delta), rows)
    keys = np.sum(present, axis=0, dtype=np.float64)
    first: Bools = inside + own * keys == 0.0
    return held | (labelled & first)
