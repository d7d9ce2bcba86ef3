"""RoundRobin: nodes take turns, whatever their load: a baseline to compare other policies with.

Of the nodes that pass all filters, the one chosen longest ago is next, and a new node goes before all others. A pod
whose binding fails returns its turn. So n pods on m equally feasible nodes differ by at most one, if no other plugin
scores. Turns are counted at the reserve point; without it the node with the fewest pods is next.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.cluster.view import View
from trimtab.core.framework import round_robin
from trimtab.core.framework.interface import Ints, Normalise, Reject, Rows, StageStatus
from trimtab.core.framework.round_robin import RoundRobin as Turns
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """It has no arguments; the order of turns is its plugin state."""

    name: ClassVar[str] = "RoundRobin"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.PODS | Change.PLUGIN_STATE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = 10_000  # so that up to a million nodes have scores of their own

    def signature(self, pod: Pod) -> Hashable:
        return ()

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return round_robin.score(view, view.plugin_state(self.name), rows, self.score_scale)

    def reserve(
        self, view: View, state: Turns | None, pod: Pod, node: str
    ) -> tuple[Turns | None, StageStatus | Reject]:
        return round_robin.take(view, state, pod, node), StageStatus.SUCCESS

    def unreserve(self, state: Turns | None, pod: Pod, node: str) -> Turns | None:
        return round_robin.give_back(state, pod, node)

    def observe_pod(self, state: Turns | None, pod: Pod, added: bool) -> Turns | None:
        return state and state.confirmed(pod.uid)
