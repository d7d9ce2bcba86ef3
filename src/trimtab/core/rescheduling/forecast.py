"""The forecasters: what the next hours bring, as scenarios by which the objective judges moves, and what each of them counts.

| forecaster | scenarios |
|---|---|
| `snapshots` | the snapshots of the past, as they are: what has happened may happen again |
| `seasonal` | the same, of which those at the coming hours of earlier days count more |

A forecaster is a frozen dataclass without arguments, and a pure function: of the snapshots alone, the same for the same
snapshots. It may add scenarios, which follow the snapshots. Those of other packages, and of extras, are found by `apps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.snapshots import BUCKETS_PER_HOUR, SnapshotTimes
from trimtab.core.tables import Bools

Array = NDArray[np.float32]

HOURS_A_DAY = 24
COMING_HOURS = 3  # how far ahead is looked
SEASONAL_WEIGHT = 4.0  # of an hour that corresponds to a coming one, relative to any other


class Snapshots(NamedTuple):
    """What every pod used at the same times, newest first; gaps are filled, and no value is NaN.

    `usage` is by resource, in millicores and bytes, by pod and snapshot. `weights` are what each snapshot counts as long as
    nobody knows better.
    """

    times: SnapshotTimes
    usage: Mapping[str, Array]
    weights: Array

    @property
    def hour(self) -> int:
        """The number of the hour in which the newest snapshot was taken; -1 if there is none."""
        return int(self.times.recent[0]) // BUCKETS_PER_HOUR if len(self.times.recent) else -1


class Forecast(NamedTuple):
    """What each snapshot counts, and then each further scenario; `further` is by resource, by pod and scenario."""

    weights: Array
    further: Mapping[str, Array] = MappingProxyType({})


@runtime_checkable
class Forecaster(Protocol):
    """Weights should keep their sum, because what a move must gain is in their units."""

    name: ClassVar[str]

    def forecast(self, snapshots: Snapshots) -> Forecast: ...


@dataclass(frozen=True, slots=True)
class BySnapshots:
    """The past as it is."""

    name: ClassVar[str] = "snapshots"

    def forecast(self, snapshots: Snapshots) -> Forecast:
        return Forecast(snapshots.weights)


@dataclass(frozen=True, slots=True)
class Seasonal:
    """Seasonal-naive: hours that correspond to the coming ones count more, on every earlier day of the week that is kept.

    Without such hours, in the first day of a cluster, all count as they would anyway.
    """

    name: ClassVar[str] = "seasonal"

    def forecast(self, snapshots: Snapshots) -> Forecast:
        recent, weights = len(snapshots.times.recent), snapshots.weights.copy()
        hourly = weights[recent:]
        total = hourly.sum()
        hourly[coming_hours(snapshots)] *= np.float32(SEASONAL_WEIGHT)
        if total > 0:
            hourly *= total / hourly.sum()
        return Forecast(weights)


def coming_hours(snapshots: Snapshots) -> Bools:
    """By hourly snapshot: whether it was taken at one of the coming hours of an earlier day."""
    ahead = (snapshots.times.hourly - snapshots.hour) % HOURS_A_DAY
    return np.asarray((ahead >= 1) & (ahead <= COMING_HOURS) & (snapshots.times.hourly < snapshots.hour))


FORECASTERS: Mapping[str, type[Forecaster]] = {each.name: each for each in (BySnapshots, Seasonal)}
