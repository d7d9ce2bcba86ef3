"""The selector for a pod's default topology spread constraints: what its Services and its controller select."""

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
    of = objects.generation  # called for each pod: a loop would cost more than the sum
    return of(Service) + of(ReplicationController) + of(ReplicaSet) + of(StatefulSet)


def default_selector(counts: TopologyCounts, objects: Objects, pod: Pod) -> LabelSelector:
    """Everything that the pod's Services and controller select by; empty if there are none."""
    labels: dict[str, str] = {}
    for service in _services(counts, objects, pod):
        labels.update(service.match_labels)
    owner, key = pod.owner, f"{pod.namespace}/{pod.owner.name}" if pod.owner else ""
    by_owner: LabelSelector | None = None
    match (owner.api_version, owner.kind) if owner else ("", ""):
        case ("v1", "ReplicationController"):
            controller = objects.of_kind(ReplicationController).get(key)
            labels.update(controller.selector.match_labels if controller and controller.selector else ())
        case ("apps/v1", "ReplicaSet"):
            by_owner = _valid_selector(objects.of_kind(ReplicaSet).get(key))
        case ("apps/v1", "StatefulSet"):
            by_owner = _valid_selector(objects.of_kind(StatefulSet).get(key))
    selector = LabelSelector(tuple(sorted(labels.items())))
    if by_owner is None:
        return selector
    # A key with two values matches nothing, as in kube-scheduler.
    pairs = dict.fromkeys((*selector.match_labels, *by_owner.match_labels))
    return LabelSelector(tuple(pairs), by_owner.match_expressions)


def _valid_selector(owner: ReplicaSet | StatefulSet | None) -> LabelSelector | None:
    return owner.selector if owner is not None and owner.selector is not None and owner.selector.valid else None


def _services(counts: TopologyCounts, objects: Objects, pod: Pod) -> Iterator[LabelSelector]:
    """Selectors of the Services that select the pod."""
    by_namespace = counts.memo(("services", objects.generation(Service)), lambda: _index(objects))
    services = by_namespace.get(pod.namespace)
    for selector in services.candidates(pod.labels) if services is not None else ():
        if selector.matches(pod.labels):
            yield selector


def _index(objects: Objects) -> ByNamespace:
    index: ByNamespace = {}
    for service in objects.of_kind(Service).values():
        if service.selector is not None:
            index.setdefault(service.namespace, SelectorIndex()).add(service.selector, service.selector)
    return index
