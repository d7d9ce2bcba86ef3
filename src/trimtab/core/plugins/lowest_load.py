"""LowestLoad: prefers the node that really uses the least CPU and memory; without any metrics, nodes take turns.

After 1006tiger/MyScheduler, which binds each pod to the node with the lowest sum of both percentages. Fixed here:

- It was the whole scheduler, without any filter; here it scores the nodes that pass the profile's filters.
- Pods that no sample shows yet count with their expected usage, so a burst does not all go to the least loaded node.
- An unreadable value is not 0. A node without metrics is scored by requests, as long as others have metrics.
- Its round robin always picked the first node. Here, when no node has metrics, the node chosen longest ago goes first
  among those that pass all filters, and a pod whose binding fails returns its turn. So n pods on m equally feasible
  nodes differ by at most one, if no other plugin scores.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import ALL_ROWS, MAX_SCORE, Ints, Normalise, Reject, Rows, StageStatus
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import check_ranges, setting

MAX_SCALED_SCORE = MAX_SCORE * utilisation.SCORE_SCALE

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class LowestLoad:
    """The weight of each resource. Without the reserve point turns are not counted, and the fewest pods go first."""

    name: ClassVar[str] = "LowestLoad"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE | Change.PLUGIN_STATE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE
    takes_turns: ClassVar[bool] = True  # what it does without data, for those who report on a configuration

    cpu_weight: float = setting(1.0, "1 unless set, 0 to 100: the weight of CPU in a node's load", between=(0, 100))
    memory_weight: float = setting(1.0, "1 unless set, 0 to 100: the same for memory", between=(0, 100))

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.cpu_weight + self.memory_weight == 0:
            raise ValueError("cpuWeight and memoryWeight are both 0: set at least one of them")

    def signature(self, pod: Pod) -> Hashable:
        return utilisation.estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not _any_measured(view):
            return _round_robin_score(view, view.plugin_state(self.name), rows)
        used = utilisation.weighted_sum(self.cpu_weight, self.memory_weight, utilisation.utilisations(view, rows, pod))
        return utilisation.free_score(used / (self.cpu_weight + self.memory_weight))

    def reserve(
        self, view: View, state: RoundRobin | None, pod: Pod, node: str
    ) -> tuple[RoundRobin | None, StageStatus | Reject]:
        row = view.row(node)
        if row is None or _any_measured(view):
            return state, StageStatus.SUCCESS
        return (state or EMPTY).restricted_to(view.name_hash).taken(row, pod.uid), StageStatus.SUCCESS

    def unreserve(self, state: RoundRobin | None, pod: Pod, node: str) -> RoundRobin | None:
        return state and state.returned(name_hash(node), pod.uid)

    def observe_pod(self, state: RoundRobin | None, pod: Pod, added: bool) -> RoundRobin | None:
        return state and state.confirmed(pod.uid)

    def explain_note(self, view: View, pod: Pod) -> str:
        return (
            utilisation.unmeasured_note(view)
            if _any_measured(view)
            else "no node has trusted metrics: nodes take turns"
        )


def _any_measured(view: View) -> bool:
    return any(not np.isnan(utilisation.expected(view, resource, ALL_ROWS)).all() for resource in (CPU, MEMORY))


def _round_robin_score(view: View, state: RoundRobin | None, rows: Rows) -> Ints:
    if state is None:
        return np.maximum(MAX_SCALED_SCORE - view.pod_count[rows], 0)
    return (view.count - state.restricted_to(view.name_hash).rank[rows]) * MAX_SCALED_SCORE // max(view.count, 1)


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
