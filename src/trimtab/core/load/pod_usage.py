"""One resource of pods and of nodes as columns: what is known of each pod, what it counts for, and the sums by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from trimtab.core.load.array_table import ArrayTable, Bools, Floats, Index

SUMMED = ("level", "spread", "unsure", "lack", "off", "claimed")

Contribution = tuple[float, float, float, float, float, float, float]  # those, and what is shown


class PodUsage(ArrayTable):
    """By slot. What is known of the pod: asked, estimated, sampled, usual (over the last hour). What it counts for: `level`
    and `spread` (mean and variance of what it uses), `lack` and `unsure` (what is not shown yet, and its variance), `off`
    (what is shown of who leaves), `claimed` (by a sample of its own, of who stays) and `shown`."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {
        "request": 0.0, "limit": 0.0, "estimate": 0.0, "deviation": 0.0, "sample": np.nan, "sampled": np.nan,
        "window": 0.0, "source": -1, "learnt": False, "usual": np.nan, "varies": np.nan, "level": 0.0, "spread": 0.0,
        "unsure": 0.0, "lack": 0.0, "off": 0.0, "claimed": 0.0, "shown": 0.0,
    }  # fmt: skip

    def __init__(self, slots: int) -> None:
        self.request: Floats = np.zeros(slots)
        self.limit: Floats = np.zeros(slots)
        self.estimate: Floats = np.zeros(slots)
        self.deviation: Floats = np.zeros(slots)
        self.sample: Floats = np.full(slots, np.nan)
        self.sampled: Floats = np.full(slots, np.nan)
        self.window: Floats = np.zeros(slots)
        self.source: Index = np.full(slots, -1, dtype=np.intp)
        self.learnt: Bools = np.zeros(slots, dtype=np.bool_)
        self.usual: Floats = np.full(slots, np.nan)
        self.varies: Floats = np.full(slots, np.nan)
        self.level: Floats = np.zeros(slots)
        self.spread: Floats = np.zeros(slots)
        self.unsure: Floats = np.zeros(slots)
        self.lack: Floats = np.zeros(slots)
        self.off: Floats = np.zeros(slots)
        self.claimed: Floats = np.zeros(slots)
        self.shown: Floats = np.zeros(slots)

    def expected(self, slots: Index) -> Floats:
        """What these pods come to once a sample shows all of them, and none of those that leave."""
        return np.asarray(self.shown[slots] + self.lack[slots] - self.off[slots])

    def expected_of(self, slot: int) -> float:
        """The same for one."""
        return self.shown.item(slot) + self.lack.item(slot) - self.off.item(slot)

    def release(self, slot: int) -> None:
        """Nothing was measured of who comes next; the rest is written when it does."""
        self.sampled[slot] = self.usual[slot] = np.nan
        self.learnt[slot] = False

    def set_contribution(self, slot: int, counted: Contribution) -> None:
        self.level[slot], self.spread[slot], self.unsure[slot], self.lack[slot] = counted[:4]
        self.off[slot], self.claimed[slot], self.shown[slot] = counted[4:]

    def contribution(self, slot: int) -> Contribution:
        return (
            self.level.item(slot),
            self.spread.item(slot),
            self.unsure.item(slot),
            self.lack.item(slot),
            self.off.item(slot),
            self.claimed.item(slot),
            self.shown.item(slot),
        )


class NodeTotals(ArrayTable):
    """By row: sums of what pods count for, and `off` what has gone; what the node uses `beside` its pods, as of the sample
    that was `weighed`; which part of what they are taken to use pods without a sample can have (`scale`); and whether the
    node is `fed`, which is to say that its pods are measured."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {
        "level": 0.0, "spread": 0.0, "unsure": 0.0, "lack": 0.0, "off": 0.0, "claimed": 0.0, "beside": np.nan,
        "weighed": np.nan, "scale": 1.0, "fed": False,
    }  # fmt: skip

    def __init__(self, rows: int) -> None:
        self.level: Floats = np.zeros(rows)
        self.spread: Floats = np.zeros(rows)
        self.unsure: Floats = np.zeros(rows)
        self.lack: Floats = np.zeros(rows)
        self.off: Floats = np.zeros(rows)
        self.claimed: Floats = np.zeros(rows)
        self.beside: Floats = np.full(rows, np.nan)
        self.weighed: Floats = np.full(rows, np.nan)
        self.scale: Floats = np.ones(rows)
        self.fed: Bools = np.zeros(rows, dtype=np.bool_)

    def add(self, row: int, counted: Contribution, sign: float) -> None:
        self.level[row] += sign * counted[0]
        self.spread[row] += sign * counted[1]
        self.unsure[row] += sign * counted[2]
        self.lack[row] += sign * counted[3]
        self.off[row] += sign * counted[4]
        self.claimed[row] += sign * counted[5]
