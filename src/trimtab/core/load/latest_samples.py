"""The newest value of one metric for each node, and how far it is believed; what it means is for others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import numpy as np

from trimtab.core.load.array_table import ArrayTable, Bools, Floats, Index
from trimtab.core.load.settings import LoadSettings

NO_SOURCE = -1


class LatestSamples(ArrayTable):
    """By row: value, when it was measured, the span it speaks for, and the number of its source. A clock that is ahead is
    not believed: a sample was `measured` when it was read, at the latest; `stamped` is what its source says.

    `trust` and `believed` (the value, NaN where the trust is 0) are redone by `judge`.
    """

    DEFAULTS: ClassVar[Mapping[str, float]] = {
        "value": np.nan,
        "measured": np.nan,
        "stamped": np.nan,
        "window": 0.0,
        "source": NO_SOURCE,
        "trust": 0.0,
        "believed": np.nan,
    }

    def __init__(self, rows: int) -> None:
        self.value: Floats = np.full(rows, np.nan)
        self.measured: Floats = np.full(rows, np.nan)
        self.stamped: Floats = np.full(rows, np.nan)
        self.window: Floats = np.zeros(rows)
        self.source: Index = np.full(rows, NO_SOURCE, dtype=np.intp)
        self.trust: Floats = np.zeros(rows)
        self.believed: Floats = np.full(rows, np.nan)

    def is_newer(self, rows: Index, stamped: Floats) -> Bools:
        """Which of these samples are newer than what is held and believed: the same sample twice is no news."""
        return ~((self.stamped[rows] >= stamped) & (self.trust[rows] > 0))

    def put(self, rows: Index, values: Floats, stamped: Floats, now: float, window: float, source: int) -> None:
        self.value[rows], self.stamped[rows], self.measured[rows] = values, stamped, np.minimum(stamped, now)
        self.window[rows], self.source[rows] = window, source
        self.trust[rows] = 1.0  # until it is judged: an older one in the same scrape is no news

    def invalidate(self, rows: Index, source: int) -> None:
        """The source had nonsense to say of these: they are missing, as far as it spoke for them."""
        self._clear_rows(rows[self.source[rows] == source])

    def invalidate_source(self, source: int) -> None:
        """The source has answered with nothing: that is not the same as nothing used."""
        self._clear_rows(np.flatnonzero(self.source == source))

    def update_trust(self, now: float, settings: LoadSettings, failed: Collection[int]) -> tuple[bool, bool]:
        """Redo trust by age; whether it changed anywhere, and whether anything was lost or won by it."""
        age = now - self.measured
        trust = 0.5 * (age <= settings.fresh) + 0.5 * (age <= settings.stale)
        if failed:
            trust[np.isin(self.source, list(failed))] = 0.0
        changed = bool((trust != self.trust).any())
        crossed = changed and bool(((trust > 0) != (self.trust > 0)).any())
        self.trust, self.believed = trust, np.where(trust > 0, self.value, np.nan)
        return changed, crossed

    def next_trust_change(self, now: float, settings: LoadSettings) -> float:
        """When age alone will take trust away next."""
        ages = now - self.measured
        limits = np.where(ages <= settings.fresh, settings.fresh, settings.stale)
        waits = (self.measured + limits)[(self.trust > 0) & (ages <= settings.stale)]
        return float(waits.min()) if len(waits) else np.inf

    def _clear_rows(self, rows: Index) -> None:
        self.value[rows] = self.measured[rows] = self.stamped[rows] = np.nan
        self.source[rows] = NO_SOURCE
