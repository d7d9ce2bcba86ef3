"""Decides where each kind of object is listed and which facts it becomes; leaves following them to the reflector.

Beyond pods and nodes only those kinds are followed that some enabled plugin looks at. PodGroups are defined by whoever
installs the definition, under one of two API groups: what is served of them is read, and nothing served means none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from trimtab.core.model.event import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.wire.node import NodeReader
from trimtab.wire.objects.budget import budgets
from trimtab.wire.objects.namespace import namespaces
from trimtab.wire.objects.pod_group import pod_groups
from trimtab.wire.objects.selecting import replica_sets, replication_controllers, services, stateful_sets
from trimtab.wire.objects.storage import attachments, capacities, claims, classes, csi_drivers, csi_nodes, volumes
from trimtab.wire.pod import PodReader
from trimtab.wire.request import NODES, PODS
from trimtab.wire.watch import Reader


class Followed(Protocol):
    """What a followed object must say of itself."""

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=Followed)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind: where it is listed, how it is read, and what its coming and going are called."""

    name: str
    path: str
    reader: Reader[T]
    key: Callable[[T], str]
    seen: Callable[[T, float], Event]
    gone: Callable[[T, int, float], Event]
    remedy: str = ""  # what to do where it may not be listed
    optional: bool = False  # whether a server may know no such kind
    note: str = ""  # what to say where the server knows it


def pods(reader: PodReader) -> Kind[Pod]:
    """All pods of the cluster; other schedulers' pods take room, too."""
    return Kind(
        name="pods",
        path=PODS,
        reader=reader,
        key=lambda pod: pod.key,
        seen=PodSeen,
        gone=lambda pod, version, at: PodGone(pod.uid, at, version),
    )


def nodes(reader: NodeReader) -> Kind[Node]:
    """All nodes."""
    return Kind(
        name="nodes",
        path=NODES,
        reader=reader,
        key=lambda node: node.name,
        seen=NodeSeen,
        gone=lambda node, version, at: NodeGone(node.name, at, node.uid, version),
    )


@dataclass(frozen=True)
class Home:
    """Where a further kind is listed, who reads it, and which file grants the right to it."""

    path: str
    reader: Callable[[], Reader[Any]]
    role: str = "rbac.yaml"
    older_path: str = ""
    optional: bool = False


_VOLUMES = "rbac-volumes.yaml"
_STORAGE = "/apis/storage.k8s.io/v1"

FURTHER: Mapping[str, Home] = {
    "namespaces": Home("/api/v1/namespaces", namespaces),
    "services": Home("/api/v1/services", services),
    "replicationcontrollers": Home("/api/v1/replicationcontrollers", replication_controllers),
    "replicasets": Home("/apis/apps/v1/replicasets", replica_sets),
    "statefulsets": Home("/apis/apps/v1/statefulsets", stateful_sets),
    "poddisruptionbudgets": Home("/apis/policy/v1/poddisruptionbudgets", budgets, "rbac-preemption.yaml"),
    "persistentvolumeclaims": Home("/api/v1/persistentvolumeclaims", claims, _VOLUMES),
    "persistentvolumes": Home("/api/v1/persistentvolumes", volumes, _VOLUMES),
    "storageclasses": Home(f"{_STORAGE}/storageclasses", classes, _VOLUMES),
    "csinodes": Home(f"{_STORAGE}/csinodes", csi_nodes, _VOLUMES),
    "csidrivers": Home(f"{_STORAGE}/csidrivers", csi_drivers, _VOLUMES),
    "csistoragecapacities": Home(f"{_STORAGE}/csistoragecapacities", capacities, _VOLUMES),
    "volumeattachments": Home(f"{_STORAGE}/volumeattachments", attachments, _VOLUMES),
    # A definition in Kubernetes' own group, scheduling.k8s.io, is accepted by an API server and never served.
    "podgroups": Home(
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
        pod_groups,
        "rbac-gang.yaml",
        older_path="/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
        optional=True,
    ),
}


class Unknown(ValueError):
    """A plugin looks at a kind that cannot be followed."""


def further(name: str, plugins: Iterable[str]) -> tuple[Kind[Object], ...]:
    """The kind of this name, once for each of its homes, for the plugins that look at it."""
    *first, last = plugins
    wanted_by = f"{', '.join(first)} and {last}" if first else last
    if name not in FURTHER:
        raise Unknown(f"{wanted_by} looks at {name}, but only {', '.join(sorted(FURTHER))} can be followed")
    home = FURTHER[name]
    remedy = f"apply deploy/{home.role}, or disable {wanted_by}"
    kinds = [_object(name, home, home.path, remedy)]
    if home.older_path:
        note = f"{home.older_path} is read as well; better write {home.path}"
        kinds.append(_object(name, home, home.older_path, remedy, note))
    return tuple(kinds)


def _object(name: str, home: Home, path: str, remedy: str, note: str = "") -> Kind[Object]:
    return Kind(
        name=name,
        path=path,
        reader=home.reader(),
        key=lambda found: found.key,
        seen=ObjectSeen,
        gone=lambda found, version, at: ObjectGone(found.kind, found.key, at, found.uid, version),
        remedy=remedy,
        optional=home.optional,
        note=note,
    )
