"""Measured load as columns: what each node uses, what its pods will use, and whether that can still be believed.

Missing is never zero: a node without a sample, or with one that is too old, has NaN, and every comparison with it fails.
Node columns follow the cluster's rows and pod columns its slots; `Cluster` says who comes, goes and moves. All answers are
in the units of requests: thousandths of a core, bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.pod import Pod
from trimtab.core.model.sample import Reading, Statistic, Subject, Unit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Cells(Protocol):
    """One amount per row."""

    @property
    def array(self) -> NDArray[np.int64]: ...


class Rows(Protocol):
    """Whoever knows which node stands in which row, and what the machine has."""

    row: dict[str, int]

    @property
    def has(self) -> Mapping[str, Cells]: ...

    def __len__(self) -> int: ...


class LoadColumns:
    """Everything measured. Plugins read it through `View.load`; only `Cluster` and the engine write it."""

    def __init__(self, settings: LoadSettings | None = None) -> None:
        self.settings = settings if settings is not None else LoadSettings()
        self.now = -math.inf

    # --- facts

    def read(self, readings: Sequence[Reading], at: float, rows: Rows) -> Counter[str]:
        """Take a scrape in; returns how many numbers were not believed, by reason."""
        raise NotImplementedError

    def fail(self, source: str, at: float) -> None:
        """The source does not answer: nothing of it is believed until it does."""
        raise NotImplementedError

    def refill(self, readings: Sequence[Reading], at: float, rows: Rows) -> Counter[str]:
        """Take history in, oldest first: rings, snapshots and sums, never the latest value."""
        raise NotImplementedError

    def age(self, at: float) -> bool:
        """Let time pass; whether anything is trusted less for it."""
        raise NotImplementedError

    # --- rows and slots, kept in step by Cluster

    def open_row(self, row: int) -> None: ...

    def close_row(self, row: int, last: int) -> None:
        """The node in this row has gone, and the one in the last row has taken its place."""

    def came(self, slot: int, pod: Pod, row: int) -> None:
        """A pod takes a place (row -1: on a node nobody has seen): estimated until a sample contains it."""

    def altered(self, slot: int, pod: Pod) -> None:
        """The same pod, on its way out perhaps: then its share is taken off at once."""

    def left(self, slot: int) -> None:
        """It has gone: what it used is taken off until the next sample shows that it has."""

    # --- what plugins read: one cell per row, NaN where nothing is to be believed

    def trust(self, resource: str) -> Floats:
        """1 while fresh, a half while getting on, 0 once stale, absent, or its source has failed."""
        raise NotImplementedError

    def latest(self, resource: str) -> Floats:
        """The newest sample of each node, as it was measured."""
        raise NotImplementedError

    def pending(self, resource: str) -> Floats:
        """What the newest sample does not show yet: estimates of pods not in it, less what left since. Never NaN."""
        raise NotImplementedError

    def expected(self, resource: str) -> Floats:
        """`latest` + `pending`, not below 0: what the node will be seen to use once everything is in a sample."""
        raise NotImplementedError

    def average(self, resource: str, seconds: float) -> Floats:
        """Mean of the node's samples of the last `seconds` (at most 30 minutes)."""
        raise NotImplementedError

    def mean(self, resource: str) -> Floats:
        """Mean over `settings.window`, or what the source itself gave as such."""
        raise NotImplementedError

    def deviation(self, resource: str) -> Floats:
        """Standard deviation over `settings.window`, or what the source gave; NaN with fewer than two samples."""
        raise NotImplementedError

    def percentile(self, resource: str, percent: int, seconds: int) -> Floats:
        """Exact percentile (50, 90, 95, 99) over 300, 600 or 1800 seconds."""
        raise NotImplementedError

    def peak(self, resource: str, seconds: int) -> Floats:
        """The highest five-minute mean within 3600 or 86400 seconds."""
        raise NotImplementedError

    def forecast(self, resource: str) -> tuple[Floats, Floats]:
        """Mean and variance of the sum that each node's pods will come to: hour's means and variances of pods that are
        seen, estimates of those that are not, and what the node uses beside its pods. Where pods are not measured the
        node's own figures stand in (`stand_in`)."""
        raise NotImplementedError

    def stand_in(self, resource: str) -> Bools:
        """Nodes whose forecast rests on node metrics alone."""
        raise NotImplementedError

    def estimate(self, pod: Pod, resource: str) -> tuple[float, float, str]:
        """What a pod nobody has seen yet will use: mean, standard deviation, and the rule that knew it."""
        raise NotImplementedError

    def custom(self, name: str) -> Floats:
        """The newest value of a metric of the user's own (`Unit.RAW`), NaN where it is not to be believed."""
        raise NotImplementedError

    @property
    def placed(self) -> Floats:
        """By slot: when each pod took its place, as far as known."""
        raise NotImplementedError

    @property
    def sampled(self) -> Floats:
        """By slot: when the newest sample that contains the pod was measured; NaN for none."""
        raise NotImplementedError

    def copy(self) -> LoadColumns:
        raise NotImplementedError


__all__ = ["Bools", "Floats", "LoadColumns", "Rows", "Statistic", "Subject", "Unit"]
