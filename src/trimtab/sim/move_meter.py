"""Grades each move of a simulated run by what it changed, whoever moved the pod.

A move has helped if the steps of the next six hours in which its two nodes were hot are fewer than they would have been had
the pod stayed, all else being equal, and it has hurt if they are more. Utilisation after a move is expected to be what it was
before, less the pods that left and with those that came; what is measured later differs from that by the error.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
from msgspec import Struct

from trimtab.core.model.duration import HOUR
from trimtab.core.model.pod import Pod
from trimtab.core.tables import Floats
from trimtab.sim.surges import owner_of
from trimtab.sim.usage import StepUsage
from trimtab.sim.world import World

MOVED = "moved"
HOT = 0.8
JUDGED_FOR = 6 * HOUR
MEASURED_AFTER = 300.0


class JudgedMove(Struct):
    """`saved` counts the hot node-steps that the move has avoided, less those that it has caused."""

    replacement: str  # its UID
    source: int
    target: int
    until: float
    saved: int = 0
    seen: bool = False


class Expectation(Struct, frozen=True):
    """What a node should use after the moves of one step, relative to its capacity."""

    row: int
    utilisation: float
    due: float


class MoveMeter:
    """Follows the pods that are moved, from the node they leave to the one where their replacement runs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.judged: list[JudgedMove] = []
        self.errors: list[float] = []  # of source and target of each move, in shares of the capacity
        self._active: list[JudgedMove] = []
        self._left: dict[str, deque[tuple[int, float]]] = defaultdict(deque)  # by owner: row and usage
        self._changes: dict[int, float] = {}  # by row, since the last step
        self._expected: list[Expectation] = []
        self._before: StepUsage | None = None
        world.step_listeners.append(self._step)
        world.pod_listeners.append(self._pod_changed)

    @property
    def helped(self) -> int:
        return sum(each.saved > 0 for each in self.judged)

    @property
    def hurt(self) -> int:
        return sum(each.saved < 0 for each in self.judged)

    @property
    def error(self) -> float:
        """The median, 0 without moves."""
        return float(np.median(self.errors)) if self.errors else 0.0

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and not before.terminating and (after is None or after.terminating):
            if before.owner is not None and self.world.lives[before.uid].left == MOVED:
                self._pod_left(before, before.owner.uid)
        elif after is not None and after.node and (before is None or not before.node):
            owner = "" if after.owner is None else after.owner.uid
            if self._left.get(owner):
                self._replacement_bound(after, *self._left[owner].popleft())

    def _pod_left(self, pod: Pod, owner: str) -> None:
        row, used = self.world.usage.rows[pod.node], self._usage_before(pod.uid)
        self._active = [each for each in self._active if each.replacement != pod.uid]
        self._changes[row] = self._changes.get(row, 0.0) - used
        watcher = owner_of(self.world, pod.uid)
        replacement = watcher.replaced_by(pod.uid) if watcher is not None else None
        if replacement is not None and replacement.node:
            self._replacement_bound(replacement, row, used)
        else:
            self._left[owner].append((row, used))

    def _usage_before(self, uid: str) -> float:
        before = self._before
        return float(before.pod_demand[0, before.pods.index(uid)]) if before is not None and uid in before.pods else 0.0

    def _replacement_bound(self, pod: Pod, source: int, used: float) -> None:
        target = self.world.usage.rows[pod.node]
        self._changes[target] = self._changes.get(target, 0.0) + used
        move = JudgedMove(pod.uid, source, target, self.world.clock.now + JUDGED_FOR)
        self.judged.append(move)
        self._active.append(move)

    def _step(self, usage: StepUsage) -> None:
        utilisation = usage.demand[0] / np.maximum(usage.capacity[0], 1.0)
        for row, change in self._changes.items() if self._before is not None else ():
            self._expect(row, change, usage.at)
        self._changes.clear()
        due = [each for each in self._expected if each.due <= usage.at]
        self._expected = [each for each in self._expected if each.due > usage.at]
        self.errors += [abs(float(utilisation[each.row]) - each.utilisation) for each in due if usage.present[each.row]]
        if self._active:
            self._judge(usage, utilisation)
        self._before = usage

    def _expect(self, row: int, change: float, at: float) -> None:
        """By the step before the moves; moves of one step count together."""
        before = self._before
        if before is not None and row < len(before.demand[0]):
            expected = (before.demand[0, row] + change) / max(before.capacity[0, row], 1.0)
            self._expected.append(Expectation(row, float(expected), before.at + MEASURED_AFTER + before.seconds))

    def _judge(self, usage: StepUsage, utilisation: Floats) -> None:
        number = {uid: place for place, uid in enumerate(usage.pods)}
        kept = []
        for move in self._active:
            place = number.get(move.replacement)
            if place is None and move.seen:
                continue
            if place is not None:
                move.seen = True
                move.saved += _saved(move, utilisation, usage.pod_demand[0, place] / np.maximum(usage.capacity[0], 1.0))
            if usage.at < move.until:
                kept.append(move)
        self._active = kept


def _saved(move: JudgedMove, utilisation: Floats, pod: Floats) -> int:
    """Hot nodes had the pod stayed, less hot nodes as it is; `pod` is by row, relative to its capacity."""
    if move.source == move.target:
        return 0
    source, target = utilisation[move.source], utilisation[move.target]
    stayed = int(source + pod[move.source] > HOT) + int(target - pod[move.target] > HOT)
    return stayed - int(source > HOT) - int(target > HOT)
