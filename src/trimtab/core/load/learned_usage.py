"""What measured pods teach about pods that nobody has measured: by kin, and by the cluster; who is measured is for others.

All is learnt as a share of what a pod asks for: of its limit, else of its request, else as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from trimtab.core.load.array_table import ArrayTable, Bools, Floats, Index

MAX_SAMPLES = 2_000
MIN_SAMPLES = 20  # first samples, before they are taken for the rule
MAX_RATIO = 4.0  # of what was asked for: above that a pod says more of its own request than of others
OF_LIMIT, OF_REQUEST, PLAIN = 0, 1, 2


class SiblingUsage(ArrayTable):
    """One resource, by number of kin: how many were measured at last, mean and variance of their share."""

    DEFAULTS: ClassVar[Mapping[str, float]] = {"count": 0.0, "mean": np.nan, "variance": np.nan}

    def __init__(self, size: int) -> None:
        self.count: Floats = np.zeros(size)
        self.mean: Floats = np.full(size, np.nan)
        self.variance: Floats = np.full(size, np.nan)

    def learn(self, kin: Index, shares: Floats, variances: Floats) -> None:
        """The variance of one of them is their mean one, and that of their means. Who has no member left is remembered."""
        own = kin >= 0
        kin, shares, variances = kin[own], shares[own], variances[own]
        count = np.bincount(kin, minlength=self.size).astype(np.float64)
        some = np.maximum(count, 1.0)
        mean = np.bincount(kin, shares, minlength=self.size) / some
        within = np.bincount(kin, variances, minlength=self.size) / some
        between = np.bincount(kin, np.square(shares - mean[kin]), minlength=self.size) / some
        there = count > 0
        self.count = np.where(there, count, self.count)
        self.mean = np.where(there, mean, self.mean)
        self.variance = np.where(there, within + between, self.variance)


class ClusterRatios:
    """One resource: first samples of the last 2,000 pods as shares of limit, of request, and as they are."""

    def __init__(self) -> None:
        self.ratios: Floats = np.full((3, MAX_SAMPLES), np.nan)
        self.seen = [0, 0, 0]
        self.known = [(np.nan, np.nan)] * 3

    def learn(self, used: Floats, limits: Floats, requests: Floats) -> None:
        plain = (limits <= 0) & (requests <= 0)
        for kind, there, asked in ((OF_LIMIT, limits > 0, limits), (OF_REQUEST, requests > 0, requests)):
            self._push(kind, np.minimum(used[there] / asked[there], MAX_RATIO))
        self._push(PLAIN, used[plain])

    def _push(self, kind: int, shares: Floats) -> None:
        if not len(shares):
            return
        newest = shares[-MAX_SAMPLES:]
        places = (self.seen[kind] + np.arange(len(newest))) % MAX_SAMPLES
        self.ratios[kind, places] = newest
        self.seen[kind] += len(newest)
        held = self.ratios[kind, : min(self.seen[kind], MAX_SAMPLES)]
        if len(held) >= MIN_SAMPLES:
            self.known[kind] = float(held.mean()), float(held.std())

    def copy(self) -> ClusterRatios:
        twin = ClusterRatios()
        twin.ratios, twin.seen, twin.known = self.ratios.copy(), self.seen.copy(), self.known.copy()
        return twin


def ratio_basis(limits: Floats, requests: Floats) -> tuple[Floats, Index]:
    """What shares are taken of, and which kind of share that is."""
    limited: Bools = limits > 0
    asking: Bools = requests > 0
    whole = np.where(limited, limits, np.where(asking, requests, 1.0))
    return whole, np.where(limited, OF_LIMIT, np.where(asking, OF_REQUEST, PLAIN))
