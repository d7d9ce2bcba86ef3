"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used evenly."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.framework.resource_amounts import ResourceWeight, allocatable_and_requested
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import ParsedFields, setting
from trimtab.core.tables import Floats


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocation:
    """100 minus the standard deviation, in percent, of requested over allocatable; skips pods without requests."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.ALLOCATABLE | Change.PODS
    normalise: ClassVar[Normalise] = Normalise.NONE

    resources: tuple[ResourceWeight, ...] = setting(
        (ResourceWeight(CPU), ResourceWeight(MEMORY)),
        "cpu and memory unless set; weights must be 1",
        empty_is_unset=True,
    )

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        seen: set[str] = set()
        for number, resource in enumerate(parsed.values.get("resources", ())):
            node = parsed.entries["resources"].items()[number]
            if resource.name in seen:
                node.error(f"the resource {resource.name[:100]} is listed twice")
            if resource.weight != 1:
                node.error("the weight must be 1")
            seen.add(resource.name)

    def signature(self, pod: Pod) -> Hashable:
        return pod.requests

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not any(pod.requests.of(resource.name) for resource in self.resources):
            return None
        shares = self._fractions(view, pod, rows)
        spread = _deviation_of_two(*shares) if len(shares) == 2 else _deviation(shares, len(view.pod_count[rows]))
        return ((1 - spread) * MAX_SCORE).astype(np.int64)

    def _fractions(self, view: View, pod: Pod, rows: Rows) -> list[Floats]:
        """Requested over allocatable, at most 1, per resource; NaN where a node does not have the resource."""
        fractions = []
        for resource in self.resources:
            amounts = allocatable_and_requested(view, pod, resource.name, rows, nonzero=False)
            if amounts is not None:
                allocatable, requested = amounts
                fraction = np.minimum(requested / np.maximum(allocatable, 1), 1.0)
                if not allocatable.all():
                    fraction[allocatable == 0] = np.nan
                fractions.append(fraction)
        return fractions


def _deviation_of_two(one: Floats, other: Floats) -> Floats:
    """Half the distance; 0 where a node has only one of the two."""
    spread = np.abs((one - other) / 2)
    spread[np.isnan(spread)] = 0.0
    return spread


def _deviation(shares: list[Floats], count: int) -> Floats:
    """The standard deviation over the resources that a node has, summed in the same order as in kube-scheduler."""
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
