"""What the engine asks for; `kube.api_calls` (live) and `sim.world` (simulated) carry it out."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.ledger import Ledger, PublishedPlan
from trimtab.core.model.taints import Taint


class Bind(Struct, frozen=True, tag=True):
    """Bind the pod of this UID to the node."""

    uid: str
    namespace: str
    name: str
    node: str


class GetPod(Struct, frozen=True, tag=True):
    """Read the pod from the API server, because the outcome of a bind is unknown."""

    uid: str
    namespace: str
    name: str


class EmitEvent(Struct, frozen=True, tag=True):
    """Write a Kubernetes Event about the pod, or about a node."""

    uid: str
    namespace: str
    name: str
    reason: str
    note: str
    warning: bool = False
    action: str = "Scheduling"
    scheduler_name: str = ""
    kind: str = "Pod"  # or Node, whose Events are in the namespace default


class SetUnschedulable(Struct, frozen=True, tag=True):
    """Set the pod's PodScheduled condition to False; the cluster autoscaler reads it."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str


class Nominate(Struct, frozen=True, tag=True):
    """Set the pod's nominatedNodeName; an empty name clears it."""

    uid: str
    namespace: str
    name: str
    node: str


class Preempt(Struct, frozen=True, tag=True):
    """Delete this victim gracefully, after setting its DisruptionTarget condition."""

    uid: str
    namespace: str
    name: str
    preemptor: str  # its UID
    scheduler_name: str


class Evict(Struct, frozen=True, tag=True):
    """Evict the pod of this UID through the Eviction API; with a `grace` of 0 it has its own grace period. Not after
    `until`, if there is one."""

    uid: str
    namespace: str
    name: str
    reason: str
    grace: int = 0  # seconds
    until: float | None = None


class ReadLedger(Struct, frozen=True, tag=True):
    """Read the ledger of moves; one that does not exist is empty."""


class WriteLedger(Struct, frozen=True, tag=True):
    """Write the ledger of moves, unless somebody wrote it since it was read or written at `version`."""

    ledger: Ledger
    version: str
    plan: PublishedPlan | None = None  # that waits for approval, beside the ledger


class StartSurge(Struct, frozen=True, tag=True):
    """Add one replica to the workload of the pod of this UID, for its replacement; not after `until`."""

    uid: str
    namespace: str
    kind: str  # Deployment or ReplicaSet
    workload: str
    until: float


class EndSurge(Struct, frozen=True, tag=True):
    """Take back the replica that was added for the pod of this UID; `leaves` is the name of the pod to give up."""

    uid: str
    namespace: str
    kind: str
    workload: str
    leaves: str = ""


class ResizePod(Struct, frozen=True, tag=True):
    """Raise the CPU request of the pod of this UID in place, to so many millicores."""

    uid: str
    namespace: str
    name: str
    cpu: int


class BindVolume(Struct, frozen=True, tag=True):
    """Set the volume's claimRef, if it is still at this version; the pod of this UID waits for it."""

    uid: str
    volume: str
    version: int
    claim_namespace: str
    claim: str
    claim_uid: str
    bound_by_controller: bool = True  # false if a user had already reserved the volume for the claim


class SelectNode(Struct, frozen=True, tag=True):
    """Ask the provisioner for a volume that this node can reach; the pod of this UID waits for it."""

    uid: str
    claim_namespace: str
    claim: str
    version: int
    node: str


class LabelNode(Struct, frozen=True, tag=True):
    """Set labels (None removes one), add soft taints, and remove the taints at these indices.

    Other taints are never named, so none of them can be lost; indices hold only while the node is at `version`. With
    `observe_only` the change is only logged.
    """

    node: str
    uid: str
    version: int
    labels: tuple[tuple[str, str | None], ...] = ()
    add_taints: tuple[Taint, ...] = ()
    remove_taints: tuple[tuple[int, str], ...] = ()  # index and key
    has_no_taints: bool = False  # the node has no taints list yet
    reason: str = ""
    observe_only: bool = False


Instruction = (
    Bind
    | GetPod
    | EmitEvent
    | SetUnschedulable
    | Nominate
    | Preempt
    | BindVolume
    | SelectNode
    | LabelNode
    | Evict
    | ReadLedger
    | WriteLedger
    | StartSurge
    | EndSurge
    | ResizePod
)
