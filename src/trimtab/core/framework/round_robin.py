"""Round robin over nodes: the order of turns as an immutable value, and what plugins do with it.

A plugin keeps a `RoundRobin` as its plugin state: `reserve` takes a turn, `unreserve` gives it back, `observe_pod`
confirms it, and `score` ranks nodes by it. Among the nodes that pass all filters the one chosen longest ago is next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Rows
from trimtab.core.model.pod import Pod

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class RoundRobin:
    """Round robin over nodes, as an immutable value.

        with credits ──▶ new nodes ──▶ chosen longest ago … chosen last
                             ▲                                │ taken
                             └────────────────────────────────┘ (in a ring)

    By row: the hash of the node's name, its position in the order (0 is next), and its credits. A turn that is returned
    becomes a credit, which is used before all others without a change of the order, so pods whose binding failed leave
    no gap. Nodes are identified by the hash of their name, because rows change when nodes come and go.

    `pending` are UIDs of pods that have taken a turn and may still return it.
    """

    nodes: Hashes
    position: Ints
    credits: Ints
    pending: frozenset[str] = frozenset()

    def restricted_to(self, nodes: Hashes) -> RoundRobin:
        """The same order for the current nodes; new ones come first."""
        if np.array_equal(nodes, self.nodes):
            return self
        _, here, there = np.intersect1d(nodes, self.nodes, assume_unique=True, return_indices=True)
        before, owed = np.full(len(nodes), -1), np.zeros(len(nodes), dtype=np.int64)
        before[here], owed[here] = self.position[there], self.credits[there]
        place = np.empty(len(nodes), dtype=np.int64)
        place[np.lexsort((nodes, before))] = np.arange(len(nodes))
        return RoundRobin(nodes.copy(), place, owed, self.pending)

    def taken(self, row: int, uid: str) -> RoundRobin:
        """The node was chosen: it becomes last, or loses a credit."""
        owed, place, takers = self.credits, self.position, self.pending | {uid}
        if owed[row]:
            owed = owed.copy()
            owed[row] -= 1
        else:
            place = place - (place > place[row])
            place[row] = len(place) - 1
        return RoundRobin(self.nodes, place, owed, takers)

    def returned(self, node: int, uid: str) -> RoundRobin:
        """The pod did not go to the node after all; the node is given by hash, because its row may have changed."""
        if uid not in self.pending:
            return self
        return RoundRobin(
            self.nodes, self.position, self.credits + (self.nodes == np.uint64(node)), self.pending - {uid}
        )

    def confirmed(self, uid: str) -> RoundRobin:
        """The pod keeps its turn."""
        return (
            RoundRobin(self.nodes, self.position, self.credits, self.pending - {uid}) if uid in self.pending else self
        )

    @property
    def rank(self) -> Ints:
        """By row, how many nodes come before it; 0 for all that have credits."""
        return np.where(self.credits > 0, 0, self.position + 1)


EMPTY = RoundRobin(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def score(view: View, state: RoundRobin | None, rows: Rows, score_scale: int) -> Ints:
    """The next node has the most points. Where no turns are counted, the fewest pods go first."""
    highest = MAX_SCORE * score_scale
    if state is None:
        return np.maximum(highest - view.pod_count[rows], 0)
    return (view.count - state.restricted_to(view.name_hash).rank[rows]) * highest // max(view.count, 1)


def take(view: View, state: RoundRobin | None, pod: Pod, node: str) -> RoundRobin | None:
    """The state after the pod has taken the node's turn."""
    row = view.row(node)
    return state if row is None else (state or EMPTY).restricted_to(view.name_hash).taken(row, pod.uid)


def give_back(state: RoundRobin | None, pod: Pod, node: str) -> RoundRobin | None:
    """The state after the pod has returned its turn."""
    return state and state.returned(name_hash(node), pod.uid)
