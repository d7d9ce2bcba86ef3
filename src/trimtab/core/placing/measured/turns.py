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
        """The node was chosen: it is last now, or is owed one turn less."""
        owed, place, takers = self.owed, self.place, self.takers | {uid}
        if owed[row]:
            owed = owed.copy()
            owed[row] -= 1
        else:
            place = place - (place > place[row])
            place[row] = len(place) - 1
        return Turns(self.nodes, place, owed, takers)

    def given_back(self, node: int, uid: str) -> Turns:
        """It was chosen in vain; told by its hash, for rows may be others by now."""
        if uid not in self.takers:
            return self
        return Turns(self.nodes, self.place, self.owed + (self.nodes == np.uint64(node)), self.takers - {uid})

    def landed(self, uid: str) -> Turns:
        """The pod keeps its turn for good."""
        return Turns(self.nodes, self.place, self.owed, self.takers - {uid}) if uid in self.takers else self

    @property
    def ahead(self) -> Ints:
        """By row, how many would be chosen before it if all may be; 0 for all that are owed a turn."""
        return np.where(self.owed > 0, 0, self.place + 1)


NOBODY_YET = Turns(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
