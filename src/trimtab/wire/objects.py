"""Decodes the kinds other than pods, nodes and storage: namespaces, Services, controllers, disruption budgets, PodGroups.

An object is decoded as a whole or not at all: part of a selector or budget could be worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.objects import (
    Namespace,
    Object,
    PodDisruptionBudget,
    PodGroup,
    PodSelectorOwner,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from trimtab.core.model.resources import PodRequests, amounts
from trimtab.core.model.selectors import LabelSelector, Pairs
from trimtab.wire.affinity import SelectorShape, selector
from trimtab.wire.decoding import (
    NULL,
    UNREADABLE,
    Malformed,
    Quantities,
    decode_fields,
    decode_part,
    format_error,
    parse_amounts,
)
from trimtab.wire.interning import GenerationalCache
from trimtab.wire.limits import MAX_RESOURCES, check_selector, excess
from trimtab.wire.pod_json import Name, RawObject, Time

S = TypeVar("S", bound=Struct)
T = TypeVar("T", bound=Object)
X = TypeVar("X", bound=PodSelectorOwner)

_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode


class ObjectMetaShape(Struct, frozen=True, gc=False, rename="camel"):
    name: Name
    uid: Name
    namespace: str | None = None
    resource_version: str | None = None
    creation_timestamp: Time = None
    labels: Raw = NULL


class ObjectReader(Generic[S, T]):
    """Decodes one kind; `make` makes the value from a shape, or raises a ValueError that names the field."""

    def __init__(self, kind: str, shape: type[S], make: Callable[[S], T]) -> None:
        self.kind, self.shape, self._make = kind, shape, make
        self._decode = msgspec.json.Decoder(shape).decode

    def read(self, data: bytes | Raw) -> T | Malformed:
        """The object in these bytes."""
        try:
            shape = self._decode(data)
        except UNREADABLE as error:
            raw_object = decode_part(data, RawObject, "", []) or RawObject()
            return self._malformed(decode_fields(raw_object.metadata, ObjectMetaShape, "", []), error)
        return self.build(shape)

    def build(self, shape: S) -> T | Malformed:
        """The object of this shape; a large one is not decoded a second time to say what is wrong with it."""
        try:
            return self._make(shape)
        except UNREADABLE as error:
            meta: ObjectMetaShape = shape.metadata  # type: ignore[attr-defined]
            return self._malformed({"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}, error)

    def _malformed(self, metadata: Mapping[str, Any], error: Exception) -> Malformed:
        key = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}".strip("/")
        return Malformed(self.kind, key, metadata.get("uid") or "", format_error("", error).lstrip(".: "))


def identity_fields(meta: ObjectMetaShape) -> dict[str, Any]:
    """The fields that every object has, for its constructor."""
    return {
        "name": meta.name,
        "uid": meta.uid,
        "namespace": intern(meta.namespace or ""),
        "version": int(meta.resource_version or 0),
    }


def interned_selector(shape: SelectorShape | None) -> LabelSelector | None:
    """A selector with interned strings: there may be tens of thousands of ReplicaSets."""
    check_selector(shape, "spec.selector")
    found = selector(shape)
    return found and LabelSelector(_interned(found.match_labels), found.match_expressions)


def label_map_selector(labels: dict[str, str] | None) -> LabelSelector | None:
    """The older form of a selector, a map of labels; None selects nothing."""
    check_selector(SelectorShape(labels), "spec.selector")
    return None if labels is None else LabelSelector(_interned(tuple(sorted(labels.items()))))


def _interned(labels: Pairs) -> Pairs:
    return tuple((intern(key), intern(value)) for key, value in labels)


class NamespaceShape(Struct, frozen=True, gc=False):
    metadata: ObjectMetaShape


def namespaces() -> ObjectReader[NamespaceShape, Namespace]:
    labels: GenerationalCache[bytes, Mapping[str, str]] = GenerationalCache(_labels)

    def build(shape: NamespaceShape) -> Namespace:
        return Namespace(**identity_fields(shape.metadata), labels=labels[bytes(shape.metadata.labels)])

    return ObjectReader("Namespace", NamespaceShape, build)


def _labels(raw: bytes) -> Mapping[str, str]:
    try:
        return _decode_labels(raw) or {}
    except UNREADABLE as error:
        raise ValueError(format_error("metadata.labels", error)) from None


class LabelMapSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class LabelMapShape(Struct, frozen=True):
    metadata: ObjectMetaShape
    spec: LabelMapSpec | None = None


class SelectorSpec(Struct, frozen=True):
    selector: SelectorShape | None = None


class SelectorOwnerShape(Struct, frozen=True):
    metadata: ObjectMetaShape
    spec: SelectorSpec | None = None


def services() -> ObjectReader[LabelMapShape, Service]:
    return _by_label_map("Service", Service)


def replication_controllers() -> ObjectReader[LabelMapShape, ReplicationController]:
    return _by_label_map("ReplicationController", ReplicationController)


def replica_sets() -> ObjectReader[SelectorOwnerShape, ReplicaSet]:
    return _by_selector("ReplicaSet", ReplicaSet)


class StatefulSetSpec(SelectorSpec, frozen=True):
    replicas: int | None = None


class StatefulSetShape(Struct, frozen=True):
    metadata: ObjectMetaShape
    spec: StatefulSetSpec | None = None


def stateful_sets() -> ObjectReader[StatefulSetShape, StatefulSet]:
    def build(shape: StatefulSetShape) -> StatefulSet:
        spec = shape.spec or StatefulSetSpec()
        return StatefulSet(
            **identity_fields(shape.metadata), selector=interned_selector(spec.selector), replicas=spec.replicas
        )

    return ObjectReader("StatefulSet", StatefulSetShape, build)


def _by_label_map(kind: str, value: type[X]) -> ObjectReader[LabelMapShape, X]:
    def build(shape: LabelMapShape) -> X:
        return value(
            **identity_fields(shape.metadata), selector=label_map_selector(shape.spec.selector if shape.spec else None)
        )

    return ObjectReader(kind, LabelMapShape, build)


def _by_selector(kind: str, value: type[X]) -> ObjectReader[SelectorOwnerShape, X]:
    def build(shape: SelectorOwnerShape) -> X:
        return value(
            **identity_fields(shape.metadata), selector=interned_selector(shape.spec.selector if shape.spec else None)
        )

    return ObjectReader(kind, SelectorOwnerShape, build)


class BudgetMeta(ObjectMetaShape, frozen=True, rename="camel"):
    generation: int | None = None


class BudgetSpec(Struct, frozen=True):
    selector: SelectorShape | None = None


class BudgetStatus(Struct, frozen=True, rename="camel"):
    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, Any] | None = None
    desired_healthy: int | None = None
    observed_generation: int | None = None


class BudgetShape(Struct, frozen=True):
    metadata: BudgetMeta
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


def budgets() -> ObjectReader[BudgetShape, PodDisruptionBudget]:
    return ObjectReader("PodDisruptionBudget", BudgetShape, _budget)


def _budget(shape: BudgetShape) -> PodDisruptionBudget:
    """Until the disruption controller has set the status, no disruption is allowed."""
    status = shape.status or BudgetStatus()
    return PodDisruptionBudget(
        **identity_fields(shape.metadata),
        selector=interned_selector(shape.spec.selector if shape.spec else None),
        disruptions_allowed=status.disruptions_allowed or 0,
        disrupted_pods=tuple(sorted(status.disrupted_pods or ())),
        desired_healthy=status.desired_healthy,
        observed=(status.observed_generation or 0) >= (shape.metadata.generation or 0),
    )


class PodGroupSpec(Struct, frozen=True, rename="camel"):
    min_member: int | None = None
    min_resources: Quantities | None = None
    schedule_timeout_seconds: int | None = None


class PodGroupShape(Struct, frozen=True):
    metadata: ObjectMetaShape
    spec: PodGroupSpec | None = None


def pod_groups() -> ObjectReader[PodGroupShape, PodGroup]:
    return ObjectReader("PodGroup", PodGroupShape, _pod_group)


def _pod_group(shape: PodGroupShape) -> PodGroup:
    """minMember is at least 1; older definitions do not enforce that."""
    spec, created = shape.spec or PodGroupSpec(), shape.metadata.creation_timestamp
    return PodGroup(
        **identity_fields(shape.metadata),
        min_member=max(spec.min_member or 1, 1),
        min_resources=None if spec.min_resources is None else _demand(spec.min_resources),
        timeout=spec.schedule_timeout_seconds,
        created=created.timestamp() if created else 0.0,
    )


def _demand(quantities: Quantities) -> PodRequests:
    if error := excess("spec.minResources", "resources", quantities, MAX_RESOURCES):
        raise ValueError(error)
    errors: list[str] = []
    found = parse_amounts(quantities, "spec.minResources", errors)
    if errors:
        raise ValueError(errors[0])
    return PodRequests(amounts=amounts(found))
