"""Claims, volumes, storage classes and what CSI drivers report.

`storage_class` is the effective one: the beta annotation takes precedence over the field. Sizes are whole bytes, rounded up.
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
    """An object whose update is a STORAGE change."""

    change: ClassVar[Change] = Change.STORAGE


class PersistentVolumeClaim(StorageObject, frozen=True, kw_only=True):
    """A claim. `selected_node` is None without the annotation, which may also be empty."""

    kind: ClassVar[str] = "persistentvolumeclaims"

    volume: str = ""
    bind_completed: bool = False  # pv.kubernetes.io/bind-completed is set
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
    """The claim in a volume's claimRef; without a UID any claim of that name."""

    namespace: str
    name: str
    uid: str = ""

    def refers_to(self, claim: PersistentVolumeClaim) -> bool:
        return (self.namespace, self.name) == (claim.namespace, claim.name) and self.uid in ("", claim.uid)


class PersistentVolume(StorageObject, frozen=True, kw_only=True):
    """A volume. `terms` is its required node affinity; None means every node.

    `driver` and `handle` identify the volume. `in_tree` is the in-tree plugin that it was made for; then driver, handle and
    `migrated_terms` are those of the CSI driver that replaces the plugin.
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
        """The key of the claim in its claimRef; empty if there is none."""
        return "" if self.claim is None else f"{self.claim.namespace}/{self.claim.name}"


class StorageClass(StorageObject, frozen=True, kw_only=True):
    """No `allowed_topologies` allow every node; `binding_mode` is None if it is not set."""

    kind: ClassVar[str] = "storageclasses"

    provisioner: str = ""
    binding_mode: str | None = None
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()


class CsiNode(StorageObject, frozen=True, kw_only=True):
    """The volume limits of CSI drivers on the node of the same name, and the in-tree plugins migrated there."""

    kind: ClassVar[str] = "csinodes"

    limits: tuple[tuple[str, int], ...] = ()  # only of drivers with a limit
    migrated: tuple[str, ...] = ()


class CsiDriver(StorageObject, frozen=True, kw_only=True):
    """A driver; with `tracks_capacity` the scheduler checks its CSIStorageCapacity objects."""

    kind: ClassVar[str] = "csidrivers"

    tracks_capacity: bool = False


class CsiStorageCapacity(StorageObject, frozen=True, kw_only=True):
    """The capacity of a storage class on some nodes."""

    kind: ClassVar[str] = "csistoragecapacities"

    storage_class: str = ""
    topology: LabelSelector | None = None
    max_volume_size: int | None = None


class VolumeAttachment(StorageObject, frozen=True, kw_only=True):
    """A volume attached to a node, or about to be."""

    kind: ClassVar[str] = "volumeattachments"

    attacher: str = ""
    node: str = ""
    volume: str = ""
