"""The ledger: every move with its state and grades, kept in the cluster so that budgets survive restarts and fail-overs.

charged ──evicted──▶ placed ──▶ done                       by eviction
   │         └──────────┴─────▶ failed
charged ──surged──▶ placed ──▶ leaving ──▶ done            replacement first
   │         └──────────┴─────▶ undoing ──▶ failed
   └─▶ refused, cancelled                                  certainly not moved: no budget counts it
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.plan import Move, Plan

LEDGER_VERSION = 1
MAX_PUBLISHED, MAX_CHOICES = 50, 20
OwnerSlot = tuple[str, str, str]  # namespace, the owner's UID, and the name of a StatefulSet's pod


class MoveState(StrEnum):
    """How far a move has come."""

    CHARGED = "charged"  # it counts; nothing is known of the eviction or the surge
    EVICTED = "evicted"  # the API server is deleting the pod
    SURGED = "surged"  # the workload has one replica more
    PLACED = "placed"  # the replacement has a node
    LEAVING = "leaving"  # the replacement is ready, and the workload gives up the pod
    UNDOING = "undoing"  # the replacement did not become ready, and the workload gives that up
    DONE = "done"  # the replacement is ready on another node
    FAILED = "failed"  # it came back to its node, or was not ready in time
    REFUSED = "refused"  # by the API server
    CANCELLED = "cancelled"  # a guard had a reason just before


UNDER_WAY = frozenset(
    {
        *(MoveState.CHARGED, MoveState.EVICTED, MoveState.SURGED),
        *(MoveState.PLACED, MoveState.LEAVING, MoveState.UNDOING),
    }
)
NOT_MOVED = frozenset({MoveState.REFUSED, MoveState.CANCELLED})


class Grade(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a move was worth some time later: relief per snapshot as promised and as measured, in units of the penalty.

    The errors are of the utilisation that was promised for source and target, in shares of 1.
    """

    after: float  # seconds since the move ended
    promised: float
    measured: float
    source_error: float | None = None
    target_error: float | None = None

    @property
    def helped(self) -> bool:
        return self.measured > 0


class MoveRecord(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One move. Times are in seconds since 1970; `uid` and `pod` are of the pod that leaves."""

    uid: str
    namespace: str
    pod: str
    workload: str
    slot: OwnerSlot
    source: str
    target: str
    strategy: str
    at: float
    state: MoveState
    reason: str = ""
    gain: float = 0.0
    cost: float = 0.0
    zone: str = ""
    message: str = ""
    term: int = 0  # of the lease, when it was charged
    surge: bool = False  # the replacement comes first
    attempt: str = ""  # tells attempts to move one pod apart, whatever clocks say
    left: float = 0.0  # when the pod was evicted, or given up
    replacement: str = ""  # its UID
    node: str = ""  # of the replacement
    ended: float = 0.0
    unready: float = 0.0  # seconds for which the workload had one ready pod less
    promised: tuple[float, float] | None = None  # utilisation of source and target after the move
    relief: float | None = None  # that was promised, by snapshot
    grades: tuple[Grade, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.pod}"

    @property
    def under_way(self) -> bool:
        return self.state in UNDER_WAY

    @property
    def came_back(self) -> bool:
        """Whether the replacement went to the node that the pod was to leave."""
        return bool(self.node) and self.node == self.source

    @property
    def counts(self) -> bool:
        """Whether budgets count it; an unknown outcome counts."""
        return self.state not in NOT_MOVED


class PublishedPlan(Struct, frozen=True, rename="camel"):
    """A plan that waits for approval; the same moves have the same `id`."""

    id: str
    at: float
    moves: tuple[Move, ...]
    penalty_before: float = 0.0
    penalty_after: float = 0.0


def publish(plan: Plan) -> PublishedPlan:
    """Bounded, because a ConfigMap is: what is not shown is not carried out."""
    moves = tuple(replace(each, could_choose=each.could_choose[:MAX_CHOICES]) for each in plan.moves[:MAX_PUBLISHED])
    digest = sha256(repr([(each.uid, each.source, each.target) for each in moves]).encode())
    return PublishedPlan(digest.hexdigest()[:8], plan.at, moves, plan.penalty_before, plan.penalty_after)


class Ledger(Struct, frozen=True, rename="camel"):
    """All records, oldest first; `term` is the lease term of the last writer."""

    version: int = LEDGER_VERSION
    term: int = 0
    records: tuple[MoveRecord, ...] = ()

    def shifted(self, seconds: float) -> Ledger:
        """With all times later by so many seconds."""
        return replace(self, records=tuple(_shifted(each, seconds) for each in self.records))


def _shifted(record: MoveRecord, seconds: float) -> MoveRecord:
    times = {name: time + seconds for name in ("at", "left", "ended") if (time := getattr(record, name))}
    return replace(record, **times)
