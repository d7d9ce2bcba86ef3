"""The selector that stands for a pod's kin: what its Services and its controller select; who is spread by it is left open."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.topology.pod_selectors import SelectorIndex
from trimtab.core.cluster.topology.topology_counts import TopologyCounts
from trimtab.core.model.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector

ByNamespace = dict[str, SelectorIndex[LabelSelector]]


def generation(objects: Objects) -> int:
    """Rises whenever the selector of some pod may have changed."""
    of = objects.generation  # asked for with each pod: a loop would cost more than the sums
    return of(Service) + of(ReplicationController) + of(ReplicaSet) + of(StatefulSet)


def default_selector(census: TopologyCounts, objects: Objects, pod: Pod) -> LabelSelector:
    """All that its Services and its controller select by; empty when there are none."""
    labels: dict[str, str] = {}
    for service in _services(census, objects, pod):
        labels.update(service.match_labels)
    owner, key = pod.owner, f"{pod.namespace}/{pod.owner.name}" if pod.owner else ""
    added: LabelSelector | None = None
    match (owner.api_version, owner.kind) if owner else ("", ""):
        case ("v1", "ReplicationController"):
            controller = objects.of_kind(ReplicationController).get(key)
            labels.update(controller.selector.match_labels if controller and controller.selector else ())
        case ("apps/v1", "ReplicaSet"):
            added = _valid_selector(objects.of_kind(ReplicaSet).get(key))
        case ("apps/v1", "StatefulSet"):
            added = _valid_selector(objects.of_kind(StatefulSet).get(key))
    selector = LabelSelector(tuple(sorted(labels.items())))
    if added is None:
        return selector
    # A key that both name must have both values: then nothing is selected, as it should be.
    pairs = dict.fromkeys((*selector.match_labels, *added.match_labels))
    return LabelSelector(tuple(pairs), added.match_expressions)


def _valid_selector(owner: ReplicaSet | StatefulSet | None) -> LabelSelector | None:
    return owner.selector if owner is not None and owner.selector is not None and owner.selector.valid else None


def _services(census: TopologyCounts, objects: Objects, pod: Pod) -> Iterator[LabelSelector]:
    """Selectors of the Services that select the pod."""
    by_namespace = census.memo(("services", objects.generation(Service)), lambda: _indexed(objects))
    known = by_namespace.get(pod.namespace)
    for selector in known.candidates(pod.labels) if known is not None else ():
        if selector.matches(pod.labels):
            yield selector


def _indexed(objects: Objects) -> ByNamespace:
    found: ByNamespace = {}
    for service in objects.of_kind(Service).values():
        if service.selector is not None:
            found.setdefault(service.namespace, SelectorIndex()).add(service.selector, service.selector)
    return found
