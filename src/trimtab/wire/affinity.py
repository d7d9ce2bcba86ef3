"""Decodes and validates affinity, topology spread, tolerations and selectors.

Go decodes `null` as the empty value everywhere, except that a null label selector means none.

What can be decoded may still be invalid: the API server rejects an unknown operator today, but keeps objects that have one.
`validate` names the field. Of the node terms that a pod requires one valid term is enough, as in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from trimtab.core.model.affinity import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from trimtab.core.model.selectors import LABEL_OPERATORS, LabelSelector, NodeSelectorTerm, Requirement, label_pairs
from trimtab.core.model.taints import Toleration

Strings = tuple[str, ...] | None
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_OPERATORS = frozenset({*LABEL_OPERATORS, "Gt", "Lt"})
NAME_OPERATORS = frozenset({"In", "NotIn"})
UNSATISFIABLE_ACTIONS = frozenset({"DoNotSchedule", "ScheduleAnyway"})
POLICIES = frozenset({"Honor", "Ignore"})

_ACTIONS: dict[str | None, bool] = {"DoNotSchedule": True, "ScheduleAnyway": False}


class RequirementShape(Struct, frozen=True, gc=False):
    key: str | None = None
    operator: str | None = None
    values: Strings = None


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
    namespaces: Strings = None
    namespace_selector: SelectorShape | None = None
    match_label_keys: Strings = None
    mismatch_label_keys: Strings = None


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
    match_label_keys: Strings = None


def selector(shape: SelectorShape | None) -> LabelSelector | None:
    if shape is None:
        return None
    return LabelSelector(label_pairs(shape.match_labels), _requirements(shape.match_expressions))


def node_terms(shape: NodeSelectorShape) -> tuple[NodeSelectorTerm, ...]:
    return tuple(_node_term(term) for term in shape.node_selector_terms or ())


def affinity(shape: AffinityShape | None) -> Affinity | None:
    if shape is None:
        return None
    return Affinity(_nodes(shape.node_affinity), _pods(shape.pod_affinity), _pods(shape.pod_anti_affinity))


def toleration(shape: TolerationShape) -> Toleration:
    return Toleration(shape.key or "", shape.operator or "", shape.value or "", shape.effect or "")


def spread(shape: SpreadShape) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
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
    return NodeAffinity(
        terms, tuple(PreferredSchedulingTerm(each.weight, _node_term(each.preference)) for each in preferred)
    )


def _pods(shape: PodAffinityShape | None) -> PodAffinity:
    if shape is None:
        return PodAffinity()
    required = shape.required_during_scheduling_ignored_during_execution or ()
    preferred = shape.preferred_during_scheduling_ignored_during_execution or ()
    return PodAffinity(
        tuple(_pod_term(term) for term in required),
        tuple(
            WeightedPodAffinityTerm(each.weight, _pod_term(each.pod_affinity_term or PodTermShape()))
            for each in preferred
        ),
    )


def _pod_term(shape: PodTermShape) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=shape.topology_key or "",
        selector=selector(shape.label_selector),
        namespaces=shape.namespaces or (),
        namespace_selector=selector(shape.namespace_selector),
        match_label_keys=shape.match_label_keys or (),
        mismatch_label_keys=shape.mismatch_label_keys or (),
    )


def validate(affinity: Affinity | None, spreads: tuple[SpreadShape, ...]) -> str:
    """The first invalid field and its error; empty when all are valid."""
    found = [_spread_errors(each, f"spec.topologySpreadConstraints[{i}]") for i, each in enumerate(spreads)]
    if affinity is not None:
        found.append(_node_affinity_errors(affinity.node_affinity, "spec.affinity.nodeAffinity"))
        found.append(_pod_affinity_errors(affinity.pod_affinity, "spec.affinity.podAffinity"))
        found.append(_pod_affinity_errors(affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity"))
    first = next(chain.from_iterable(found), "")
    return f"{first}; correct the field" if first else ""


def _node_affinity_errors(affinity: NodeAffinity, path: str) -> Iterator[str]:
    terms, where = affinity.required, f"{path}.{REQUIRED}.nodeSelectorTerms"
    if terms is not None and not any(_is_usable(term) for term in terms):
        yield from chain.from_iterable(_node_term_errors(term, f"{where}[{i}]") for i, term in enumerate(terms))
        yield f"{where}: {'none but empty terms' if terms else 'empty'}, which match no node"
    for i, each in enumerate(affinity.preferred or ()):
        if each.weight:
            yield from _node_term_errors(each.preference, f"{path}.{PREFERRED}[{i}].preference")


def _is_usable(term: NodeSelectorTerm) -> bool:
    return bool(term.match_expressions or term.match_fields) and not any(_node_term_errors(term, ""))


def _node_term_errors(term: NodeSelectorTerm, path: str) -> Iterator[str]:
    for i, line in enumerate(term.match_expressions):
        yield from _requirement_errors(line, f"{path}.matchExpressions[{i}]", NODE_OPERATORS)
    for i, line in enumerate(term.match_fields):
        where = f"{path}.matchFields[{i}]"
        yield from _not_among(line.operator, f"{where}.operator", NAME_OPERATORS)
        if len(line.values) != 1:
            yield f"{where}.values: {len(line.values)} values, where there must be one"


def _pod_affinity_errors(affinity: PodAffinity, path: str) -> Iterator[str]:
    for i, term in enumerate(affinity.required):
        yield from _pod_term_errors(term, f"{path}.{REQUIRED}[{i}]")
    for i, each in enumerate(affinity.preferred):
        yield from _pod_term_errors(each.term, f"{path}.{PREFERRED}[{i}].podAffinityTerm")


def _pod_term_errors(term: PodAffinityTerm, path: str) -> Iterator[str]:
    yield from _key_errors(term.topology_key, f"{path}.topologyKey")
    yield from _selector_errors(term.selector, f"{path}.labelSelector")
    yield from _selector_errors(term.namespace_selector, f"{path}.namespaceSelector")


def _spread_errors(shape: SpreadShape, path: str) -> Iterator[str]:
    yield from _key_errors(shape.topology_key or "", f"{path}.topologyKey")
    yield from _not_among(shape.when_unsatisfiable or "", f"{path}.whenUnsatisfiable", UNSATISFIABLE_ACTIONS)
    if (shape.max_skew or 0) < 1:
        yield f"{path}.maxSkew: {shape.max_skew or 0} is not above zero"
    if shape.min_domains is not None and shape.min_domains < 1:
        yield f"{path}.minDomains: {shape.min_domains} is not above zero"
    yield from _not_among(shape.node_affinity_policy or "Honor", f"{path}.nodeAffinityPolicy", POLICIES)
    yield from _not_among(shape.node_taints_policy or "Ignore", f"{path}.nodeTaintsPolicy", POLICIES)
    yield from _selector_errors(selector(shape.label_selector), f"{path}.labelSelector")


def _selector_errors(found: LabelSelector | None, path: str) -> Iterator[str]:
    if found is None or found.valid:
        return
    for key, value in found.match_labels:
        if not Requirement(key, "In", (value,)).valid:
            yield f"{path}.matchLabels: {_short(f'{key}={value}')} is no label"
    for i, line in enumerate(found.match_expressions):
        yield from _requirement_errors(line, f"{path}.matchExpressions[{i}]", LABEL_OPERATORS)


def _requirement_errors(line: Requirement, path: str, operators: frozenset[str]) -> Iterator[str]:
    yield from _not_among(line.operator, f"{path}.operator", operators)
    yield from _key_errors(line.key, f"{path}.key")
    if line.operator in operators and not line.valid:
        yield f"{path}.values: {_short(', '.join(line.values))} is invalid for key {_short(line.key)} and {line.operator}"


def _key_errors(key: str, path: str) -> Iterator[str]:
    if not Requirement(key, "Exists").valid:
        yield f"{path}: {_short(key)} is not the key of a label" if key else f"{path}: missing"


def _not_among(word: str, path: str, allowed: frozenset[str]) -> Iterator[str]:
    if word not in allowed:
        yield f"{path}: {_short(word)} is none of {', '.join(sorted(allowed))}" if word else f"{path}: missing"


def _short(text: str) -> str:
    return repr(text[:40])
