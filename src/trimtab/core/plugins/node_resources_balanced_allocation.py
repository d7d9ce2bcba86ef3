"""NodeResourcesBalancedAllocation: likes nodes whose resources would be used up evenly; room itself is Fit's business."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.placing.amounts import ResourceWeight, offered_and_taken
from trimtab.core.placing.contract import MAX_SCORE, Ints, Normalise, Rows


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocation:
    """100 less the standard deviation, in percent, of requested over allocatable; no opinion on pods that ask for nothing."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    woken_by: ClassVar[Change] = Change.NOTHING
    reads: ClassVar[Change] = Change.ALLOCATABLE | Change.PODS
    normalise: ClassVar[Normalise] = Normalise.NONE

    resources: tuple[ResourceWeight, ...] = (ResourceWeight(CPU), ResourceWeight(MEMORY))

    def signs(self, pod: Pod) -> Hashable:
        return pod.demand

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not any(pod.demand.of(resource.name) for resource in self.resources):
            return None
        shares = self._shares(view, pod, rows)
        spread = _of_two(*shares) if len(shares) == 2 else _of_many(shares, len(view.pod_count[rows]))
        return ((1 - spread) * MAX_SCORE).astype(np.int64)

    def _shares(self, view: View, pod: Pod, rows: Rows) -> list[Floats]:
        """Requested over allocatable, at most 1, per resource; NaN where a node does not have the resource."""
        shares = []
        for resource in self.resources:
            pair = offered_and_taken(view, pod, resource.name, rows, scored=False)
            if pair is not None:
                offered, taken = pair
                share = np.minimum(taken / np.maximum(offered, 1), 1.0)
                if not offered.all():
                    share[offered == 0] = np.nan
                shares.append(share)
        return shares


def _of_two(one: Floats, other: Floats) -> Floats:
    """Half the distance; 0 where only one of the two is there."""
    spread = np.abs((one - other) / 2)
    spread[np.isnan(spread)] = 0.0
    return spread


def _of_many(shares: list[Floats], count: int) -> Floats:
    """The standard deviation over the resources that a node has, summed in their order as kube-scheduler sums."""
    seen, mean, squares = np.zeros(count), np.zeros(count), np.zeros(count)
    first, second = np.zeros(count), np.zeros(count)
    for share in shares:
        there = ~np.isnan(share)
        first[there & (seen == 0)] = share[there & (seen == 0)]
        second[there & (seen == 1)] = share[there & (seen == 1)]
        seen += there
        mean += np.where(there, share, 0.0)
    mean /= np.maximum(seen, 1)
    for share in shares:
        squares += np.where(np.isnan(share), 0.0, (share - mean) * (share - mean))
    spread = np.where(seen > 2, np.sqrt(squares / np.maximum(seen, 1)), 0.0)
    return np.where(seen == 2, np.abs((first - second) / 2), spread)
