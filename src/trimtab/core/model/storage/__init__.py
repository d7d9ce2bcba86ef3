"""Claims, volumes and what storage drivers say of themselves, as values; whether a node will do for them is left to plugins.

A storage class here is what counts as one: the beta annotation goes before the field. Sizes are whole bytes, rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from trimtab.core.model.change import Change
from trimtab.core.model.objects import Object
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm

FILESYSTEM = "Filesystem"
AVAILABLE = "Available"
LOST = "Lost"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class StorageObject(Object, frozen=True, kw_only=True):
    """What all of them change."""

    change: ClassVar[Change] = Change.STORAGE


class PersistentVolumeClaim(StorageObject, frozen=True, kw_only=True):
    """Somebody's wish for a volume. `selected_node` is None without the annotation, which may also be empty."""

    kind: ClassVar[str] = "persistentvolumeclaims"

    volume: str = ""
    bind_completed: bool = False  # whether the volume controller says that binding is done
    storage_class: str = ""
    requested: int | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    volume_attributes_class: str = ""
    selector: LabelSelector | None = None
    selected_node: str | None = None
    phase: str = ""
    terminating: bool = False
    controller_uid: str = ""  # the UID of its controller

    @property
    def bound(self) -> bool:
        return bool(self.volume) and self.bind_completed


class ClaimRef(Struct, frozen=True, gc=False):
    """The claim that a volume is promised to; without a UID whichever claim has that name."""

    namespace: str
    name: str
    uid: str = ""

    def refers_to(self, claim: PersistentVolumeClaim) -> bool:
        return (self.namespace, self.name) == (claim.namespace, claim.name) and self.uid in ("", claim.uid)


class PersistentVolume(StorageObject, frozen=True, kw_only=True):
    """A volume. `terms` None means every node.

    `driver` and `handle` name the volume to its driver. `in_tree` names the plugin inside Kubernetes that a volume was
    made for; its driver, handle and `migrated_terms` are those of the driver that does that plugin's work.
    """

    kind: ClassVar[str] = "persistentvolumes"

    claim: ClaimRef | None = None
    storage_class: str = ""
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    volume_attributes_class: str = ""
    labels: Mapping[str, str] = {}
    phase: str = ""
    terminating: bool = False
    terms: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    handle: str = ""
    in_tree: str = ""
    migrated_terms: tuple[NodeSelectorTerm, ...] | None = None

    @property
    def claim_key(self) -> str:
        """The key of the claim that it is promised to; empty where it is free."""
        return "" if self.claim is None else f"{self.claim.namespace}/{self.claim.name}"


class StorageClass(StorageObject, frozen=True, kw_only=True):
    """Who makes volumes and when; no `allowed` terms allow every node, and `binding` is None where nothing is said."""

    kind: ClassVar[str] = "storageclasses"

    provisioner: str = ""
    binding_mode: str | None = None
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()


class CsiNode(StorageObject, frozen=True, kw_only=True):
    """Drivers on the node of the same name, the most volumes each can attach there, and plugins that moved to drivers."""

    kind: ClassVar[str] = "csinodes"

    limits: tuple[tuple[str, int], ...] = ()  # only of drivers that have one
    migrated: tuple[str, ...] = ()


class CsiDriver(StorageObject, frozen=True, kw_only=True):
    """A driver; `tracks_capacity` asks schedulers to look at what it says is left."""

    kind: ClassVar[str] = "csidrivers"

    tracks_capacity: bool = False


class CsiStorageCapacity(StorageObject, frozen=True, kw_only=True):
    """What is left of a class on some nodes; `largest` is the largest volume that can be made there."""

    kind: ClassVar[str] = "csistoragecapacities"

    storage_class: str = ""
    topology: LabelSelector | None = None
    max_volume_size: int | None = None


class VolumeAttachment(StorageObject, frozen=True, kw_only=True):
    """A volume that is attached to a node, or is about to be."""

    kind: ClassVar[str] = "volumeattachments"

    attacher: str = ""
    node: str = ""
    volume: str = ""
