"""LoadBalancing: pods leave the fuller nodes of a pool whose nodes are used too unevenly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.setting import PERCENTAGE, check_ranges, setting
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.utilisation import expected_utilisation, highest_first
from trimtab.core.tables import Bools, Floats

SPREAD, DEVIATION = "spread", "deviation"


@dataclass(frozen=True, slots=True)
class LoadBalancing:
    """Nodes without a trusted sample are no part of any pool.

    Uneven pools pay for the disruption: a move has to make the load of the two nodes more even, and nothing else.
    """

    name: ClassVar[str] = "LoadBalancing"

    imbalance_threshold: float = setting(
        20.0,
        "20 unless set: percentage points of imbalance above which pods should leave the fuller nodes",
        **PERCENTAGE,
    )
    measure: str = setting(
        SPREAD,
        "`spread` unless set, between the fullest and the emptiest node: pods leave all nodes above the mean; "
        "`deviation` of a node from the mean: pods leave that node",
        choices=(SPREAD, DEVIATION),
    )
    pool_label: str = setting("", "none unless set: nodes with the same value of this label are compared to each other")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.measure not in (SPREAD, DEVIATION):
            raise ValueError(f"measure must be {SPREAD} or {DEVIATION}")

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        for resource in context.load.limits:
            percent = 100 * expected_utilisation(context.cluster.view, resource)
            for pool in pools(context.cluster.view, self.pool_label):
                yield from self._of_pool(context, resource, percent, pool & ~np.isnan(percent))

    def _of_pool(self, context: StrategyContext, resource: str, percent: Floats, pool: Bools) -> Iterator[Suggestion]:
        if not pool.any():
            return
        mean, lowest = float(percent[pool].mean()), float(percent[pool].min())
        spread = float(percent[pool].max()) - lowest
        too_full = mean if self.measure == SPREAD else mean + self.imbalance_threshold
        if spread <= self.imbalance_threshold:
            return
        for row in highest_first(pool & (percent > too_full), percent):
            reason = f"{resource} at {percent[row]:.0f}%, mean {mean:.0f}%, lowest {lowest:.0f}%"
            yield Suggestion(self.name, context.cluster.view.nodes[row].name, reason, worth=context.cost)


def pools(view: View, label: str) -> Iterator[Bools]:
    """By value of a label, as rows; nodes without it are a pool, too. Without a label there is one pool."""
    if not label:
        yield np.ones(view.count, dtype=np.bool_)
        return
    for value in sorted({node.labels[label] for node in view.nodes if label in node.labels}):
        yield view.matching_label(Requirement(label, "In", (value,)))
    yield view.matching_label(Requirement(label, "DoesNotExist"))
