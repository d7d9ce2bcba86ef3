"""Runs rivals as they are: no guards, no targets and no nominations. Where a replacement goes is up to its scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trimtab.core.model.plan import Move, Plan
from trimtab.core.rescheduling.strategies.interface import RivalEviction, RivalStrategy, StrategyContext


class RivalRounds:
    """One round after the other, with what each rival remembers."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}  # by the rival's name; never changed in place

    def copy(self) -> RivalRounds:
        copied = RivalRounds()
        copied._states = self._states.copy()
        return copied

    def plan(self, context: StrategyContext, rivals: Iterable[RivalStrategy]) -> Plan:
        """Their evictions in order, each pod once, as moves without a target; nobody knows the penalty after them."""
        moves: dict[str, Move] = {}
        for rival in rivals:
            found, self._states[rival.name] = rival.evictions(context, self._states.get(rival.name))
            for each in found:
                moves.setdefault(each.uid, _move(context, rival, each))
        return Plan(context.now, tuple(moves.values()))


def _move(context: StrategyContext, rival: RivalStrategy, eviction: RivalEviction) -> Move:
    pod = context.cluster.pods[eviction.uid]
    return Move(pod.uid, pod.key, pod.node, "", rival.name, eviction.reason, 0.0, 0.0)
