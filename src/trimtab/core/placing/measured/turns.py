"""Whose turn it is: nodes in the order in which they were last chosen, as an immutable value; who may be chosen, others say.

    next ◀──────────── longest ago … last chosen
      ▲  new nodes, and those whose turn was given back      ▲
      └──────────────────────────────────────────────────────┘ taken

A turn that is given back is owed: the node stays in front until all that it is owed was taken, so that pods which were
turned back leave no gap. Rows are told by the hash of the node's name: they are others after a node has come or gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.placing.contract import Ints

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """By row: the hash of the node's name, its place in the order (0 is next), and how many turns it is owed.

    `takers` are pods that have taken a turn and may still give it back, by UID.
    """

    nodes: Hashes
    place: Ints
    owed: Ints
    takers: frozenset[str] = frozenset()

    def among(self, nodes: Hashes) -> Turns:
        """The same order for the nodes that there are now; those that are new come first."""
        if np.array_equal(nodes, self.nodes):
            return self
        _, here, there = np.intersect1d(nodes, self.nodes, assume_unique=True, return_indices=True)
        before, owed = np.full(len(nodes), -1), np.zeros(len(nodes), dtype=np.int64)
        before[here], owed[here] = self.place[there], self.owed[there]
        place = np.empty(len(nodes), dtype=np.int64)
        place[np.lexsort((nodes, before))] = np.arange(len(nodes))
        return Turns(nodes.copy(), place, owed, self.takers)

    def taken(self, row: int, uid: str) -> Turns:
        """The node was chosen: it is last now, unless it is owed more."""
        owed, place = self.owed.copy(), self.place
        owed[row] = max(owed[row] - 1, 0)
        if not owed[row]:
            place = place - (place > place[row])
            place[row] = len(place) - 1
        return Turns(self.nodes, place, owed, self.takers | {uid})

    def given_back(self, node: int, uid: str) -> Turns:
        """It was chosen in vain, so it is next; told by its hash, for rows may be others by now."""
        if uid not in self.takers:
            return self
        left = self.landed(uid)
        rows = np.flatnonzero(self.nodes == np.uint64(node))
        if not len(rows):
            return left
        owed, place = self.owed.copy(), self.place + (self.place < self.place[rows[0]])
        owed[rows[0]] += 1
        place[rows[0]] = 0
        return Turns(self.nodes, place, owed, left.takers)

    def landed(self, uid: str) -> Turns:
        """The pod keeps its turn for good."""
        return Turns(self.nodes, self.place, self.owed, self.takers - {uid}) if uid in self.takers else self


NOBODY_YET = Turns(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
