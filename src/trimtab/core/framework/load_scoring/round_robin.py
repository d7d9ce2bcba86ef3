"""Whose turn it is: nodes in the order in which they were last chosen, as an immutable value; who may be chosen, others say.

    owed a turn ──▶ new ──▶ chosen longest ago … chosen last
                     ▲                                │ taken
                     └────────────────────────────────┘ (in a ring)

A turn that is given back is owed, and taken before all others without a change of the order, so that pods which were turned
back leave no gap. Nodes are told by the hash of their name: rows are others after a node has come or gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.framework.interface import Ints

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class RoundRobin:
    """By row: the hash of the node's name, its place in the order (0 is next), and how many turns it is owed.

    `takers` are pods that have taken a turn and may still give it back, by UID.
    """

    nodes: Hashes
    position: Ints
    credits: Ints
    pending: frozenset[str] = frozenset()

    def restricted_to(self, nodes: Hashes) -> RoundRobin:
        """The same order for the nodes that there are now; those that are new come first."""
        if np.array_equal(nodes, self.nodes):
            return self
        _, here, there = np.intersect1d(nodes, self.nodes, assume_unique=True, return_indices=True)
        before, owed = np.full(len(nodes), -1), np.zeros(len(nodes), dtype=np.int64)
        before[here], owed[here] = self.position[there], self.credits[there]
        place = np.empty(len(nodes), dtype=np.int64)
        place[np.lexsort((nodes, before))] = np.arange(len(nodes))
        return RoundRobin(nodes.copy(), place, owed, self.pending)

    def taken(self, row: int, uid: str) -> RoundRobin:
        """The node was chosen: it is last now, or is owed one turn less."""
        owed, place, takers = self.credits, self.position, self.pending | {uid}
        if owed[row]:
            owed = owed.copy()
            owed[row] -= 1
        else:
            place = place - (place > place[row])
            place[row] = len(place) - 1
        return RoundRobin(self.nodes, place, owed, takers)

    def returned(self, node: int, uid: str) -> RoundRobin:
        """It was chosen in vain; told by its hash, for rows may be others by now."""
        if uid not in self.pending:
            return self
        return RoundRobin(
            self.nodes, self.position, self.credits + (self.nodes == np.uint64(node)), self.pending - {uid}
        )

    def confirmed(self, uid: str) -> RoundRobin:
        """The pod keeps its turn for good."""
        return (
            RoundRobin(self.nodes, self.position, self.credits, self.pending - {uid}) if uid in self.pending else self
        )

    @property
    def rank(self) -> Ints:
        """By row, how many would be chosen before it if all may be; 0 for all that are owed a turn."""
        return np.where(self.credits > 0, 0, self.position + 1)


EMPTY = RoundRobin(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
