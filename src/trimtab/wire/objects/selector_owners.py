"""Decides how Services and controllers are read, by what they select; leaves which pods that spreads to the plugins.

Of a ReplicaSet there may be one for each past version of an application, so nothing but its selector is kept.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from trimtab.core.model.objects import PodSelectorOwner, ReplicaSet, ReplicationController, Service, StatefulSet
from trimtab.wire.affinity import SelectorShape
from trimtab.wire.objects.object_reader import (
    MetaShape,
    ObjectReader,
    identity_fields,
    interned_selector,
    label_map_selector,
)

X = TypeVar("X", bound=PodSelectorOwner)


class LabelsSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class ByLabels(Struct, frozen=True):
    metadata: MetaShape
    spec: LabelsSpec | None = None


class SelectorSpec(Struct, frozen=True):
    selector: SelectorShape | None = None


class BySelector(Struct, frozen=True):
    metadata: MetaShape
    spec: SelectorSpec | None = None


def services() -> ObjectReader[ByLabels, Service]:
    return _by_labels("Service", Service)


def replication_controllers() -> ObjectReader[ByLabels, ReplicationController]:
    return _by_labels("ReplicationController", ReplicationController)


def replica_sets() -> ObjectReader[BySelector, ReplicaSet]:
    return _by_selector("ReplicaSet", ReplicaSet)


def stateful_sets() -> ObjectReader[BySelector, StatefulSet]:
    return _by_selector("StatefulSet", StatefulSet)


def _by_labels(kind: str, value: type[X]) -> ObjectReader[ByLabels, X]:
    def build(shape: ByLabels) -> X:
        return value(
            **identity_fields(shape.metadata), selector=label_map_selector(shape.spec.selector if shape.spec else None)
        )

    return ObjectReader(kind, ByLabels, build)


def _by_selector(kind: str, value: type[X]) -> ObjectReader[BySelector, X]:
    def build(shape: BySelector) -> X:
        return value(
            **identity_fields(shape.metadata), selector=interned_selector(shape.spec.selector if shape.spec else None)
        )

    return ObjectReader(kind, BySelector, build)
