"""What the affinity between a pod and those that stand comes to in a cluster, its own terms and theirs; judges no node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.core.cluster.topology.carriers import ANTI, HARD, has_pod_terms, unsound
from trimtab.core.cluster.topology.counts import Count, Domains
from trimtab.core.cluster.topology.picks import pick_of, takes_all
from trimtab.core.cluster.view import View
from trimtab.core.model.affinity import Affinity, PodTerm
from trimtab.core.model.objects import Namespace
from trimtab.core.model.pod import Pod
from trimtab.core.model.unsound import fault

NO_AFFINITY = Affinity()


@dataclass(frozen=True, slots=True)
class Standing:
    """What of one count stands in each domain of one key, and what each is worth."""

    count: Count
    domains: Domains
    worth: int = 1


@dataclass(frozen=True, slots=True)
class Terms:
    """All that can tie a pod to others. `near` has one a term, of the pods that all required terms pick together;
    `like_me` says that the pod itself is one of them.
    """

    near: tuple[Standing, ...]
    like_me: bool
    far: tuple[Standing, ...]
    kept_off: tuple[Standing, ...]  # by the required anti-affinity of those that stand
    worth: tuple[Standing, ...]  # preferences, the pod's own and theirs
    fault: str  # what is wrong with the pod's own terms; then there is nothing else
    _held: object  # known by identity, so they must not go


def terms_of(view: View, pod: Pod, hard_weight: int) -> Terms | None:
    """None at once for a pod without terms whom no standing pod's term can meet."""
    affinity, carriers = pod.spec.affinity, view.pods.carriers
    own = affinity is not None and has_pod_terms(affinity)
    if not own and not carriers.terms:
        return None
    name = (
        id(affinity) if own else 0,
        id(pod.labels),
        pod.namespace,
        hard_weight,
        len(carriers.terms),
        view.objects.edition(Namespace),
    )
    return view.census.kept(name, lambda: _built(view, pod, hard_weight))


def _fault(affinity: Affinity) -> str:
    """What is wrong with the pod's terms, list by list, in kube-scheduler's words; nothing when they are sound."""
    near, far = affinity.pods, affinity.anti_pods
    lists: tuple[tuple[str, Iterable[PodTerm]], ...] = (
        ("requiredAffinityTerms", near.required),
        ("requiredAntiAffinityTerms", far.required),
        ("preferredAffinityTerms", (each.term for each in near.preferred)),
        ("preferredAntiAffinityTerms", (each.term for each in far.preferred)),
    )
    faults = []
    for name, terms in lists:
        wrong = next((term for term in terms if unsound(term)), None)
        if wrong is not None:
            faults.append(f"{name}: {fault(wrong.selector) or fault(wrong.namespace_selector)}")
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]" if faults else ""


def _built(view: View, pod: Pod, hard_weight: int) -> Terms:
    affinity, census = pod.spec.affinity or NO_AFFINITY, view.census
    if wrong := _fault(affinity):
        return Terms((), False, (), (), (), wrong, (pod.spec, pod.labels))
    known = view.objects.of(Namespace)
    near = tuple(pick_of(term, pod.namespace, known) for term in affinity.pods.required)
    return Terms(
        near=tuple(_standing(view, census.picked(near), each.topology_key) for each in affinity.pods.required),
        like_me=bool(near) and takes_all(near, pod.namespace, pod.labels),
        far=tuple(_picked(view, pod, each) for each in affinity.anti_pods.required),
        kept_off=_kept_off(view, pod),
        worth=(
            *(_picked(view, pod, each.term, each.weight) for each in affinity.pods.preferred),
            *(_picked(view, pod, each.term, -each.weight) for each in affinity.anti_pods.preferred),
            *_wished_by_others(view, pod, hard_weight),
        ),
        fault="",
        _held=(pod.spec, pod.labels),
    )


def _picked(view: View, pod: Pod, term: PodTerm, worth: int = 1) -> Standing:
    count = view.census.picked((pick_of(term, pod.namespace, view.objects.of(Namespace)),))
    return _standing(view, count, term.topology_key, worth)


def _standing(view: View, count: Count, key: str, worth: int = 1) -> Standing:
    return Standing(count, count.by(view.census.key(key)), worth)


def _kept_off(view: View, pod: Pod) -> tuple[Standing, ...]:
    terms = view.pods.carriers.terms
    by_key: dict[str, list[tuple[int, int]]] = {}
    for number in _met(view, pod):
        if terms[number].kind == ANTI:
            by_key.setdefault(terms[number].key, []).append((number, 1))
    return tuple(_standing(view, view.census.carried(tuple(met)), key) for key, met in by_key.items())


def _wished_by_others(view: View, pod: Pod, hard_weight: int) -> tuple[Standing, ...]:
    """For and against apart: where they cancel out there is still an opinion."""
    terms = view.pods.carriers.terms
    by_key: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    for number in _met(view, pod):
        term = terms[number]
        weight = hard_weight if term.kind == HARD else term.weight
        if term.kind != ANTI and weight:
            by_key.setdefault((term.key, weight > 0), []).append((number, weight))
    return tuple(_standing(view, view.census.carried(tuple(met)), key) for (key, _), met in by_key.items())


def _met(view: View, pod: Pod) -> tuple[int, ...]:
    namespace = view.objects.of(Namespace).get(pod.namespace)
    return tuple(sorted(view.pods.carriers.met_by(pod, namespace.labels if namespace is not None else {})))
