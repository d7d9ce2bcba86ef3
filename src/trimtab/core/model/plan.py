"""What the rescheduler decides: a plan of moves, and what it refused, with reasons."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Move(Struct, frozen=True, tag=True):
    """Evict this pod from its node, so that its replacement runs on the target.

    `gain` is by how much the penalty of both nodes falls, `cost` what the disruption of this pod must be worth, with the
    reason if that is not what an ordinary pod costs. Without a target the replacement goes wherever its scheduler places
    it. `could_choose` names the nodes of which another scheduler may take any, the target first; `gain` is the least that any
    of them gains. It is empty if Trimtab places the replacement.

    `promised` is the utilisation of source and target after the move, as shares of 1, each of its fullest resource; `relief`
    is the gain by snapshot, whatever their number. Both are what the move is graded by.
    """

    uid: str
    pod: str  # namespace/name
    source: str
    target: str
    strategy: str
    reason: str
    gain: float
    cost: float
    cost_reason: str = ""
    could_choose: tuple[str, ...] = ()
    promised: tuple[float, float] | None = None
    relief: float | None = None

    @property
    def goes_to(self) -> str:
        """The target in words."""
        return self.target or "any node"


ALL_PODS = "cluster"  # the subject of a refusal of all moves


class Refusal(Struct, frozen=True, tag=True):
    """A pod that is not moved, or a node whose pods are not: which guard refused, and in which words."""

    subject: str  # namespace/name, or a node's name
    guard: str
    reason: str


class Plan(Struct, frozen=True, tag=True):
    """The moves in order, what was refused, and the penalty of all nodes before and after."""

    at: float
    moves: tuple[Move, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    penalty_before: float = 0.0
    penalty_after: float = 0.0
    hot: Mapping[str, str] = {}  # the nodes that strategies suggest for their load, with the reason
