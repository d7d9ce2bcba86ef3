"""What the engine learns: every fact reaches it as one of these events.

`at` is the time in seconds on the driver's clock; the core has none of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from trimtab.core.model.ledger import Ledger, PublishedPlan
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.plan import Plan
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading


class PodUpserted(Struct, frozen=True, tag=True):
    """A pod was added or updated."""

    pod: Pod
    at: float


class PodDeleted(Struct, frozen=True, tag=True):
    """A pod was deleted; `version` is the resourceVersion of the deletion, if known."""

    uid: str
    at: float
    version: int = 0


class NodeUpserted(Struct, frozen=True, tag=True):
    """A node was added or updated."""

    node: Node
    at: float


class NodeDeleted(Struct, frozen=True, tag=True):
    """A node was deleted."""

    name: str
    at: float
    uid: str = ""
    version: int = 0


class ObjectUpserted(Struct, frozen=True, tag=True):
    """An object of another kind was added or updated."""

    object: Object
    at: float


class ObjectDeleted(Struct, frozen=True, tag=True):
    """An object of another kind was deleted."""

    kind: str
    key: str
    at: float
    uid: str = ""
    version: int = 0


class Synced(Struct, frozen=True, tag=True):
    """The first list of one kind ("pods", "nodes", …) is complete."""

    kind: str
    at: float


class LeaseAcquired(Struct, frozen=True, tag=True):
    """This process leads and may write; `term` is the lease's leaseTransitions."""

    term: int
    at: float


class LeaseLost(Struct, frozen=True, tag=True):
    """This process does not lead: it keeps its state, and decides nothing."""

    at: float


class Turn(Struct, frozen=True, tag=True):
    """Permission to make at most `decisions` decisions now."""

    decisions: int
    at: float


class Tick(Struct, frozen=True, tag=True):
    """Time has passed: check back-offs, deadlines and ages."""

    at: float


class SamplesRead(Struct, frozen=True, tag=True):
    """A metric source has answered."""

    readings: tuple[Reading, ...]
    at: float


class KindForbidden(Struct, frozen=True, tag=True):
    """The API server does not allow to list this kind; `problem` is its message and the remedy. `Synced` ends it."""

    kind: str
    problem: str
    at: float


class SourceFailed(Struct, frozen=True, tag=True):
    """A metric source failed. Its last samples age as usual, unless they are to be discarded at once."""

    source: str
    problem: str
    at: float
    discard_samples: bool = False


class HistoryRead(Struct, frozen=True, tag=True):
    """A source's history from before the start, oldest first; never the latest sample."""

    readings: tuple[Reading, ...]
    at: float


class ConfigText(Struct, frozen=True):
    """A configuration file and the files that it includes, as they were read; without a file the defaults hold."""

    file: str = ""
    content: bytes = b""
    included: tuple[tuple[str, bytes], ...] = ()  # by path


class SettingsRead(Struct, frozen=True, tag=True):
    """New settings are in force (`core.settings.Settings`; untyped here because they name plugins).

    A recording keeps `config`, from which the settings can be read again.
    """

    settings: Any
    at: float
    config: ConfigText = ConfigText()


class BindFailure(StrEnum):
    """Why a bind failed; after CONFLICT and UNKNOWN the pod may be bound all the same, so it is read back."""

    GONE = "gone"
    REFUSED = "refused"
    CONFLICT = "conflict"
    NOT_SENT = "not sent"
    UNKNOWN = "unknown"


class BindDone(Struct, frozen=True, tag=True):
    """The API server accepted the binding."""

    uid: str
    node: str
    at: float


class BindFailed(Struct, frozen=True, tag=True):
    """The API server rejected the binding, or its outcome is unknown."""

    uid: str
    node: str
    reason: BindFailure
    message: str
    at: float


class GetPodDone(Struct, frozen=True, tag=True):
    """The answer to GetPod; None means that no pod with this UID exists."""

    uid: str
    pod: Pod | None
    at: float


class GetPodFailed(Struct, frozen=True, tag=True):
    """GetPod failed: the outcome stays unknown."""

    uid: str
    at: float


class PreemptDone(Struct, frozen=True, tag=True):
    """The API server is deleting the victim, or it was gone already."""

    uid: str
    preemptor: str
    at: float


class PreemptFailed(Struct, frozen=True, tag=True):
    """The victim was not deleted, or the outcome is unknown; `forbidden` means that RBAC does not allow deleting pods."""

    uid: str
    preemptor: str
    message: str
    at: float
    forbidden: bool = False


class EvictDone(Struct, frozen=True, tag=True):
    """The API server is deleting the pod, or it was gone already."""

    uid: str
    at: float


class EvictFailed(Struct, frozen=True, tag=True):
    """The pod was not evicted; `by_budget` means that a disruption budget does not allow it now.

    If the outcome is `unknown`, the pod may be evicted all the same. The request was not `sent` if moves were paused, the
    lease was lost, or it had waited for too long.
    """

    uid: str
    message: str
    at: float
    by_budget: bool = False
    unknown: bool = False
    sent: bool = True


class LedgerRead(Struct, frozen=True, tag=True):
    """The answer to ReadLedger; None with the `problem` if it cannot be read. `approved` is the ID of a plan."""

    ledger: Ledger | None
    at: float
    version: str = ""
    problem: str = ""
    plan: PublishedPlan | None = None
    approved: str = ""


class LedgerWritten(Struct, frozen=True, tag=True):
    """The ledger was written, and has this version now."""

    version: str
    at: float


class LedgerFailed(Struct, frozen=True, tag=True):
    """The ledger was not written, because somebody else wrote it, or the outcome is unknown."""

    message: str
    at: float


class SurgeDone(Struct, frozen=True, tag=True):
    """The API server accepted a StartSurge, or with `ended` an EndSurge."""

    uid: str
    at: float
    ended: bool = False


class SurgeFailed(Struct, frozen=True, tag=True):
    """A StartSurge or EndSurge did not succeed; if the outcome is `unknown`, it may have taken place all the same.

    It is `impossible` if something keeps the workload from ever having a further replica: an autoscaler, a GitOps tool, a
    quota, or the API server itself. Otherwise it may succeed another time.
    """

    uid: str
    message: str
    at: float
    unknown: bool = False
    impossible: bool = False


class ResizeDone(Struct, frozen=True, tag=True):
    """The API server accepted a ResizePod, or with an error refused it."""

    uid: str
    at: float
    error: str = ""


class PauseChanged(Struct, frozen=True, tag=True):
    """Somebody stopped all moves, for this reason, or with an empty one lets them go on."""

    reason: str
    at: float


class SchedulerChecked(Struct, frozen=True, tag=True):
    """Why a scheduler would not place replacements now, by its lease; empty if it would, or nobody can tell."""

    scheduler: str
    problem: str
    at: float


class PlanApproved(Struct, frozen=True, tag=True):
    """Somebody wants these moves to be carried out now; they replace those that wait."""

    plan: Plan
    at: float


class LabelDone(Struct, frozen=True, tag=True):
    """The API server applied a node's labels and taints; the watch shows them from `version` on (0: unknown)."""

    node: str
    at: float
    version: int = 0


class LabelFailed(Struct, frozen=True, tag=True):
    """A node's labels and taints were not applied; `forbidden` means that RBAC or admission does not allow this patch."""

    node: str
    message: str
    at: float
    forbidden: bool = False


class StageAnswered(Struct, frozen=True, tag=True):
    """The answer to a binding cycle's BindVolume or SelectNode: the stage runs again, or, with an error, has failed."""

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
    | KindForbidden
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
    | EvictDone
    | EvictFailed
    | LedgerRead
    | LedgerWritten
    | LedgerFailed
    | SurgeDone
    | SurgeFailed
    | PauseChanged
    | SchedulerChecked
    | PlanApproved
    | ResizeDone
)
