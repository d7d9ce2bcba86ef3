"""Decides how affinity, spreading, tolerations and selectors are read from JSON; leaves what they match to the plugins.

Go reads `null` as the empty value everywhere; only for a label selector does it mean something else (no selector).
"""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.affinity import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Spread,
)
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm, Requirement, pairs
from trimtab.core.model.taints import Toleration

Words = tuple[str, ...] | None

_ACTIONS: dict[str | None, bool] = {"DoNotSchedule": True, "ScheduleAnyway": False}


class RequirementShape(Struct, frozen=True, gc=False):
    key: str | None = None
    operator: str | None = None
    values: Words = None


Requirements = tuple[RequirementShape, ...] | None


class SelectorShape(Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: Requirements = None


class NodeTermShape(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: Requirements = None
    match_fields: Requirements = None


class NodeSelectorShape(Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[NodeTermShape, ...] | None = None


class PreferredNodesShape(Struct, frozen=True, gc=False):
    weight: int = 0
    preference: NodeTermShape | None = None


class NodeAffinityShape(Struct, frozen=True, gc=False, rename="camel"):
    required_during_scheduling_ignored_during_execution: NodeSelectorShape | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodesShape, ...] | None = None


class PodTermShape(Struct, frozen=True, gc=False, rename="camel"):
    topology_key: str | None = None
    label_selector: SelectorShape | None = None
    namespaces: Words = None
    namespace_selector: SelectorShape | None = None
    match_label_keys: Words = None
    mismatch_label_keys: Words = None


class PreferredPodsShape(Struct, frozen=True, gc=False, rename="camel"):
    weight: int = 0
    pod_affinity_term: PodTermShape | None = None


class PodAffinityShape(Struct, frozen=True, gc=False, rename="camel"):
    required_during_scheduling_ignored_during_execution: tuple[PodTermShape, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPodsShape, ...] | None = None


class AffinityShape(Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinityShape | None = None
    pod_affinity: PodAffinityShape | None = None
    pod_anti_affinity: PodAffinityShape | None = None


class TolerationShape(Struct, frozen=True, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class SpreadShape(Struct, frozen=True, gc=False, rename="camel"):
    topology_key: str | None = None
    max_skew: int | None = None
    when_unsatisfiable: str | None = None
    label_selector: SelectorShape | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: Words = None


def selector(shape: SelectorShape | None) -> LabelSelector | None:
    if shape is None:
        return None
    return LabelSelector(pairs(shape.match_labels), _requirements(shape.match_expressions))


def node_terms(shape: NodeSelectorShape) -> tuple[NodeSelectorTerm, ...]:
    return tuple(_node_term(term) for term in shape.node_selector_terms or ())


def affinity(shape: AffinityShape | None) -> Affinity | None:
    if shape is None:
        return None
    return Affinity(_nodes(shape.node_affinity), _pods(shape.pod_affinity), _pods(shape.pod_anti_affinity))


def toleration(shape: TolerationShape) -> Toleration:
    return Toleration(shape.key or "", shape.operator or "", shape.value or "", shape.effect or "")


def spread(shape: SpreadShape) -> Spread:
    return Spread(
        topology_key=shape.topology_key or "",
        max_skew=shape.max_skew or 0,
        hard=_ACTIONS.get(shape.when_unsatisfiable),
        selector=selector(shape.label_selector),
        min_domains=shape.min_domains,
        node_affinity_policy=shape.node_affinity_policy or "Honor",
        node_taints_policy=shape.node_taints_policy or "Ignore",
        match_label_keys=shape.match_label_keys or (),
    )


def _requirements(shapes: Requirements) -> tuple[Requirement, ...]:
    return tuple(Requirement(each.key or "", each.operator or "", each.values or ()) for each in shapes or ())


def _node_term(shape: NodeTermShape | None) -> NodeSelectorTerm:
    if shape is None:
        return NodeSelectorTerm()
    return NodeSelectorTerm(_requirements(shape.match_expressions), _requirements(shape.match_fields))


def _nodes(shape: NodeAffinityShape | None) -> NodeAffinity:
    if shape is None:
        return NodeAffinity()
    required = shape.required_during_scheduling_ignored_during_execution
    preferred = shape.preferred_during_scheduling_ignored_during_execution
    terms = None if required is None else node_terms(required)
    if preferred is None:
        return NodeAffinity(terms)
    return NodeAffinity(terms, tuple(PreferredNodes(each.weight, _node_term(each.preference)) for each in preferred))


def _pods(shape: PodAffinityShape | None) -> PodAffinity:
    if shape is None:
        return PodAffinity()
    required = shape.required_during_scheduling_ignored_during_execution or ()
    preferred = shape.preferred_during_scheduling_ignored_during_execution or ()
    return PodAffinity(
        tuple(_pod_term(term) for term in required),
        tuple(PreferredPods(each.weight, _pod_term(each.pod_affinity_term or PodTermShape())) for each in preferred),
    )


def _pod_term(shape: PodTermShape) -> PodTerm:
    return PodTerm(
        topology_key=shape.topology_key or "",
        selector=selector(shape.label_selector),
        namespaces=shape.namespaces or (),
        namespace_selector=selector(shape.namespace_selector),
        match_label_keys=shape.match_label_keys or (),
        mismatch_label_keys=shape.mismatch_label_keys or (),
    )
