"""The kinds that can be watched: where each is listed, how it is decoded, and the events it becomes.

Beyond pods and nodes only the kinds that an enabled plugin needs are watched. PodGroups are a custom resource of one of two
API groups: both are watched, and a group that is not served has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
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
from trimtab.wire.forbidden import grant_remedy
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.readers import OBJECT_READERS
from trimtab.wire.requests import NODES, PODS
from trimtab.wire.watch import Reader


class WatchedObject(Protocol):
    """What every watched object has."""

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=WatchedObject)


class IfForbidden(Enum):
    """What happens while listing a kind is forbidden."""

    WAIT = "nothing is decided"
    REPORT = "the pods that need it wait"
    EMPTY = "there are none, as far as we know"


@dataclass(frozen=True)
class WatchedKind(Generic[T]):
    """One kind at one path."""

    name: str
    path: str
    reader: Reader[T]
    key: Callable[[T], str]
    upserted: Callable[[T, float], Event]
    deleted: Callable[[T, int, float], Event]
    role: str = ""  # the file in deploy/ that allows to list it
    wanted_by: str = ""  # the plugins that need it, if they can be disabled
    if_forbidden: IfForbidden = IfForbidden.WAIT
    optional: bool = False  # whether the server may not serve it
    deprecation: str = ""  # logged where the server serves it
    error: Callable[[T], str] | None = None  # a field of the object that cannot be read

    def remedy(self, message: str = "") -> str:
        """What to do when listing it is forbidden with this message; empty where the start would have failed."""
        instead = f", or disable {self.wanted_by}" if self.wanted_by else ""
        return grant_remedy(message, self.role) + instead if self.role else ""


def pod_kind(reader: PodReader) -> WatchedKind[Pod]:
    """All pods: those of other schedulers take resources, too."""
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
        error=lambda node: node.error,
    )


@dataclass(frozen=True)
class ExtraKind:
    """A kind that plugins may need: the API that serves it, and the file that grants access to it."""

    name: str
    api: str
    role: str = "rbac.yaml"
    legacy_path: str = ""
    optional: bool = False
    dispensable: bool = False  # without permission, results are nearly as good

    @property
    def path(self) -> str:
        return f"{self.api}/{self.name}"

    @property
    def reader(self) -> Callable[[], Reader[Any]]:
        return OBJECT_READERS[self.name]


_CORE, _APPS, _STORAGE = "/api/v1", "/apis/apps/v1", "/apis/storage.k8s.io/v1"
_VOLUMES_ROLE = "rbac-volumes.yaml"
_EXTRA_KINDS = (
    ExtraKind("namespaces", _CORE),
    ExtraKind("services", _CORE),
    ExtraKind("replicationcontrollers", _CORE),
    ExtraKind("replicasets", _APPS),
    ExtraKind("statefulsets", _APPS),
    ExtraKind("poddisruptionbudgets", "/apis/policy/v1", "rbac-preemption.yaml"),
    ExtraKind("persistentvolumeclaims", _CORE, _VOLUMES_ROLE),
    ExtraKind("persistentvolumes", _CORE, _VOLUMES_ROLE),
    ExtraKind("storageclasses", _STORAGE, _VOLUMES_ROLE),
    ExtraKind("csinodes", _STORAGE, _VOLUMES_ROLE),
    ExtraKind("csidrivers", _STORAGE, _VOLUMES_ROLE),
    ExtraKind("csistoragecapacities", _STORAGE, _VOLUMES_ROLE),
    # Attached volumes of deleted pods count against a node's limit; kube-scheduler did not read them before 1.33 either.
    ExtraKind("volumeattachments", _STORAGE, _VOLUMES_ROLE, dispensable=True),
    # An API server accepts a definition in scheduling.k8s.io, Kubernetes' own group, but never serves it.
    ExtraKind(
        "podgroups",
        "/apis/scheduling.x-k8s.io/v1alpha1",
        "components/gang/rbac-gang.yaml",
        legacy_path="/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
        optional=True,
    ),
)
EXTRA_KINDS: Mapping[str, ExtraKind] = {each.name: each for each in _EXTRA_KINDS}


class UnknownKind(ValueError):
    """A plugin needs a kind that cannot be watched."""


def extra_kinds(
    name: str, plugins: Iterable[str], if_forbidden: IfForbidden = IfForbidden.WAIT
) -> tuple[WatchedKind[Object], ...]:
    """The kind of this name, once for each of its API groups, for the plugins that need it."""
    *first, last = plugins
    wanted_by = f"{', '.join(first)} and {last}" if first else last
    if name not in EXTRA_KINDS:
        raise UnknownKind(f"{wanted_by} needs {name}, but only {', '.join(sorted(EXTRA_KINDS))} can be watched")
    extra = EXTRA_KINDS[name]
    current = WatchedKind(
        name=name,
        path=extra.path,
        reader=extra.reader(),
        key=lambda each: each.key,
        upserted=ObjectUpserted,
        deleted=lambda each, version, at: ObjectDeleted(each.kind, each.key, at, each.uid, version),
        role=extra.role,
        wanted_by=wanted_by,
        if_forbidden=IfForbidden.EMPTY if extra.dispensable else if_forbidden,
        optional=extra.optional,
    )
    if not extra.legacy_path:
        return (current,)
    note = f"{extra.legacy_path} is deprecated; use {extra.path}"
    return current, replace(current, path=extra.legacy_path, reader=extra.reader(), deprecation=note)
