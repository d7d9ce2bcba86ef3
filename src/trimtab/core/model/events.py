"""Facts, as values: everything the core ever learns arrives as one of these; who supplies them is left to the shell.

`at` is the time in seconds on the clock of whoever drives the engine; the core has none of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading


class PodUpserted(Struct, frozen=True, tag=True):
    """A pod was added or changed."""

    pod: Pod
    at: float


class PodDeleted(Struct, frozen=True, tag=True):
    """A pod no longer exists; `version` is the resourceVersion of its deletion where known."""

    uid: str
    at: float
    version: int = 0


class NodeUpserted(Struct, frozen=True, tag=True):
    """A node was added or changed."""

    node: Node
    at: float


class NodeDeleted(Struct, frozen=True, tag=True):
    """A node no longer exists."""

    name: str
    at: float
    uid: str = ""
    version: int = 0


class ObjectUpserted(Struct, frozen=True, tag=True):
    """An object of another kind was added or changed."""

    object: Object
    at: float


class ObjectDeleted(Struct, frozen=True, tag=True):
    """An object of another kind no longer exists."""

    kind: str
    key: str
    at: float
    uid: str = ""
    version: int = 0


class Synced(Struct, frozen=True, tag=True):
    """The first list of one kind ("pods", "nodes", …) is complete: what is not known of it does not exist."""

    kind: str
    at: float


class LeaseAcquired(Struct, frozen=True, tag=True):
    """This process may write from now on, as the holder of the lease's term."""

    term: int
    at: float


class LeaseLost(Struct, frozen=True, tag=True):
    """Somebody else leads, or nobody: take facts in, decide nothing."""

    at: float


class Turn(Struct, frozen=True, tag=True):
    """Leave to make at most `decisions` decisions now."""

    decisions: int
    at: float


class Tick(Struct, frozen=True, tag=True):
    """Time has passed: back-offs, deadlines and ages are looked at."""

    at: float


class SamplesRead(Struct, frozen=True, tag=True):
    """A metric source has answered."""

    readings: tuple[Reading, ...]
    at: float


class SourceFailed(Struct, frozen=True, tag=True):
    """A metric source has not answered, or nonsense: what it said before is not believed until it answers again."""

    source: str
    problem: str
    at: float


class HistoryRead(Struct, frozen=True, tag=True):
    """What a source remembers of the time before we asked, oldest first: it fills what is kept, and is never the latest."""

    readings: tuple[Reading, ...]
    at: float


class SettingsRead(Struct, frozen=True, tag=True):
    """New settings are in force (`engine.settings.Settings`; untyped here because they name plugins)."""

    settings: Any
    at: float


class BindFailure(StrEnum):
    """Why a bind did not end well; only UNKNOWN leaves open whether it happened."""

    GONE = "gone"
    REFUSED = "refused"
    CONFLICT = "conflict"
    NOT_SENT = "not sent"
    UNKNOWN = "unknown"


class BindDone(Struct, frozen=True, tag=True):
    """The API server has accepted our binding."""

    uid: str
    node: str
    at: float


class BindFailed(Struct, frozen=True, tag=True):
    """It has not, or nobody knows."""

    uid: str
    node: str
    reason: BindFailure
    message: str
    at: float


class GetPodDone(Struct, frozen=True, tag=True):
    """A pod was read back on request, straight from the API server; None says that this UID no longer exists."""

    uid: str
    pod: Pod | None
    at: float


class GetPodFailed(Struct, frozen=True, tag=True):
    """Reading a pod back did not work either: its outcome stays unknown."""

    uid: str
    at: float


class PreemptDone(Struct, frozen=True, tag=True):
    """The API server has begun to delete a victim, or it was gone already."""

    uid: str
    preemptor: str
    at: float


class PreemptFailed(Struct, frozen=True, tag=True):
    """It has not, or nobody knows; `forbidden` says that we may not delete pods at all."""

    uid: str
    preemptor: str
    message: str
    at: float
    forbidden: bool = False


class LabelDone(Struct, frozen=True, tag=True):
    """The API server has taken our labels and taints of a node; the watch will show them, from `version` on (0: not said)."""

    node: str
    at: float
    version: int = 0


class LabelFailed(Struct, frozen=True, tag=True):
    """It has not; `forbidden` says that we may not change nodes in this way at all."""

    node: str
    message: str
    at: float
    forbidden: bool = False


class StageAnswered(Struct, frozen=True, tag=True):
    """What a waiting stage asked of the shell has been answered: it is asked again, or, with a problem, has failed."""

    uid: str
    at: float
    error: str = ""


Event = (
    PodUpserted
    | PodDeleted
    | NodeUpserted
    | NodeDeleted
    | ObjectUpserted
    | ObjectDeleted
    | Synced
    | LeaseAcquired
    | LeaseLost
    | Turn
    | Tick
    | SamplesRead
    | SourceFailed
    | HistoryRead
    | SettingsRead
    | BindDone
    | BindFailed
    | GetPodDone
    | GetPodFailed
    | PreemptDone
    | PreemptFailed
    | StageAnswered
    | LabelDone
    | LabelFailed
)
