"""`learned`: gradient boosting predicts what each pod will use in the next hours, as further scenarios.

One model per resource is trained on a sample of pods and past hours, from what was known at that time:

| feature | of the pod, relative to its own scale |
|---|---|
| last hours | the newest snapshot, and those one, two and three hours before |
| season | a day, and a week, before the predicted hour |
| level | mean and standard deviation of the last day |
| horizon | how many hours ahead |

Nothing is kept: each plan trains on the snapshots that it sees, so that the same snapshots give the same forecast, also in
a replay. The sample is bounded, and so is the number of pods that are predicted, the largest ones; the others are taken to go
on as they are. LightGBM is an optional dependency, imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from trimtab.core.load.snapshots import HOURLY
from trimtab.core.rescheduling.forecast import COMING_HOURS, HOURS_A_DAY, Array, Forecast, Snapshots
from trimtab.core.tables import Index

EXTRA = "pip install 'trimtab[learned]'"
MIN_HOURS = HOURS_A_DAY + 6  # of snapshots: a day to look back on, and some hours to learn from
MAX_PODS = 2000  # that are predicted
SAMPLE = 3000  # rows that a model is trained on
ROUNDS = 25
GOLDEN = (5**0.5 - 1) / 2  # its multiples spread evenly, and follow no rhythm of pods or hours
SHARE = 0.5  # of the weight of the recent snapshots, which the predictions take over
PARAMETERS: Mapping[str, object] = {
    "objective": "l2",
    "num_leaves": 15,
    "learning_rate": 0.15,
    "min_data_in_leaf": 20,
    "max_bin": 63,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "seed": 0,
    "verbosity": -1,
}
LAGS, DAY_BEFORE, WEEK_BEFORE = 4, HOURS_A_DAY, 7 * HOURS_A_DAY


@dataclass(frozen=True, slots=True)
class Learned:
    """Adds a scenario for each of the coming hours; nothing with fewer than 30 hours of snapshots."""

    name: ClassVar[str] = "learned"

    def __post_init__(self) -> None:
        lightgbm()

    def forecast(self, snapshots: Snapshots) -> Forecast:
        if snapshots.hour - int(snapshots.times.hourly.min(initial=snapshots.hour)) < MIN_HOURS:
            return Forecast(snapshots.weights)
        further = {name: predicted(snapshots, usage) for name, usage in snapshots.usage.items()}
        weights, recent = snapshots.weights.copy(), len(snapshots.times.recent)
        taken = np.float32(weights[:recent].sum() * SHARE / COMING_HOURS)
        weights[:recent] *= np.float32(1 - SHARE)
        return Forecast(np.append(weights, np.full(COMING_HOURS, taken)), further)


def lightgbm() -> Any:
    """The library; raises ValueError with the remedy where it cannot be used."""
    try:
        return import_module("lightgbm")
    except ImportError:
        raise ValueError(f"the package lightgbm is not installed: run `{EXTRA}`, or write another forecast") from None
    except OSError as error:
        raise ValueError(f"lightgbm cannot be loaded ({error}): install libgomp, or write another forecast") from None


def by_hour(snapshots: Snapshots, usage: Array) -> Array:
    """By pod and hour, the current hour last; NaN where no snapshot was taken.

    The current hour has the newest snapshot, because that is where a prediction starts from.
    """
    recent = len(snapshots.times.recent)
    lines = np.full((len(usage), HOURLY + 1), np.nan, dtype=np.float32)
    place = HOURLY - (snapshots.hour - snapshots.times.hourly)
    lines[:, place[place >= 0]] = usage[:, recent:][:, place >= 0]
    lines[:, HOURLY] = usage[:, 0]
    return lines


def predicted(snapshots: Snapshots, usage: Array) -> Array:
    """By pod and coming hour; what the pod uses now, if it is none of the largest or there is too little to learn from."""
    found = np.repeat(usage[:, :1], COMING_HOURS, axis=1)
    largest = np.sort(np.argsort(-usage.mean(axis=1), kind="stable")[:MAX_PODS])
    lines = by_hour(snapshots, usage[largest])
    scale = np.maximum(np.nanmean(lines, axis=1), np.finfo(np.float32).tiny)
    relative = lines / scale[:, None]
    model = trained(relative)
    if model is not None:
        pods, now = np.arange(len(lines)), np.full(len(lines), HOURLY)
        for ahead in range(1, COMING_HOURS + 1):
            change = model.predict(features(relative, pods, now, ahead), num_threads=1)
            found[largest, ahead - 1] = np.maximum(lines[:, HOURLY] + change * scale, 0.0)
    return found


def trained(relative: Array) -> Any:
    """A model of how usage changes within so many hours; None with too few rows."""
    rows = [sampled(relative, ahead) for ahead in range(1, COMING_HOURS + 1)]
    x = np.concatenate([features(relative, *each, ahead) for ahead, each in enumerate(rows, 1)])
    y = np.concatenate([changes(relative, *each, ahead) for ahead, each in enumerate(rows, 1)])
    known = ~np.isnan(y)
    if known.sum() < SAMPLE // 10:
        return None
    library = lightgbm()
    data = library.Dataset(x[known], y[known], params=dict(PARAMETERS))
    return library.train(dict(PARAMETERS), data, num_boost_round=ROUNDS)


def sampled(relative: Array, ahead: int) -> tuple[Index, Index]:
    """Pods and hours, spread evenly over all that have a day before them and are known `ahead`."""
    pods, hours = relative.shape
    first = int((~np.isnan(relative)).any(axis=0).argmax()) + HOURS_A_DAY
    span = max(hours - 1 - ahead - first, 0)  # the last one is not on the hour
    total, wanted = pods * span, SAMPLE // COMING_HOURS
    chosen = np.arange(total) if total <= wanted else (np.arange(wanted) * GOLDEN % 1.0 * total).astype(np.intp)
    return chosen // max(span, 1), first + chosen % max(span, 1)


def changes(relative: Array, pods: Index, hours: Index, ahead: int) -> Array:
    return np.asarray(relative[pods, hours + ahead] - relative[pods, hours])


def features(relative: Array, pods: Index, hours: Index, ahead: int) -> Array:
    """One row for each pair; NaN where nothing is known, which the model can tell from a value."""
    at = relative[pods, hours]
    columns = [at, *(at - relative[pods, hours - lag] for lag in range(1, LAGS))]
    columns += [_before(relative, pods, hours + ahead - back) - at for back in (DAY_BEFORE, WEEK_BEFORE)]
    day = relative[pods[:, None], hours[:, None] - np.arange(HOURS_A_DAY)]
    columns += [_mean(day) - at, _deviation(day), np.full(len(at), ahead)]
    return np.stack(columns, axis=1).astype(np.float32)


def _before(relative: Array, pods: Index, hours: Index) -> Array:
    return np.where(hours >= 0, relative[pods, np.maximum(hours, 0)], np.float32(np.nan))


def _mean(lines: Array) -> Array:
    return np.asarray(np.where(np.isnan(lines), 0.0, lines).sum(axis=1) / np.maximum((~np.isnan(lines)).sum(axis=1), 1))


def _deviation(lines: Array) -> Array:
    apart = lines - _mean(lines)[:, None]
    return np.sqrt(_mean(apart * apart))
