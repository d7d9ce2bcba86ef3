"""Decides which kinds of object are followed and which facts they become; leaves following them to the reflector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from trimtab.core.model.event import Event, NodeGone, NodeSeen, PodGone, PodSeen
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.request import NODES, PODS
from trimtab.wire.watch import Reader


class Kept(Protocol):
    """What a followed object must say of itself."""

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=Kept)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind: where it is listed, how it is read, and what its coming and going are called."""

    name: str
    path: str
    reader: Reader[T]
    key: Callable[[T], str]
    seen: Callable[[T, float], Event]
    gone: Callable[[T, int, float], Event]


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
