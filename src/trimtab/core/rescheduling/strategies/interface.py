"""What a strategy sees, and what it returns. It suggests; guards, the objective and a rehearsal decide.

A strategy is a frozen dataclass whose fields are its arguments, like a scheduling plugin. It remembers nothing: how long a
node has been hot is in the snapshots. Rivals are other projects' reschedulers, run for comparison: they decide themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.profile import Profile
from trimtab.core.model.pod import NODE_BOUND, Pod
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.tables import Bools

ANY_POD: frozenset[str] = frozenset()
ANY_NODE: frozenset[str] = frozenset()
MUST_GO = 1e6  # worth more than any disruption costs
DEFAULT_COST, ABOVE_COST = 32.0, 1.25


class Suggestion(NamedTuple):
    """Pods should leave this node: any of them, or those of these UIDs; for any other node, or for these.

    `worth` is what leaving is worth by itself, in units of the objective, beside what it changes in the load: 0 where load
    is the only reason, and `MUST_GO` where the pod must go. A node that is not hot needs no other remedy than a move.
    """

    strategy: str
    node: str
    reason: str
    pods: frozenset[str] = ANY_POD
    worth: float = 0.0
    targets: frozenset[str] = ANY_NODE
    is_hot: bool = True


def replaceable(pod: Pod) -> bool:
    """Whether a controller would create the pod again, and on another node."""
    return pod.owner is not None and pod.owner.kind not in NODE_BOUND


def unknown_scheduler(name: str) -> Profile | None:
    return None


@dataclass(frozen=True, slots=True)
class StrategyContext:
    """The cluster and its load by snapshot, at this time.

    `profile_of` finds the profile that will place a pod's replacement. `movable` tells the pods that may be moved some day
    from those that never may; how long ago a pod was moved does not matter to it. `cost` is that of an ordinary pod.
    """

    cluster: Cluster
    load: NodeLoad
    now: float
    profile_of: Callable[[str], Profile | None] = unknown_scheduler
    movable: Callable[[Pod], bool] = replaceable
    cost: float = DEFAULT_COST

    @property
    def worth_a_move(self) -> float:
        """A little more than an ordinary disruption costs: worth a move that does not make the load much worse."""
        return ABOVE_COST * self.cost


@runtime_checkable
class Strategy(Protocol):
    """One reason to move pods."""

    name: ClassVar[str]

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        """The nodes that pods should leave, the most urgent first; several strategies may name the same node."""
        ...


@runtime_checkable
class ReadsSnapshots(Protocol):
    """A strategy that reads usage by snapshot before it suggests anything: that is computed first, in short steps."""

    reads_snapshots: ClassVar[bool]


@runtime_checkable
class AvoidsTargets(Protocol):
    """A strategy that knows nodes to which no pod should be moved, whoever suggests it."""

    def avoid(self, context: StrategyContext) -> Bools:
        """By row: no target."""
        ...


class RivalEviction(NamedTuple):
    """A rival evicts this pod; where the replacement goes is up to its scheduler."""

    uid: str
    reason: str


@runtime_checkable
class RivalStrategy(Protocol):
    """Another project's rescheduler: which pods it evicts, in its order, by its own rules and limits.

    `state` is what it remembers between rounds, None at first; the new state is returned, and the old one never changed.
    """

    name: ClassVar[str]

    def evictions(self, context: StrategyContext, state: Any) -> tuple[Sequence[RivalEviction], Any]: ...
