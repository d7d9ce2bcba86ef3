"""What a strategy sees, and what it returns. It suggests; guards, the objective and a rehearsal decide.

A strategy is a frozen dataclass whose fields are its arguments, like a scheduling plugin. It remembers nothing: how long a
node has been hot is in the snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.rescheduling.objective import NodeLoad

ANY_POD: frozenset[str] = frozenset()


class Suggestion(NamedTuple):
    """Pods should leave this node: any of them, or those of these UIDs.

    `worth` is what leaving is worth by itself, in units of the objective, beside what it changes in the load: 0 where load
    is the only reason, and more than any disruption costs where the pod must go.
    """

    strategy: str
    node: str
    reason: str
    pods: frozenset[str] = ANY_POD
    worth: float = 0.0


@dataclass(frozen=True, slots=True)
class StrategyContext:
    """The cluster and its load by snapshot, at this time."""

    cluster: Cluster
    load: NodeLoad
    now: float


class Strategy(Protocol):
    """One reason to move pods."""

    name: ClassVar[str]

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        """The nodes that pods should leave, the most urgent first; several strategies may name the same node."""
        ...
