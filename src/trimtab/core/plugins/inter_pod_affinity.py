"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

Terms of existing pods count too: their required anti-affinity keeps other pods away, and their preferences are scored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.labels import ABSENT
from trimtab.core.cluster.topology.affinity_terms import (
    REQUIRED_AFFINITY,
    REQUIRED_ANTI_AFFINITY,
    has_pod_terms,
    invalid,
)
from trimtab.core.cluster.topology.pod_count import Domains, PodCount, TopologyKey, take_rows
from trimtab.core.cluster.topology.pod_selectors import matches_all, selector_of_term
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
from trimtab.core.model.affinity import Affinity, PodAffinityTerm
from trimtab.core.model.change import Change
from trimtab.core.model.objects import Namespace
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import selector_error
from trimtab.core.model.setting import check_ranges, setting
from trimtab.core.tables import Floats

AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY = -1, 1, 2
NO_AFFINITY = Affinity()
_REASONS = {
    AFFINITY: "node(s) didn't match pod affinity rules",
    ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
}


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    """`hard_pod_affinity_weight` is the score weight of an existing pod's required affinity to this one."""

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
        check_ranges(self)

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
        by_existing = _matches_any(view, terms.existing_anti_affinity, rows) if terms is not None else None
        by_own = _matches_any(view, terms.anti_affinity, rows) if terms is not None else None
        if by_existing is None and by_own is None:
            codes = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
        elif by_existing is None:
            codes = by_own.astype(np.int64)  # type: ignore[union-attr]
        else:
            codes = np.multiply(by_existing, EXISTING_ANTI_AFFINITY, dtype=np.int64)
            codes = codes if by_own is None else np.where(by_own, ANTI_AFFINITY, codes)
        if terms is None or not terms.affinity:
            return codes
        return np.where(_satisfies_affinity(view, terms, rows), codes, AFFINITY)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        terms = self._terms(view, pod)
        wants_others = terms is not None and bool(terms.affinity) and not terms.self_match and view.delta is None
        if wants_others and terms is not None and not _any_matching(view, terms.affinity):
            return False  # there is no pod to be beside, so no node has to be looked at
        return any_node_passes(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """The number of matching pods in the node's domains, times the terms' weights."""
        affinity = pod.spec.affinity
        if self.ignore_preferred_terms_of_existing_pods and not (
            affinity is not None and (affinity.pod_affinity.preferred or affinity.pod_anti_affinity.preferred)
        ):
            return None
        terms = self._terms(view, pod)
        if terms is None or not _any_matching(view, terms.preferred):
            return None
        by_key: dict[int, tuple[TopologyKey, Floats]] = {}
        for term in terms.preferred:
            key, weighted = term.domains.key, term.domains.counts * term.weight
            by_key[id(key)] = (key, weighted + by_key[id(key)][1] if id(key) in by_key else weighted)
        columns = [_to_rows(key, weighted, rows) for key, weighted in by_key.values()]
        return columns[0] if len(columns) == 1 else reduce(np.add, columns)

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        if not raw.size:
            return raw
        lowest, highest = int(raw.min()), int(raw.max())
        if lowest == highest:
            return np.zeros_like(raw)
        spread = highest - lowest
        return scale_by_table(
            raw, lowest, highest, lambda each: ((each - lowest) / spread * MAX_SCORE).astype(np.int64)
        )

    def _terms(self, view: View, pod: Pod) -> PreparedTerms | None:
        return prepare_terms(view, pod, self.hard_pod_affinity_weight)


def _any_matching(view: View, counts: tuple[TermCount, ...]) -> bool:
    """Whether any pod in any domain matches."""
    for term in counts:
        view.topology_counts.refresh(term.count)
    return any(term.domains.total for term in counts)


def _to_rows(key: TopologyKey, weights: Floats, rows: Rows) -> Ints:
    """Weights by domain, or by row where each row is its own domain, as whole numbers for these rows."""
    if key.unique_per_node:
        by_row: Ints = take_rows(weights, rows).astype(np.int64)
        return by_row if key.on_all_nodes else np.where(take_rows(key.present, rows), by_row, 0)
    table = weights.astype(np.int64)
    table[ABSENT] = 0
    return table.take(take_rows(key.ids, rows), mode="clip")


def _matches_any(view: View, counts: tuple[TermCount, ...], rows: Rows) -> Bools | None:
    """Rows in whose domains a pod matches a term, None without terms; once it is all rows, the rest is not asked."""
    found: Bools | None = None
    for term in counts:
        matching = _has_match(view, term, rows)
        found = matching if found is None else found | matching
        if found.all():
            break
    return found


def _has_match(view: View, count: TermCount, rows: Rows) -> Bools:
    """Rows in whose domain a pod matches."""
    view.topology_counts.refresh(count.count)
    if view.delta is None:
        return count.domains.rows_above(0.0, rows)
    added = take_rows(view.topology_counts.overlay_delta(count.count, view.delta), rows)
    matching: Bools = (count.domains.at_rows(rows) + added > 0.0) & take_rows(count.domains.key.present, rows)
    return matching


def _satisfies_affinity(view: View, terms: PreparedTerms, rows: Rows) -> Bools:
    """Rows whose domains all have pods that match all terms; or any with all keys, for the first pod of a group."""
    matching: Bools = reduce(np.logical_and, [_has_match(view, term, rows) for term in terms.affinity])
    total = sum(term.domains.total for term in terms.affinity)
    if not terms.self_match or (total and view.delta is None):
        return matching
    present = [take_rows(term.domains.key.present, rows) for term in terms.affinity]
    has_keys: Bools = reduce(np.logical_and, present)
    if view.delta is None:
        return has_keys
    added = take_rows(view.topology_counts.overlay_delta(terms.affinity[0].count, view.delta), rows)
    keys = np.sum(present, axis=0, dtype=np.float64)
    is_first: Bools = total + added * keys == 0.0
    return matching | (has_keys & is_first)


@dataclass(frozen=True, slots=True)
class TermCount:
    """The pods that one term matches, counted in each domain of one topology key, and the term's weight."""

    count: PodCount
    domains: Domains
    weight: int = 1


@dataclass(frozen=True, slots=True)
class PreparedTerms:
    """All terms between a pod and existing pods. `affinity` has one count per required term, of the pods that all
    required terms match together; `self_match` says that the pod itself is one of them.
    """

    affinity: tuple[TermCount, ...]
    self_match: bool
    anti_affinity: tuple[TermCount, ...]
    existing_anti_affinity: tuple[TermCount, ...]  # required anti-affinity of existing pods
    preferred: tuple[TermCount, ...]  # the pod's own and those of existing pods
    error: str  # an invalid term of the pod's own; then there are no counts
    _keep_alive: object  # the cache key holds their ids, so they must stay alive


def prepare_terms(view: View, pod: Pod, hard_weight: int) -> PreparedTerms | None:
    """The prepared terms; None for a pod without terms that no existing pod's term can match."""
    affinity, existing = pod.spec.affinity, view.pod_table.affinity_terms
    own = affinity is not None and has_pod_terms(affinity)
    if not own and not existing.terms:
        return None
    name = (
        id(affinity) if own else 0,
        id(pod.labels),
        pod.namespace,
        hard_weight,
        len(existing.terms),
        view.objects.generation(Namespace),
    )
    return view.topology_counts.memo(name, lambda: _prepare(view, pod, hard_weight))


def _selector_errors(affinity: Affinity) -> str:
    """Invalid selectors of the pod's terms, list by list, in kube-scheduler's words; empty when all are valid."""
    pods, anti_pods = affinity.pod_affinity, affinity.pod_anti_affinity
    lists: tuple[tuple[str, Iterable[PodAffinityTerm]], ...] = (
        ("requiredAffinityTerms", pods.required),
        ("requiredAntiAffinityTerms", anti_pods.required),
        ("preferredAffinityTerms", (each.term for each in pods.preferred)),
        ("preferredAntiAffinityTerms", (each.term for each in anti_pods.preferred)),
    )
    errors = []
    for name, terms in lists:
        bad_term = next((term for term in terms if invalid(term)), None)
        if bad_term is not None:
            errors.append(f"{name}: {selector_error(bad_term.selector) or selector_error(bad_term.namespace_selector)}")
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""


def _prepare(view: View, pod: Pod, hard_weight: int) -> PreparedTerms:
    affinity, counts = pod.spec.affinity or NO_AFFINITY, view.topology_counts
    if error := _selector_errors(affinity):
        return PreparedTerms((), False, (), (), (), error, (pod.spec, pod.labels))
    namespaces = view.objects.of_kind(Namespace)
    selectors = tuple(selector_of_term(term, pod.namespace, namespaces) for term in affinity.pod_affinity.required)
    of_all_terms = counts.count_selected(selectors) if selectors else None
    return PreparedTerms(
        affinity=tuple(
            _count_by_key(view, of_all_terms, each.topology_key)
            for each in affinity.pod_affinity.required
            if of_all_terms is not None
        ),
        self_match=bool(selectors) and matches_all(selectors, pod.namespace, pod.labels),
        anti_affinity=tuple(_term_count(view, pod, each) for each in affinity.pod_anti_affinity.required),
        existing_anti_affinity=_existing_anti_affinity(view, pod),
        preferred=(
            *(_term_count(view, pod, each.term, each.weight) for each in affinity.pod_affinity.preferred),
            *(_term_count(view, pod, each.term, -each.weight) for each in affinity.pod_anti_affinity.preferred),
            *_preferred_by_existing(view, pod, hard_weight),
        ),
        error="",
        _keep_alive=(pod.spec, pod.labels),
    )


def _term_count(view: View, pod: Pod, term: PodAffinityTerm, weight: int = 1) -> TermCount:
    count = view.topology_counts.count_selected(
        (selector_of_term(term, pod.namespace, view.objects.of_kind(Namespace)),), later=True
    )
    return _count_by_key(view, count, term.topology_key, weight)


def _count_by_key(view: View, count: PodCount, key: str, weight: int = 1) -> TermCount:
    return TermCount(count, count.by_key(view.topology_counts.key(key)), weight)


def _existing_anti_affinity(view: View, pod: Pod) -> tuple[TermCount, ...]:
    terms = view.pod_table.affinity_terms.terms
    by_key: dict[str, list[tuple[int, int]]] = {}
    for number in _matching_terms(view, pod):
        if terms[number].kind == REQUIRED_ANTI_AFFINITY and view.has_label(terms[number].key):
            by_key.setdefault(terms[number].key, []).append((number, 1))
    return tuple(
        _count_by_key(view, view.topology_counts.count_terms(tuple(matching)), key) for key, matching in by_key.items()
    )


def _preferred_by_existing(view: View, pod: Pod, hard_weight: int) -> tuple[TermCount, ...]:
    """Positive and negative weights apart: where they cancel out, the plugin still scores."""
    terms = view.pod_table.affinity_terms.terms
    by_key: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for number in _matching_terms(view, pod):
        term = terms[number]
        weight = hard_weight if term.kind == REQUIRED_AFFINITY else term.weight
        if term.kind != REQUIRED_ANTI_AFFINITY and weight and view.has_label(term.key):
            by_key.setdefault((term.key, weight > 0), []).append((number, weight))
    return tuple(
        _count_by_key(view, view.topology_counts.count_terms(tuple(matching)), key)
        for (key, _), matching in by_key.items()
    )


def _matching_terms(view: View, pod: Pod) -> tuple[int, ...]:
    namespace = view.objects.of_kind(Namespace).get(pod.namespace)
    return tuple(sorted(view.pod_table.affinity_terms.matching(pod, namespace.labels if namespace is not None else {})))
