"""Numbers for the pod terms that standing pods carry, and which of them a waiting pod meets; how many is left to `census`.

A *carrier* is all terms of one template; number 0 carries none. The numbers only grow, so forks share one table. A list of
terms with a selector that Kubernetes would refuse is left out as a whole, as kube-scheduler does it, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from trimtab.core.cluster.topology.picks import ByPair, Labels, own_namespaces
from trimtab.core.model.affinity import Affinity, PodTerm
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector

ANTI = "required anti-affinity"
HARD = "required affinity"
SOFT = "preferred affinity, or against it where the weight is below 0"


class Term(Struct, frozen=True, gc=False):
    """One term as its carrier means it."""

    kind: str
    weight: int
    key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector

    def meets(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        known = namespace in self.namespaces
        chosen = self.namespace_selector
        return (known or (chosen is not None and chosen.picks(namespace_labels))) and self.selector.picks(labels)


class Carriers:
    """`held` gives the terms of each carrier, `terms` each term that some carrier has."""

    __slots__ = ("_by_labels", "_kept", "_numbers", "_terms", "faults", "held", "terms")

    def __init__(self) -> None:
        self.held: list[tuple[int, ...]] = [()]
        self.terms: list[Term] = []
        self.faults = 0
        self._numbers: dict[tuple[str, int], int] = {}
        self._kept: list[Affinity] = []  # they are known by identity, so they must not go
        self._terms: dict[Term, int] = {}
        self._by_labels: ByPair[int] = ByPair()

    def __len__(self) -> int:
        return len(self.held)

    def number(self, pod: Pod) -> int:
        affinity = pod.spec.affinity
        if affinity is None or not has_pod_terms(affinity):
            return 0
        number = self._numbers.get((pod.namespace, id(affinity)))
        if number is None:
            self._kept.append(affinity)
            number = self._numbers[pod.namespace, id(affinity)] = len(self.held)
            self.held.append(tuple(self._term(each) for each in self._read(affinity, pod.namespace)))
        return number

    def met_by(self, pod: Pod, namespace_labels: Mapping[str, str]) -> tuple[int, ...]:
        """Terms of whichever carriers that this pod meets."""
        labels = pod.labels
        return tuple(
            number
            for number in self._by_labels.candidates(labels)
            if self.terms[number].meets(pod.namespace, labels, namespace_labels)
        )

    def _term(self, term: Term) -> int:
        number = self._terms.get(term)
        if number is None:
            number = self._terms[term] = len(self.terms)
            self.terms.append(term)
            self._by_labels.add(term.selector, number)
        return number

    def _read(self, affinity: Affinity, namespace: str) -> Iterator[Term]:
        near, far = affinity.pods, affinity.anti_pods
        yield from self._all(ANTI, [(1, each) for each in far.required], namespace)
        yield from self._all(HARD, [(1, each) for each in near.required], namespace)
        yield from self._all(SOFT, [(each.weight, each.term) for each in near.preferred], namespace)
        yield from self._all(SOFT, [(-each.weight, each.term) for each in far.preferred], namespace)

    def _all(self, kind: str, terms: Iterable[tuple[int, PodTerm]], namespace: str) -> Iterator[Term]:
        found = list(terms)
        if any(unsound(term) for _, term in found):
            self.faults += 1
            return
        for weight, term in found:
            if term.selector is not None:
                named = own_namespaces(term, namespace)
                yield Term(kind, weight, term.topology_key, named, term.namespace_selector, term.selector)


def has_pod_terms(affinity: Affinity) -> bool:
    near, far = affinity.pods, affinity.anti_pods
    return bool(near.required or near.preferred or far.required or far.preferred)


def unsound(term: PodTerm) -> bool:
    return any(each is not None and not each.sound for each in (term.selector, term.namespace_selector))
