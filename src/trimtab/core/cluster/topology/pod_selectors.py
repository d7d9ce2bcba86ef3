"""Selectors of pods by namespace and labels, and an index that finds the selectors which may match given labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """Pods of some namespaces (None: all) that match a label selector (None: matches nothing)."""

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def matches(self, namespace: str, labels: Labels) -> bool:
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.selector.matches(labels)


def matches_all(selectors: Iterable[PodSelector], namespace: str, labels: Labels) -> bool:
    return all(selector.matches(namespace, labels) for selector in selectors)


def matcher(selectors: Iterable[PodSelector]) -> Callable[[str, Labels], bool]:
    """`matches_all` for the labels of many pods; none of the selectors may be None."""
    each_matches = [(each.namespaces, each.selector.matcher()) for each in selectors if each.selector is not None]
    return lambda namespace, labels: all(
        (namespaces is None or namespace in namespaces) and matches(labels) for namespaces, matches in each_matches
    )


def term_namespaces(term: PodAffinityTerm, namespace: str) -> frozenset[str]:
    """The namespaces that a term lists; its pod's own namespace if it lists and selects none."""
    given = term.namespaces or term.namespace_selector is not None
    return frozenset(term.namespaces) if given else frozenset((namespace,))


def selector_of_term(term: PodAffinityTerm, namespace: str, known: Mapping[str, Namespace]) -> PodSelector:
    """The selector of a pending pod's term, with its namespace selector resolved to the namespaces that match now.

    A namespace selector that matches a namespace without labels selects pods of all namespaces, as in kube-scheduler.
    """
    listed, by_labels = term_namespaces(term, namespace), term.namespace_selector
    if by_labels is None:
        return PodSelector(listed, term.selector)
    if by_labels.matches({}):
        return PodSelector(None, term.selector)
    matching = (each.name for each in known.values() if by_labels.matches(each.labels))
    return PodSelector(listed.union(matching), term.selector)


def required_label(selector: LabelSelector) -> Pair | None:
    """A label that every match must have, if the selector has one."""
    if selector.match_labels:
        return selector.match_labels[0]
    for requirement in selector.match_expressions:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


class SelectorIndex(Generic[T]):
    """Items with selectors, so that labels find the few that may match them."""

    __slots__ = ("_by_label", "_without_label")

    def __init__(self) -> None:
        self._by_label: dict[Pair, list[T]] = {}
        self._without_label: list[T] = []

    def add(self, selector: LabelSelector, item: T) -> None:
        pair = required_label(selector)
        (self._without_label if pair is None else self._by_label.setdefault(pair, [])).append(item)

    def candidates(self, labels: Labels) -> Iterator[T]:
        yield from self._without_label
        for pair in labels.items():
            yield from self._by_label.get(pair, ())
