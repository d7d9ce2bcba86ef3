"""The newest sample of one metric per node and how far it is trusted, and since when each node has had its name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

import numpy as np

from trimtab.core.load.settings import LoadSettings
from trimtab.core.tables import ArrayTable, Bools, Floats, Index, column

NO_SOURCE = -1
MAX_DELETED_NAMES = 20_000


class LatestSamples(ArrayTable):
    """By row: the value, when it was sampled, the window it covers, and the id of its source.

    `source_timestamp` is the source's own time; `sampled_at` is never later than when the sample was read, because a
    source's clock may be ahead. `trust` and `trusted_value` (NaN where trust is 0) are set by `update_trust`.
    """

    value: Floats = column(np.nan)
    sampled_at: Floats = column(np.nan)
    source_timestamp: Floats = column(np.nan)
    window: Floats = column(0.0)
    source: Index = column(NO_SOURCE, np.intp)
    trust: Floats = column(0.0)
    trusted_value: Floats = column(np.nan)

    def is_newer(self, rows: Index, timestamps: Floats) -> Bools:
        """Which samples are newer than the trusted ones of these rows."""
        return ~((self.source_timestamp[rows] >= timestamps) & (self.trust[rows] > 0))

    def put(self, rows: Index, values: Floats, timestamps: Floats, now: float, window: float, source: int) -> None:
        self.value[rows], self.source_timestamp[rows] = values, timestamps
        self.sampled_at[rows] = np.minimum(timestamps, now)
        self.window[rows], self.source[rows] = window, source
        self.trust[rows] = 1.0  # until `update_trust`: an older sample in the same scrape must not replace it

    def invalidate(self, rows: Index, source: int) -> None:
        """The source sent invalid values for these rows: what it said of them before no longer holds."""
        self._clear_rows(rows[self.source[rows] == source])

    def update_trust(self, now: float, settings: LoadSettings, failed: Collection[int]) -> tuple[bool, bool]:
        """Recompute trust by age; returns whether it changed anywhere, and whether any row went to or from 0."""
        age = now - self.sampled_at
        trust = 0.5 * (age <= settings.fresh) + 0.5 * (age <= settings.stale)
        if failed:
            trust[np.isin(self.source, list(failed))] = 0.0
        changed = bool((trust != self.trust).any())
        crossed = changed and bool(((trust > 0) != (self.trust > 0)).any())
        self.trust, self.trusted_value = trust, np.where(trust > 0, self.value, np.nan)
        return changed, crossed

    def next_trust_change(self, now: float, settings: LoadSettings) -> float:
        """When age alone will next lower the trust of a row."""
        ages = now - self.sampled_at
        limits = np.where(ages <= settings.fresh, settings.fresh, settings.stale)
        times = (self.sampled_at + limits)[(self.trust > 0) & (ages <= settings.stale)]
        return float(times.min()) if len(times) else np.inf

    def _clear_rows(self, rows: Index) -> None:
        self.value[rows] = self.sampled_at[rows] = self.source_timestamp[rows] = np.nan
        self.source[rows] = NO_SOURCE


class NodeNameHistory(ArrayTable):
    """By row: when a deleted node of the same name was last there (-inf: never seen); older samples are rejected."""

    name_free_since: Floats = column(-np.inf)

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self._deleted_at: dict[str, float] = {}

    def node_added(self, row: int, name: str) -> None:
        self.name_free_since[row] = self._deleted_at.get(name, -np.inf)

    def node_removed(self, name: str, now: float) -> None:
        self._deleted_at.pop(name, None)
        self._deleted_at[name] = now
        if len(self._deleted_at) > MAX_DELETED_NAMES:
            del self._deleted_at[next(iter(self._deleted_at))]

    def copy(self) -> Self:
        copy = super().copy()
        copy._deleted_at = self._deleted_at.copy()
        return copy
