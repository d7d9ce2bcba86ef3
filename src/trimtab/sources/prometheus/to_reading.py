"""Decides how the series of one answer become one reading: whose, how much, when; leaves plausibility to the core.

A value without a time of its own is missing, and so is one of two values for one name: nobody can say which is right.
Whatever is left out is counted by reason.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trimtab.core.model.readings import Reading
from trimtab.sources.prometheus.node_matching import MatchFailure, NodeMatcher
from trimtab.sources.prometheus.queries import TIME, Query
from trimtab.sources.prometheus.response import SERIES_KIND_LABEL

NOT_A_NUMBER, INFINITE, NO_TIME, FUTURE, UNNAMED = "not a number", "infinite", "no time", "future", "unnamed"
_INFINITE = re.compile(r"[+-]?inf(inity)?|[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)
MAX_CLOCK_SKEW = 60.0  # how far the clock of Prometheus may be before ours

Owner = str | MatchFailure | None
SeriesList = Sequence[Any]


class SeriesOwners(NamedTuple):
    """Who it is that each series speaks of, None for nobody that could exist; and which series hold times."""

    names: Callable[[SeriesList], list[Owner]]
    is_time: Callable[[Any], bool]


def to_reading(query: Query, series: SeriesList, owners: SeriesOwners, now: float, skipped: Counter[str]) -> Reading:
    """The reading; what is left out of it is counted."""
    told, timed = _split_times(series, owners.is_time)
    told_of, timed_of = owners.names(told), owners.names(timed)
    numbers = [parse_number(each.value.value, query.scale) for each in told]
    times = dict(zip(timed_of, (parse_number(each.value.value, 1.0) for each in timed), strict=True))
    twice = _duplicates(told_of) | _duplicates(timed_of)
    names: list[str] = []
    amounts: list[float] = []
    measured: list[float] = []
    latest = now + MAX_CLOCK_SKEW
    for place, (name, number) in enumerate(zip(told_of, numbers, strict=True)):
        at = times.get(name, 0.0)
        if number == number and 0.0 < at <= latest and isinstance(name, str) and name not in twice:
            names.append(name)
            amounts.append(number)
            measured.append(at)
        else:
            skipped[_reason(name, name in twice, told[place].value.value, number, at)] += 1
    return query.make_reading(tuple(names), tuple(amounts), tuple(measured), tuple(sorted(skipped.items())))


def _split_times(series: SeriesList, is_time: Callable[[Any], bool]) -> tuple[SeriesList, SeriesList]:
    marks = [is_time(each) for each in series]
    told = [each for each, mark in zip(series, marks, strict=True) if not mark]
    return told, [each for each, mark in zip(series, marks, strict=True) if mark]


def _duplicates(names: list[Owner]) -> frozenset[Owner]:
    """Looked for only where there must be some."""
    if len(set(names)) == len(names):
        return frozenset()
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def parse_number(text: str, scale: float) -> float:
    """The number in the unit that is wanted; NaN for what is none, or has no end."""
    try:
        number = float(text) * scale
    except ValueError:
        return math.nan
    # Python alone takes 1_000 for a number.
    return number if number - number == 0.0 and "_" not in text else math.nan


def _reason(name: Owner, twice: bool, text: str, number: float, at: float) -> str:
    """Why a value is left out."""
    if not isinstance(name, str):
        return UNNAMED if name is None else name.value
    if twice:
        return MatchFailure.AMBIGUOUS.value
    if number == number:
        return FUTURE if at > 0.0 else NO_TIME
    return INFINITE if _INFINITE.fullmatch(text) else NOT_A_NUMBER


def _pod_names(series: SeriesList) -> list[Owner]:
    """namespace/name, unless that would be no name or one that two pods could share."""
    names = [f"{each.metric.namespace}/{each.metric.pod}" for each in series]
    return [name if name.count("/") == 1 and name[0] != "/" != name[-1] else None for name in names]


POD_OWNERS = SeriesOwners(_pod_names, lambda each: each.metric.trimtab_of == TIME)


def node_owners(matcher: NodeMatcher) -> SeriesOwners:
    """The owners of series about nodes."""
    node_of = matcher.match
    return SeriesOwners(
        lambda series: [node_of(each.metric) for each in series],
        lambda each: each.metric.get(SERIES_KIND_LABEL) == TIME,
    )
