"""Which pods a selector picks out of which namespaces, as values; counting them is left to `census`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from trimtab.core.model.affinity import PodAffinityTerm
from trimtab.core.model.objects import Namespace
from trimtab.core.model.selectors import LabelSelector

T = TypeVar("T")

Labels = Mapping[str, str]
Pair = tuple[str, str]

ALL_PODS = LabelSelector()


class PodSelector(Struct, frozen=True, gc=False):
    """Pods of some namespaces (None: of all) that a selector matches (None: it matches nobody)."""

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def matches(self, namespace: str, labels: Labels) -> bool:
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.selector.matches(labels)


def matches_all(picks: Iterable[PodSelector], namespace: str, labels: Labels) -> bool:
    return all(pick.matches(namespace, labels) for pick in picks)


def term_namespaces(term: PodAffinityTerm, namespace: str) -> frozenset[str]:
    """The namespaces that a term names, or that of its pod where it says nothing about them."""
    named = term.namespaces or term.namespace_selector is not None
    return frozenset(term.namespaces) if named else frozenset((namespace,))


def selector_of_term(term: PodAffinityTerm, namespace: str, known: Mapping[str, Namespace]) -> PodSelector:
    """Whom a waiting pod's term picks: its selector of namespaces stands for those that it matches now.

    One that matches a namespace without labels picks pods of all namespaces, because that is how kube-scheduler then
    asks it about each pod.
    """
    named, chosen = term_namespaces(term, namespace), term.namespace_selector
    if chosen is None:
        return PodSelector(named, term.selector)
    if chosen.matches({}):
        return PodSelector(None, term.selector)
    return PodSelector(named.union(each.name for each in known.values() if chosen.matches(each.labels)), term.selector)


def required_label(selector: LabelSelector) -> Pair | None:
    """A pair of key and value that labels must hold to be matched, if the selector has one."""
    if selector.match_labels:
        return selector.match_labels[0]
    for line in selector.match_expressions:
        if line.operator == "In" and len(line.values) == 1:
            return line.key, line.values[0]
    return None


class SelectorIndex(Generic[T]):
    """Things that have selectors, so that labels find the few that may match them."""

    __slots__ = ("_loose", "_with_pair")

    def __init__(self) -> None:
        self._with_pair: dict[Pair, list[T]] = {}
        self._loose: list[T] = []

    def add(self, selector: LabelSelector, thing: T) -> None:
        pair = required_label(selector)
        (self._loose if pair is None else self._with_pair.setdefault(pair, [])).append(thing)

    def candidates(self, labels: Labels) -> Iterator[T]:
        yield from self._loose
        for pair in labels.items():
            yield from self._with_pair.get(pair, ())
