"""The selector that stands for a pod's kin: what its Services and its controller select; who is spread by it is left open."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.topology.census import Census
from trimtab.core.cluster.topology.picks import ByPair
from trimtab.core.model.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector

ByNamespace = dict[str, ByPair[LabelSelector]]


def edition(objects: Objects) -> int:
    """Rises whenever the selector of some pod may have changed."""
    of = objects.edition  # asked for with each pod: a loop would cost more than the sums
    return of(Service) + of(ReplicationController) + of(ReplicaSet) + of(StatefulSet)


def default_selector(census: Census, objects: Objects, pod: Pod) -> LabelSelector:
    """All that its Services and its controller select by; empty when there are none."""
    labels: dict[str, str] = {}
    for service in _services(census, objects, pod):
        labels.update(service.match_labels)
    owner, key = pod.owner, f"{pod.namespace}/{pod.owner.name}" if pod.owner else ""
    added: LabelSelector | None = None
    match (owner.api_version, owner.kind) if owner else ("", ""):
        case ("v1", "ReplicationController"):
            controller = objects.of(ReplicationController).get(key)
            labels.update(controller.selector.match_labels if controller and controller.selector else ())
        case ("apps/v1", "ReplicaSet"):
            added = _sound(objects.of(ReplicaSet).get(key))
        case ("apps/v1", "StatefulSet"):
            added = _sound(objects.of(StatefulSet).get(key))
    selector = LabelSelector(tuple(sorted(labels.items())))
    if added is None:
        return selector
    # A key that both name must have both values: then nothing is selected, as it should be.
    pairs = dict.fromkeys((*selector.match_labels, *added.match_labels))
    return LabelSelector(tuple(pairs), added.match_expressions)


def _sound(owner: ReplicaSet | StatefulSet | None) -> LabelSelector | None:
    return owner.selector if owner is not None and owner.selector is not None and owner.selector.sound else None


def _services(census: Census, objects: Objects, pod: Pod) -> Iterator[LabelSelector]:
    """Selectors of the Services that select the pod."""
    by_namespace = census.kept(("services", objects.edition(Service)), lambda: _indexed(objects))
    known = by_namespace.get(pod.namespace)
    for selector in known.candidates(pod.labels) if known is not None else ():
        if selector.picks(pod.labels):
            yield selector


def _indexed(objects: Objects) -> ByNamespace:
    found: ByNamespace = {}
    for service in objects.of(Service).values():
        if service.selector is not None:
            found.setdefault(service.namespace, ByPair()).add(service.selector, service.selector)
    return found
