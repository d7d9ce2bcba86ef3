"""What the affinity between a pod and those that stand comes to in a cluster, its own terms and theirs; judges no node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.core.cluster.topology.affinity_terms import (
    REQUIRED_AFFINITY,
    REQUIRED_ANTI_AFFINITY,
    has_pod_terms,
    invalid,
)
from trimtab.core.cluster.topology.pod_count import Domains, PodCount
from trimtab.core.cluster.topology.pod_selectors import matches_all, selector_of_term
from trimtab.core.cluster.view import View
from trimtab.core.model.affinity import Affinity, PodAffinityTerm
from trimtab.core.model.objects import Namespace
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import selector_error

NO_AFFINITY = Affinity()


@dataclass(frozen=True, slots=True)
class TermCount:
    """What of one count stands in each domain of one key, and what each is worth."""

    count: PodCount
    domains: Domains
    weight: int = 1


@dataclass(frozen=True, slots=True)
class PreparedTerms:
    """All that can tie a pod to others. `near` has one a term, of the pods that all required terms pick together;
    `self_match` says that the pod itself is one of them.
    """

    affinity: tuple[TermCount, ...]
    self_match: bool
    anti_affinity: tuple[TermCount, ...]
    existing_anti_affinity: tuple[TermCount, ...]  # by the required anti-affinity of those that stand
    preferred: tuple[TermCount, ...]  # preferences, the pod's own and theirs
    error: str  # what is wrong with the pod's own terms; then there is nothing else
    _keep_alive: object  # known by identity, so they must not go


def prepare_terms(view: View, pod: Pod, hard_weight: int) -> PreparedTerms | None:
    """None at once for a pod without terms whom no standing pod's term can meet."""
    affinity, carriers = pod.spec.affinity, view.pod_table.affinity_terms
    own = affinity is not None and has_pod_terms(affinity)
    if not own and not carriers.terms:
        return None
    name = (
        id(affinity) if own else 0,
        id(pod.labels),
        pod.namespace,
        hard_weight,
        len(carriers.terms),
        view.objects.generation(Namespace),
    )
    return view.topology_counts.memo(name, lambda: _prepare(view, pod, hard_weight))


def _selector_errors(affinity: Affinity) -> str:
    """What is wrong with the pod's terms, list by list, in kube-scheduler's words; nothing when they are sound."""
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    lists: tuple[tuple[str, Iterable[PodAffinityTerm]], ...] = (
        ("requiredAffinityTerms", near.required),
        ("requiredAntiAffinityTerms", far.required),
        ("preferredAffinityTerms", (each.term for each in near.preferred)),
        ("preferredAntiAffinityTerms", (each.term for each in far.preferred)),
    )
    faults = []
    for name, terms in lists:
        wrong = next((term for term in terms if invalid(term)), None)
        if wrong is not None:
            faults.append(f"{name}: {selector_error(wrong.selector) or selector_error(wrong.namespace_selector)}")
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]" if faults else ""


def _prepare(view: View, pod: Pod, hard_weight: int) -> PreparedTerms:
    affinity, census = pod.spec.affinity or NO_AFFINITY, view.topology_counts
    if wrong := _selector_errors(affinity):
        return PreparedTerms((), False, (), (), (), wrong, (pod.spec, pod.labels))
    known = view.objects.of_kind(Namespace)
    near = tuple(selector_of_term(term, pod.namespace, known) for term in affinity.pod_affinity.required)
    return PreparedTerms(
        affinity=tuple(
            _count_by_key(view, census.count_selected(near), each.topology_key)
            for each in affinity.pod_affinity.required
        ),
        self_match=bool(near) and matches_all(near, pod.namespace, pod.labels),
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
        (selector_of_term(term, pod.namespace, view.objects.of_kind(Namespace)),)
    )
    return _count_by_key(view, count, term.topology_key, weight)


def _count_by_key(view: View, count: PodCount, key: str, weight: int = 1) -> TermCount:
    return TermCount(count, count.by_key(view.topology_counts.key(key)), weight)


def _existing_anti_affinity(view: View, pod: Pod) -> tuple[TermCount, ...]:
    terms = view.pod_table.affinity_terms.terms
    by_key: dict[str, list[tuple[int, int]]] = {}
    for number in _matching_terms(view, pod):
        if terms[number].kind == REQUIRED_ANTI_AFFINITY:
            by_key.setdefault(terms[number].key, []).append((number, 1))
    return tuple(_count_by_key(view, view.topology_counts.count_terms(tuple(met)), key) for key, met in by_key.items())


def _preferred_by_existing(view: View, pod: Pod, hard_weight: int) -> tuple[TermCount, ...]:
    """For and against apart: where they cancel out there is still an opinion."""
    terms = view.pod_table.affinity_terms.terms
    by_key: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for number in _matching_terms(view, pod):
        term = terms[number]
        weight = hard_weight if term.kind == REQUIRED_AFFINITY else term.weight
        if term.kind != REQUIRED_ANTI_AFFINITY and weight:
            by_key.setdefault((term.key, weight > 0), []).append((number, weight))
    return tuple(
        _count_by_key(view, view.topology_counts.count_terms(tuple(met)), key) for (key, _), met in by_key.items()
    )


def _matching_terms(view: View, pod: Pod) -> tuple[int, ...]:
    namespace = view.objects.of_kind(Namespace).get(pod.namespace)
    return tuple(sorted(view.pod_table.affinity_terms.matching(pod, namespace.labels if namespace is not None else {})))
