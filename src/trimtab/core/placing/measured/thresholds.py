"""Above which percentage each node is refused, and of which figure, where nodes may say so themselves.

What a node's own word means beside the plugin's arguments is left to the plugin, and so is what is measured. Usually no node
says anything, and then one line holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.change import Change
from trimtab.core.model.node import UsageThresholds
from trimtab.core.placing.contract import Rows
from trimtab.core.placing.measured.changed import Changed

Both = tuple[int, int]  # percent of CPU and memory, 0 for no limit


class Figure(NamedTuple):
    """What is compared: what prod pods use, a percentile (`kind`, over `seconds`), or else what is used now."""

    prod: bool = False
    kind: str = ""
    seconds: float = 0.0


Judge = Callable[[UsageThresholds], tuple[Figure, Both]]
NOTHING_SAID = UsageThresholds()


def limits(view: View, rows: Rows, key: Hashable, judge: Judge) -> Mapping[Figure, Floats]:
    """By figure, the limits of CPU and memory, a line each; infinite where there is none, or another figure counts.

    What is worked out from nodes' own words is kept under the key, which must stand for the judge.
    """
    if not view.columns.customised:
        figure, both = judge(NOTHING_SAID)
        return {figure: np.array([[each or np.inf] for each in both])}
    held = _Held() if view.moved is not None else view.load.worked_out.setdefault(key, _Held())
    held.follow(view, judge)
    return {figure: lines[:, rows] for figure, lines in held.lines.items()}


class _Held:
    """The limits of all rows."""

    __slots__ = ("changed", "lines")

    def __init__(self) -> None:
        self.changed = Changed(Change.ALLOCATABLE)
        self.lines: dict[Figure, Floats] = {}

    def follow(self, view: View, judge: Judge) -> None:
        rows = self.changed.rows(view)
        if rows is None:
            figure, both = judge(NOTHING_SAID)
            each_row = np.array([[float(each or np.inf)] for each in both])
            self.lines = {figure: np.repeat(each_row, view.count, axis=1)}
            rows = [row for row, node in enumerate(view.nodes) if node.thresholds is not None]
        for row in rows:
            for lines in self.lines.values():
                lines[:, row] = np.inf
            figure, both = judge(view.nodes[row].thresholds or NOTHING_SAID)
            if figure not in self.lines:
                self.lines[figure] = np.full((len(both), view.count), np.inf)
            self.lines[figure][:, row] = [each or np.inf for each in both]
