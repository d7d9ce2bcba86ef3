"""HotSpot: pods leave nodes that stay hot, or are forecast to become so, and not those that cool down by themselves.

A node is forecast by the sum of what its pods used at the same times, and not pod by pod: peaks that do not coincide do not
add up. The peak is the highest of two predictions:

- mean + N * standard deviation of the recent snapshots; while they fall, the same around the line that they follow, at the
  time of the next snapshot;
- the highest usage at this hour and the next on earlier days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.model.duration import HOUR
from trimtab.core.model.setting import check_ranges, setting
from trimtab.core.rescheduling.strategies.interface import StrategyContext, Suggestion
from trimtab.core.rescheduling.strategies.utilisation import highest_first
from trimtab.core.tables import Bools, Floats

MIN_TREND = 3  # snapshots that a line is drawn through
HOURS_A_DAY = 24


@dataclass(frozen=True, slots=True)
class HotSpot:
    """Usage is compared to the limits; nodes without a trusted sample are left alone."""

    name: ClassVar[str] = "HotSpot"
    reads_snapshots: ClassVar[bool] = True

    hits: int = setting(
        3, "3 unless set: for how many snapshots of five minutes a node must have been hot", between=(1, 6)
    )
    sigmas: float = setting(
        2.0, "2 unless set: how many standard deviations above the mean a peak is forecast", between=(0, 10)
    )
    metric: str = setting("", "none unless set: a custom metric of nodes, such as their share of stalled time")
    metric_threshold: float = setting(
        0.2, "0.2 unless set: the value of `metric` above which a node is hot", between=(0, 1e18)
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        if self.metric:
            yield from self._by_metric(context)
        for resource in context.load.limits:
            yield from self._by_usage(context, resource)

    def _by_metric(self, context: StrategyContext) -> Iterator[Suggestion]:
        view = context.cluster.view
        values = view.load.custom(self.metric)
        for row in highest_first(values > self.metric_threshold, values):
            reason = f"{self.metric} at {values[row]:.3g}, above {self.metric_threshold:g}"
            yield Suggestion(self.name, view.nodes[row].name, reason)

    def _by_usage(self, context: StrategyContext, resource: str) -> Iterator[Suggestion]:
        view, limit = context.cluster.view, context.load.limits[resource]
        recent, by_hour = snapshots_of(context, resource)
        if recent.shape[1] < self.hits:
            return
        stayed = np.asarray((recent[:, : self.hits] > limit).all(axis=1))
        peak, falling = np.fmax(self.peak(recent), by_hour), is_falling(recent)
        hot = ((peak > limit) | (stayed & ~falling)) & (view.load.trust(resource) > 0)
        for row in highest_first(hot, peak):
            since = f"above {limit:.0%} in {self.hits} snapshots, " if stayed[row] else ""
            yield Suggestion(
                self.name, view.nodes[row].name, f"{resource} {since}forecast {peak[row]:.0%}, limit {limit:.0%}"
            )

    def peak(self, recent: Floats) -> Floats:
        """By row: the forecast by recent snapshots, newest first."""
        n_sigma = recent.mean(axis=1) + self.sigmas * recent.std(axis=1)
        if recent.shape[1] < MIN_TREND:
            return np.asarray(n_sigma)
        following, residuals = _line(recent)
        around_line = following + self.sigmas * residuals.std(axis=1)
        return np.asarray(np.where(is_falling(recent), np.minimum(around_line, n_sigma), n_sigma))


def snapshots_of(context: StrategyContext, resource: str) -> tuple[Floats, Floats]:
    """Utilisation by row: of the recent snapshots, newest first; and the highest at this time of day, NaN for none."""
    load, view = context.load, context.cluster.view
    usable = view.usable(resource)
    usage = load.usage[load.resources.index(resource)] / np.where(usable > 0, usable, np.inf)[:, None]
    recent, hourly = load.times
    ago = int(context.now // HOUR) - hourly
    same_hours = (ago >= HOURS_A_DAY - 1) & np.isin(ago % HOURS_A_DAY, (0, HOURS_A_DAY - 1))
    earlier = usage[:, len(recent) : len(load.times)][:, same_hours]
    return usage[:, : len(recent)], earlier.max(axis=1) if earlier.shape[1] else np.full(len(usage), np.nan)


def is_falling(recent: Floats) -> Bools:
    """Whether the line through a row's snapshots falls; with too few of them none does."""
    if recent.shape[1] < MIN_TREND:
        return np.zeros(len(recent), dtype=np.bool_)
    following, _ = _line(recent)
    return np.asarray(following < recent.mean(axis=1))


def _line(recent: Floats) -> tuple[Floats, Floats]:
    """By least squares: where the line will be at the next snapshot, and how far each snapshot is from it."""
    times = -np.arange(recent.shape[1], dtype=np.float64)
    times -= times.mean()
    mean = recent.mean(axis=1)
    slope = (recent - mean[:, None]) @ times / (times @ times)
    return mean + slope * (times[0] + 1.0), recent - mean[:, None] - slope[:, None] * times
