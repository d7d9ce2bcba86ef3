"""The latest measurement of each node with its age and trust; statistics over time and estimates come on top of it.

Missing is never zero: a node without a sample, or with one that is too old, has NaN, and every comparison with it fails.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.model.sample import Sample

Floats = NDArray[np.float64]

FRESH = 120.0  # seconds until a sample counts for half
STALE = 300.0  # seconds until it counts for nothing


class Rows(Protocol):
    """Whoever knows which node stands in which row."""

    row: dict[str, int]

    def __len__(self) -> int: ...


class LoadColumns:
    """Per resource and node: value and time of the newest sample."""

    def __init__(self) -> None:
        self.now = -math.inf
        self.latest: dict[str, dict[str, Sample]] = {}

    def read(self, samples: tuple[Sample, ...], at: float) -> int:
        """Take samples in; returns how many were refused as nonsense."""
        self.now = max(self.now, at)
        refused = 0
        for sample in samples:
            if not math.isfinite(sample.value) or sample.value < 0 or not math.isfinite(sample.measured):
                refused += 1
            elif not sample.pod:
                held = self.latest.setdefault(sample.resource, {})
                if sample.node not in held or held[sample.node].measured <= sample.measured:
                    held[sample.node] = sample
        return refused

    def age(self, at: float) -> bool:
        """Let time pass; whether any sample is trusted less for it."""
        samples = [sample for held in self.latest.values() for sample in held.values()]
        before = [self.trust(sample) for sample in samples]
        self.now = max(self.now, at)
        return before != [self.trust(sample) for sample in samples]

    def forget(self, node: str) -> None:
        for held in self.latest.values():
            held.pop(node, None)

    def trust(self, sample: Sample) -> float:
        """1 while fresh, a half while getting on, 0 once stale or from the future by as much."""
        age = abs(self.now - sample.measured)
        return 1.0 if age <= FRESH else 0.5 if age <= STALE else 0.0

    def used(self, resource: str, rows: Rows) -> Floats:
        column = np.full(len(rows), np.nan)
        for node, sample in self.latest.get(resource, {}).items():
            row = rows.row.get(node)
            if row is not None and self.trust(sample) > 0:
                column[row] = sample.value
        return column

    def copy(self) -> LoadColumns:
        twin = LoadColumns()
        twin.now, twin.latest = self.now, {key: held.copy() for key, held in self.latest.items()}
        return twin
