"""Wishes, as values: all that the core can ask of the world; how each is performed is left to the shell."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.taints import Taint


class Bind(Struct, frozen=True, tag=True):
    """Bind the pod of this UID to the node."""

    uid: str
    namespace: str
    name: str
    node: str


class GetPod(Struct, frozen=True, tag=True):
    """Read the pod back from the API server: what became of it is not known."""

    uid: str
    namespace: str
    name: str


class EmitEvent(Struct, frozen=True, tag=True):
    """Write an Event about the pod, for people."""

    uid: str
    namespace: str
    name: str
    reason: str
    note: str
    warning: bool = False
    action: str = "Scheduling"
    scheduler_name: str = ""


class SetUnschedulable(Struct, frozen=True, tag=True):
    """Set the pod's PodScheduled condition to False; the cluster autoscaler reads it."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str


class Nominate(Struct, frozen=True, tag=True):
    """Write down that room on this node is promised to the pod; an empty name takes the promise back."""

    uid: str
    namespace: str
    name: str
    node: str


class Preempt(Struct, frozen=True, tag=True):
    """Delete this pod, gracefully and after saying why in its status, so that another one can have its room."""

    uid: str
    namespace: str
    name: str
    preemptor: str  # the other one's UID
    scheduler_name: str


class BindVolume(Struct, frozen=True, tag=True):
    """Promise the volume, as it is at this version, to the claim; the pod of this UID waits for it."""

    uid: str
    volume: str
    version: int
    claim_namespace: str
    claim: str
    claim_uid: str
    bound_by_controller: bool = True  # rather than by a person who had kept the volume for the claim


class SelectNode(Struct, frozen=True, tag=True):
    """Ask for the claim's volume to be made where this node can reach it; the pod of this UID waits for it."""

    uid: str
    claim_namespace: str
    claim: str
    version: int
    node: str


class LabelNode(Struct, frozen=True, tag=True):
    """Give the node these labels (None takes one away) and soft taints, and take those away that stand at these places.

    Others' taints are never named, so none of theirs can be lost; places hold only while the node is at `version`.
    With `observe` nothing is written: it is only said.
    """

    node: str
    uid: str
    version: int
    labels: tuple[tuple[str, str | None], ...] = ()
    add_taints: tuple[Taint, ...] = ()
    remove_taints: tuple[tuple[int, str], ...] = ()  # place and key
    has_no_taints: bool = False  # the node has none yet
    reason: str = ""
    observe_only: bool = False


Instruction = Bind | GetPod | EmitEvent | SetUnschedulable | Nominate | Preempt | BindVolume | SelectNode | LabelNode
