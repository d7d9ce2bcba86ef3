"""A node as the core sees it: what it offers, its labels, taints and images; nothing of what runs on it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trimtab.core.model.resources import Amounts
from trimtab.core.model.taints import Taint


class Image(Struct, frozen=True, gc=False):
    """An image that the node already holds, under all its names."""

    names: tuple[str, ...]
    size: int


class UsageThresholds(Struct, frozen=True, gc=False):
    """What Koordinator's annotation says of one node: percent of CPU and memory, 0 for no limit; None for nothing said.

    `usage` is of all that is used, `prod` of what prod pods use, `aggregated` of a percentile (`kind`) over `seconds`.
    """

    usage: tuple[int, int] | None = None
    prod: tuple[int, int] | None = None
    aggregated: tuple[int, int] | None = None
    kind: str = ""
    seconds: float = 0.0


class Node(Struct, frozen=True, gc=False):
    """One node; allocatable is rounded up, as kube-scheduler and the kubelet do it, and stops at the cap.

    `fault` names a field that cannot be read: what it would have offered is not offered.
    """

    name: str
    uid: str = ""
    version: int = 0
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = ()
    images: tuple[Image, ...] = ()
    addresses: tuple[str, ...] = ()
    ready: bool = True
    error: str = ""
    capacity: Amounts = ()  # what the machine has, of which `allocatable` is left for pods
    thresholds: UsageThresholds | None = None
