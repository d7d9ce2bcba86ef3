"""Ids of the pod affinity terms of placed pods, and which of them match a given pod.

All terms of one pod template are a *term set*; set 0 is empty. Ids only grow, so forks share one object. A list of terms
with an invalid selector is left out as a whole, as kube-scheduler does, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from trimtab.core.cluster.topology.pod_selectors import Labels, SelectorIndex, term_namespaces
from trimtab.core.model.affinity import Affinity, PodAffinityTerm
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector

REQUIRED_ANTI_AFFINITY = "required anti-affinity"
REQUIRED_AFFINITY = "required affinity"
PREFERRED = "preferred affinity, or anti-affinity if the weight is negative"


class AffinityTerm(Struct, frozen=True, gc=False):
    """One term, with the namespaces resolved for the pod that has it."""

    kind: str
    weight: int
    key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        by_labels = self.namespace_selector
        selected = namespace in self.namespaces or (by_labels is not None and by_labels.matches(namespace_labels))
        return selected and self.selector.matches(labels)


class AffinityTerms:
    """`term_sets` are the term ids of each set, `terms` all terms by id."""

    __slots__ = ("_by_labels", "_ids", "_referenced", "_term_ids", "invalid_lists", "term_sets", "terms")

    def __init__(self) -> None:
        self.term_sets: list[tuple[int, ...]] = [()]
        self.terms: list[AffinityTerm] = []
        self.invalid_lists = 0
        self._ids: dict[tuple[str, int], int] = {}
        self._referenced: list[Affinity] = []  # kept alive, because `_ids` knows them by identity
        self._term_ids: dict[AffinityTerm, int] = {}
        self._by_labels: SelectorIndex[int] = SelectorIndex()

    def __len__(self) -> int:
        return len(self.term_sets)

    def id_of(self, pod: Pod) -> int:
        """The id of the pod's term set."""
        affinity = pod.spec.affinity
        if affinity is None or not has_pod_terms(affinity):
            return 0
        number = self._ids.get((pod.namespace, id(affinity)))
        if number is None:
            self._referenced.append(affinity)
            number = self._ids[pod.namespace, id(affinity)] = len(self.term_sets)
            self.term_sets.append(tuple(self._term_id(term) for term in self._terms_of(affinity, pod.namespace)))
        return number

    def matching(self, pod: Pod, namespace_labels: Mapping[str, str]) -> tuple[int, ...]:
        """Ids of the terms that match this pod."""
        labels = pod.labels
        return tuple(
            number
            for number in self._by_labels.candidates(labels)
            if self.terms[number].matches(pod.namespace, labels, namespace_labels)
        )

    def _term_id(self, term: AffinityTerm) -> int:
        number = self._term_ids.get(term)
        if number is None:
            number = self._term_ids[term] = len(self.terms)
            self.terms.append(term)
            self._by_labels.add(term.selector, number)
        return number

    def _terms_of(self, affinity: Affinity, namespace: str) -> Iterator[AffinityTerm]:
        near, far = affinity.pod_affinity, affinity.pod_anti_affinity
        yield from self._list(REQUIRED_ANTI_AFFINITY, [(1, term) for term in far.required], namespace)
        yield from self._list(REQUIRED_AFFINITY, [(1, term) for term in near.required], namespace)
        yield from self._list(PREFERRED, [(each.weight, each.term) for each in near.preferred], namespace)
        yield from self._list(PREFERRED, [(-each.weight, each.term) for each in far.preferred], namespace)

    def _list(self, kind: str, terms: Iterable[tuple[int, PodAffinityTerm]], namespace: str) -> Iterator[AffinityTerm]:
        weighted = list(terms)
        if any(invalid(term) for _, term in weighted):
            self.invalid_lists += 1
            return
        for weight, term in weighted:
            if term.selector is not None:
                named = term_namespaces(term, namespace)
                yield AffinityTerm(kind, weight, term.topology_key, named, term.namespace_selector, term.selector)


def has_pod_terms(affinity: Affinity) -> bool:
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    return bool(near.required or near.preferred or far.required or far.preferred)


def invalid(term: PodAffinityTerm) -> bool:
    return any(each is not None and not each.valid for each in (term.selector, term.namespace_selector))
