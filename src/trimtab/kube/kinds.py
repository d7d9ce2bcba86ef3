"""Decides where each kind of object is listed and which facts it becomes; leaves following them to the reflector.

Beyond pods and nodes only those kinds are followed that some enabled plugin looks at. PodGroups are defined by whoever
installs the definition, under one of two API groups: what is served of them is read, and nothing served means none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from trimtab.core.model.events import (
    Event,
    NodeDeleted,
    NodeUpserted,
    ObjectDeleted,
    ObjectUpserted,
    PodDeleted,
    PodUpserted,
)
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.wire.node import NodeReader
from trimtab.wire.objects.disruption_budget import budgets
from trimtab.wire.objects.namespace import namespaces
from trimtab.wire.objects.pod_group import pod_groups
from trimtab.wire.objects.selector_owners import replica_sets, replication_controllers, services, stateful_sets
from trimtab.wire.objects.storage import attachments, capacities, claims, classes, csi_drivers, csi_nodes, volumes
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import NODES, PODS
from trimtab.wire.watch import Reader


class WatchedObject(Protocol):
    """What a followed object must say of itself."""

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=WatchedObject)


@dataclass(frozen=True)
class WatchedKind(Generic[T]):
    """One kind: where it is listed, how it is read, and what its coming and going are called."""

    name: str
    path: str
    reader: Reader[T]
    key: Callable[[T], str]
    upserted: Callable[[T, float], Event]
    deleted: Callable[[T, int, float], Event]
    remedy: str = ""  # what to do where it may not be listed
    optional: bool = False  # whether a server may know no such kind
    deprecation: str = ""  # what to say where the server knows it


def pod_kind(reader: PodReader) -> WatchedKind[Pod]:
    """All pods of the cluster; other schedulers' pods take room, too."""
    return WatchedKind(
        name="pods",
        path=PODS,
        reader=reader,
        key=lambda pod: pod.key,
        upserted=PodUpserted,
        deleted=lambda pod, version, at: PodDeleted(pod.uid, at, version),
    )


def node_kind(reader: NodeReader) -> WatchedKind[Node]:
    """All nodes."""
    return WatchedKind(
        name="nodes",
        path=NODES,
        reader=reader,
        key=lambda node: node.name,
        upserted=NodeUpserted,
        deleted=lambda node, version, at: NodeDeleted(node.name, at, node.uid, version),
    )


@dataclass(frozen=True)
class ExtraKind:
    """Where a further kind is listed, who reads it, and which file grants the right to it."""

    path: str
    reader: Callable[[], Reader[Any]]
    role: str = "rbac.yaml"
    legacy_path: str = ""
    optional: bool = False


_VOLUMES_ROLE = "rbac-volumes.yaml"
_STORAGE_API = "/apis/storage.k8s.io/v1"

EXTRA_KINDS: Mapping[str, ExtraKind] = {
    "namespaces": ExtraKind("/api/v1/namespaces", namespaces),
    "services": ExtraKind("/api/v1/services", services),
    "replicationcontrollers": ExtraKind("/api/v1/replicationcontrollers", replication_controllers),
    "replicasets": ExtraKind("/apis/apps/v1/replicasets", replica_sets),
    "statefulsets": ExtraKind("/apis/apps/v1/statefulsets", stateful_sets),
    "poddisruptionbudgets": ExtraKind("/apis/policy/v1/poddisruptionbudgets", budgets, "rbac-preemption.yaml"),
    "persistentvolumeclaims": ExtraKind("/api/v1/persistentvolumeclaims", claims, _VOLUMES_ROLE),
    "persistentvolumes": ExtraKind("/api/v1/persistentvolumes", volumes, _VOLUMES_ROLE),
    "storageclasses": ExtraKind(f"{_STORAGE_API}/storageclasses", classes, _VOLUMES_ROLE),
    "csinodes": ExtraKind(f"{_STORAGE_API}/csinodes", csi_nodes, _VOLUMES_ROLE),
    "csidrivers": ExtraKind(f"{_STORAGE_API}/csidrivers", csi_drivers, _VOLUMES_ROLE),
    "csistoragecapacities": ExtraKind(f"{_STORAGE_API}/csistoragecapacities", capacities, _VOLUMES_ROLE),
    "volumeattachments": ExtraKind(f"{_STORAGE_API}/volumeattachments", attachments, _VOLUMES_ROLE),
    # A definition in Kubernetes' own group, scheduling.k8s.io, is accepted by an API server and never served.
    "podgroups": ExtraKind(
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
        pod_groups,
        "rbac-gang.yaml",
        legacy_path="/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
        optional=True,
    ),
}


class UnknownKind(ValueError):
    """A plugin looks at a kind that cannot be followed."""


def extra_kinds(name: str, plugins: Iterable[str]) -> tuple[WatchedKind[Object], ...]:
    """The kind of this name, once for each of its homes, for the plugins that look at it."""
    *first, last = plugins
    wanted_by = f"{', '.join(first)} and {last}" if first else last
    if name not in EXTRA_KINDS:
        raise UnknownKind(f"{wanted_by} looks at {name}, but only {', '.join(sorted(EXTRA_KINDS))} can be followed")
    home = EXTRA_KINDS[name]
    remedy = f"apply deploy/{home.role}, or disable {wanted_by}"
    kinds = [_object_kind(name, home, home.path, remedy)]
    if home.legacy_path:
        note = f"{home.legacy_path} is read as well; better write {home.path}"
        kinds.append(_object_kind(name, home, home.legacy_path, remedy, note))
    return tuple(kinds)


def _object_kind(name: str, home: ExtraKind, path: str, remedy: str, note: str = "") -> WatchedKind[Object]:
    return WatchedKind(
        name=name,
        path=path,
        reader=home.reader(),
        key=lambda found: found.key,
        upserted=ObjectUpserted,
        deleted=lambda found, version, at: ObjectDeleted(found.kind, found.key, at, found.uid, version),
        remedy=remedy,
        optional=home.optional,
        deprecation=note,
    )
