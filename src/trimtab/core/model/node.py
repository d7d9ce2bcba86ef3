"""Nodes, without what runs on them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trimtab.core.model.resources import Amounts
from trimtab.core.model.taints import Taint

HOSTNAME = "kubernetes.io/hostname"  # labels
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


class Image(Struct, frozen=True, gc=False):
    """An image on the node, with all its names."""

    names: tuple[str, ...]
    size: int


class Node(Struct, frozen=True, gc=False):
    """One node; allocatable is rounded up, as in kube-scheduler and the kubelet, and capped.

    `error` names a field that cannot be read and therefore counts as empty.
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
    capacity: Amounts = ()  # of the machine; `allocatable` is what pods may use of it
    annotations: Mapping[str, str] = {}  # only valid ones that some plugin reads
