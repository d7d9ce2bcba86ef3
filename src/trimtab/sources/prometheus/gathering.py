"""Decides how the series of one answer become one reading: whose, how much, when; leaves plausibility to the core.

A value without a time of its own is missing, and so is one of two values for one name: nobody can say which is right.
Whatever is left out is counted by reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from trimtab.core.model.sample import Reading
from trimtab.sources.prometheus.answers import KIND, PodLabels
from trimtab.sources.prometheus.identity import Nobody
from trimtab.sources.prometheus.query import TIME, Query

NOT_A_NUMBER, INFINITE, NO_TIME, FUTURE, UNNAMED = "not a number", "infinite", "no time", "future", "unnamed"
AHEAD = 60.0  # how far the clock of Prometheus may be before ours

Named = Callable[[Any], str | Nobody | None]


def gather(query: Query, series: Iterable[Any], named: Named, now: float, skipped: Counter[str]) -> Reading:
    """The reading; `named` says whose each series is, None for one that cannot be anybody's."""
    values, times, twice = _columns(query.scale, series, named, skipped)
    names: list[str] = []
    amounts: list[float] = []
    measured: list[float] = []
    for name, amount in values.items():
        at = times.get(name, 0.0)
        if amount == amount and 0.0 < at <= now + AHEAD and name not in twice:
            names.append(name)
            amounts.append(amount)
            measured.append(at)
        elif name in twice:
            skipped[Nobody.AMBIGUOUS.value] += 1
        elif amount == amount:
            skipped[FUTURE if at > 0.0 else NO_TIME] += 1
    return query.reading(tuple(names), tuple(amounts), tuple(measured), tuple(sorted(skipped.items())))


def _columns(
    scale: float, series: Iterable[Any], named: Named, skipped: Counter[str]
) -> tuple[dict[str, float], dict[str, float], set[str]]:
    """Values and times by name, NaN for what is no number; and the names that stand in either twice."""
    values: dict[str, float] = {}
    times: dict[str, float] = {}
    twice: set[str] = set()
    for each in series:
        metric = each.metric
        is_time = (metric.trimtab_of if isinstance(metric, PodLabels) else metric.get(KIND)) == TIME
        name = named(metric)
        if not isinstance(name, str):
            if not is_time:
                skipped[UNNAMED if name is None else name.value] += 1
            continue
        column = times if is_time else values
        if name in column:
            twice.add(name)
        elif is_time:
            times[name] = number_of(each.value.value, 1.0, Counter())
        else:
            values[name] = number_of(each.value.value, scale, skipped)
    return values, times, twice


def number_of(text: str, scale: float, skipped: Counter[str]) -> float:
    """The number in the unit that is wanted; NaN, and a reason counted, for what is none."""
    try:
        number = float(text) * scale
    except ValueError:
        number = math.nan
    if number - number == 0.0 and "_" not in text:  # Python alone takes 1_000 for a number
        return number
    skipped[INFINITE if math.isinf(number) else NOT_A_NUMBER] += 1
    return math.nan


def pod_of(labels: PodLabels) -> str | None:
    """namespace/name; None where that would not be a name, or two pods could share it."""
    namespace, pod = labels.namespace, labels.pod
    if not namespace or not pod or "/" in namespace or "/" in pod:
        return None
    return f"{namespace}/{pod}"
