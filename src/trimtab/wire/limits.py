"""How many entries of an object's fields are evaluated: far more than any real one has, and few enough for a short decision.

The API server admits objects of 1.5 MB, and kube-scheduler has no such limits. A pod beyond them is not scheduled; its
`error` names the field and the number. What it asks of nodes and other pods is not even kept, so that it costs nothing more;
requests, host ports, volumes and labels are (of `MAX_COUNTED` containers, volumes and resources of a container), because
they count for others. Other objects beyond the limits are malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import chain

from trimtab.core.model.pod import PodSpec
from trimtab.core.model.resources import PodRequests
from trimtab.wire.affinity import (
    AffinityShape,
    NodeTermShape,
    PodAffinityShape,
    PodTermShape,
    RequirementShape,
    SelectorShape,
    SpreadShape,
)

Spreads = tuple[SpreadShape, ...]

MAX_LABELS = 5_000
MAX_NODE_SELECTOR = 10_000
MAX_NODE_REQUIREMENTS = 2_000  # terms and lines of node affinity
MAX_TOLERATIONS = 5_000
MAX_SPREAD = 100
MAX_POD_TERMS = 100  # of affinity and anti-affinity
MAX_SELECTOR_LINES = 500  # of all selectors of pods in one object
MAX_NODE_VALUES = 50_000  # in all requirements of node affinity
MAX_SELECTOR_VALUES = 10_000  # in all selectors of pods, and lists of namespaces
MAX_CONTAINERS = 1_000
MAX_PORTS = 1_000
MAX_RESOURCES = 500
MAX_VOLUMES = 500
MAX_COUNTED = 2_000  # containers, volumes and resources of a container of a running pod, of each kind


def excess(field: str, what: str, found: Sized | int, limit: int) -> str:
    """The error of a field with more entries than are evaluated; empty within the limit."""
    count = found if isinstance(found, int) else len(found)
    return f"{field}: {count:,} {what}, and at most {limit:,} are evaluated; use fewer" if count > limit else ""


def constraints_excess(
    selector: Sized | None, affinity: AffinityShape | None, tolerations: Sized | None, spread: Spreads | None
) -> str:
    """The error of what a pod asks of its node and its neighbours; empty within all limits."""
    return (
        excess("spec.nodeSelector", "labels", selector or (), MAX_NODE_SELECTOR)
        or _affinity_excess(affinity)
        or excess("spec.tolerations", "tolerations", tolerations or (), MAX_TOLERATIONS)
        or _spread_excess(spread or ())
    )


def counted_excess(spec: PodSpec, requests: PodRequests, labels: Sized, containers: int, volumes: int) -> str:
    """The error of what counts for other pods, too; empty within all limits."""
    return (
        excess("metadata.labels", "labels", labels, MAX_LABELS)
        or excess("spec.containers", "containers", containers, MAX_CONTAINERS)
        or excess("spec.containers", "host ports", spec.ports, MAX_PORTS)
        or excess("spec.containers", "requested resources", requests.amounts, MAX_RESOURCES)
        or excess("spec.volumes", "volumes", volumes, MAX_VOLUMES)
    )


def check_selector(shape: SelectorShape | None, field: str) -> None:
    """Raises a ValueError if the label selector of an object has more than is evaluated."""
    if error := "" if shape is None else _selectors_excess([shape], (), field):
        raise ValueError(error)


def check_node_terms(terms: Iterable[NodeTermShape] | None, field: str) -> None:
    """The same for the terms by which a volume selects nodes."""
    if error := _node_terms_excess(tuple(terms or ()), field):
        raise ValueError(error)


def _affinity_excess(shape: AffinityShape | None) -> str:
    if shape is None:
        return ""
    return (
        _node_terms_excess(tuple(_node_terms(shape)), "spec.affinity.nodeAffinity")
        or _pod_terms_excess(shape.pod_affinity, "spec.affinity.podAffinity")
        or _pod_terms_excess(shape.pod_anti_affinity, "spec.affinity.podAntiAffinity")
    )


def _node_terms_excess(terms: tuple[NodeTermShape, ...], where: str) -> str:
    lines = tuple(chain.from_iterable((*(each.match_expressions or ()), *(each.match_fields or ())) for each in terms))
    count = len(terms) + len(lines)
    return excess(where, "terms and requirements", count, MAX_NODE_REQUIREMENTS) or excess(
        where, "values", _values(lines), MAX_NODE_VALUES
    )


def _spread_excess(shapes: Spreads) -> str:
    where = "spec.topologySpreadConstraints"
    return excess(where, "constraints", shapes, MAX_SPREAD) or _selectors_excess(
        (each.label_selector for each in shapes), (), where
    )


def _node_terms(shape: AffinityShape) -> Iterator[NodeTermShape]:
    nodes = shape.node_affinity
    if nodes is None:
        return
    required = nodes.required_during_scheduling_ignored_during_execution
    yield from (required.node_selector_terms or ()) if required is not None else ()
    preferred = nodes.preferred_during_scheduling_ignored_during_execution or ()
    yield from (each.preference for each in preferred if each.preference is not None)


def _pod_terms_excess(shape: PodAffinityShape | None, where: str) -> str:
    if shape is None:
        return ""
    preferred = shape.preferred_during_scheduling_ignored_during_execution or ()
    terms = (
        *(shape.required_during_scheduling_ignored_during_execution or ()),
        *(each.pod_affinity_term for each in preferred if each.pod_affinity_term is not None),
    )
    return excess(where, "terms", terms, MAX_POD_TERMS) or _selectors_excess(_selectors(terms), terms, where)


def _selectors(terms: Iterable[PodTermShape]) -> Iterator[SelectorShape | None]:
    for each in terms:
        yield each.label_selector
        yield each.namespace_selector


def _selectors_excess(selectors: Iterable[SelectorShape | None], terms: Iterable[PodTermShape], where: str) -> str:
    known = [each for each in selectors if each is not None]
    lines = tuple(chain.from_iterable(each.match_expressions or () for each in known))
    count = len(lines) + sum(len(each.match_labels or ()) for each in known)
    named = sum(len(each.namespaces or ()) for each in terms)
    return excess(where, "requirements of selectors", count, MAX_SELECTOR_LINES) or excess(
        where, "values and namespaces", _values(lines) + named, MAX_SELECTOR_VALUES
    )


def _values(lines: Iterable[RequirementShape]) -> int:
    return sum(len(each.values or ()) for each in lines)
