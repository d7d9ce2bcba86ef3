"""Numbers for the pod terms that standing pods carry, and which of them a waiting pod meets; how many is left to `census`.

A *carrier* is all terms of one template; number 0 carries none. The numbers only grow, so forks share one table. A list of
terms with a selector that Kubernetes would refuse is left out as a whole, as kube-scheduler does it, and counted.
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
PREFERRED = "preferred affinity, or against it where the weight is below 0"


class AffinityTerm(Struct, frozen=True, gc=False):
    """One term as its carrier means it."""

    kind: str
    weight: int
    key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        known = namespace in self.namespaces
        chosen = self.namespace_selector
        return (known or (chosen is not None and chosen.matches(namespace_labels))) and self.selector.matches(labels)


class AffinityTerms:
    """`held` gives the terms of each carrier, `terms` each term that some carrier has."""

    __slots__ = ("_by_labels", "_ids", "_referenced", "_term_ids", "invalid_lists", "term_sets", "terms")

    def __init__(self) -> None:
        self.term_sets: list[tuple[int, ...]] = [()]
        self.terms: list[AffinityTerm] = []
        self.invalid_lists = 0
        self._ids: dict[tuple[str, int], int] = {}
        self._referenced: list[Affinity] = []  # they are known by identity, so they must not go
        self._term_ids: dict[AffinityTerm, int] = {}
        self._by_labels: SelectorIndex[int] = SelectorIndex()

    def __len__(self) -> int:
        return len(self.term_sets)

    def id_of(self, pod: Pod) -> int:
        affinity = pod.spec.affinity
        if affinity is None or not has_pod_terms(affinity):
            return 0
        number = self._ids.get((pod.namespace, id(affinity)))
        if number is None:
            self._referenced.append(affinity)
            number = self._ids[pod.namespace, id(affinity)] = len(self.term_sets)
            self.term_sets.append(tuple(self._term_id(each) for each in self._read(affinity, pod.namespace)))
        return number

    def matching(self, pod: Pod, namespace_labels: Mapping[str, str]) -> tuple[int, ...]:
        """Terms of whichever carriers that this pod meets."""
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

    def _read(self, affinity: Affinity, namespace: str) -> Iterator[AffinityTerm]:
        near, far = affinity.pod_affinity, affinity.pod_anti_affinity
        yield from self._all(REQUIRED_ANTI_AFFINITY, [(1, each) for each in far.required], namespace)
        yield from self._all(REQUIRED_AFFINITY, [(1, each) for each in near.required], namespace)
        yield from self._all(PREFERRED, [(each.weight, each.term) for each in near.preferred], namespace)
        yield from self._all(PREFERRED, [(-each.weight, each.term) for each in far.preferred], namespace)

    def _all(self, kind: str, terms: Iterable[tuple[int, PodAffinityTerm]], namespace: str) -> Iterator[AffinityTerm]:
        found = list(terms)
        if any(invalid(term) for _, term in found):
            self.invalid_lists += 1
            return
        for weight, term in found:
            if term.selector is not None:
                named = term_namespaces(term, namespace)
                yield AffinityTerm(kind, weight, term.topology_key, named, term.namespace_selector, term.selector)


def has_pod_terms(affinity: Affinity) -> bool:
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    return bool(near.required or near.preferred or far.required or far.preferred)


def invalid(term: PodAffinityTerm) -> bool:
    return any(each is not None and not each.valid for each in (term.selector, term.namespace_selector))
