"""Wishes, as values: all that the core can ask of the world; how each is performed is left to the shell."""

from __future__ import annotations

from msgspec import Struct


class Bind(Struct, frozen=True, tag=True):
    """Bind the pod of this UID to the node."""

    uid: str
    namespace: str
    name: str
    node: str


class Reread(Struct, frozen=True, tag=True):
    """Read the pod back from the API server: what became of it is not known."""

    uid: str
    namespace: str
    name: str


class Tell(Struct, frozen=True, tag=True):
    """Write an Event about the pod, for people."""

    uid: str
    namespace: str
    name: str
    reason: str
    note: str
    warning: bool = False
    action: str = "Scheduling"
    scheduler: str = ""


class MarkUnscheduled(Struct, frozen=True, tag=True):
    """Set the pod's PodScheduled condition to False; the cluster autoscaler reads it."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str


Instruction = Bind | Reread | Tell | MarkUnscheduled
