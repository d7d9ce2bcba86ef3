"""Calendar windows: recurring times in which pods may be moved, or must not be.

A window begins whenever its cron schedule says so, in its time zone, and lasts for its duration. Schedules are those of a
CronJob: five fields (minute, hour, day of month, month, day of week) with `*`, lists, ranges, steps and English names, or a
macro such as `@daily`. As there, a day must match either of the two day fields if both are restricted. A time that daylight
saving skips is taken an hour later, and one that it repeats is its first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
ANY = ("*", "?")
UTC_NAME = "UTC"


class Field(NamedTuple):
    """One field of a schedule: its name, its range, and the names that may stand for numbers from the range's start on."""

    name: str
    first: int
    last: int
    words: tuple[str, ...] = ()


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of week", 0, 6, WEEKDAYS),
)
LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of each month


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed schedule. `any_day` and `any_weekday`: the field does not restrict the day."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def matches_day(self, day: date) -> bool:
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if day.month not in self.months:
            return False
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday

    def latest(self, now: float, zone: tzinfo, not_before: float) -> float | None:
        """The latest time of the schedule that is not after `now`; None if that is before `not_before`."""
        day, first = (datetime.fromtimestamp(at, zone).date() for at in (now, not_before))
        while day >= first:
            if self.matches_day(day):
                found = next((at for at in self._times(day, zone) if at <= now), None)
                if found is not None:
                    return found if found >= not_before else None
            day -= timedelta(days=1)
        return None

    def _times(self, day: date, zone: tzinfo) -> Iterator[float]:
        """Latest first."""
        for hour in reversed(self.hours):
            for minute in reversed(self.minutes):
                yield datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp()


@dataclass(frozen=True, slots=True)
class Window:
    """In this window pods may be moved, or with `allowed=False` must not; `duration` is in seconds.

    Raises ValueError with what is wrong with the schedule, the duration or the time zone.
    """

    cron: str
    duration: float
    zone: str = UTC_NAME
    allowed: bool = True

    def __post_init__(self) -> None:
        parse_cron(self.cron)
        time_zone(self.zone)
        if not 0 < self.duration <= 366 * 86_400:
            raise ValueError(f"duration ({self.duration:g} s) must be above 0 and at most a year")

    def contains(self, now: float) -> bool:
        earliest = now - self.duration
        start = parse_cron(self.cron).latest(now, time_zone(self.zone), earliest)
        return start is not None and earliest < start

    def __str__(self) -> str:
        """For reasons and messages."""
        return f"{self.cron!r} ({self.zone})"


def window_refusal(windows: Sequence[Window], now: float) -> str:
    """Why no pod may be moved at this time, empty if pods may; a window that forbids it has precedence."""
    forbidding = next((each for each in windows if not each.allowed and each.contains(now)), None)
    if forbidding is not None:
        return f"the window {forbidding} forbids moves"
    allowing = [each for each in windows if each.allowed]
    if allowing and not any(each.contains(now) for each in allowing):
        return "no window that allows moves is open"
    return ""


@cache
def time_zone(name: str) -> tzinfo:
    """By its IANA name; UTC needs no time zone database."""
    if name in ("UTC", "Etc/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}") from None


@cache
def parse_cron(text: str) -> Cron:
    """Raises ValueError with the field that is wrong."""
    parts = MACROS.get(text.strip().lower(), text).split()
    if len(parts) != len(FIELDS):
        raise ValueError(f"schedule {text!r} has {len(parts)} fields instead of {len(FIELDS)}")
    minutes, hours, days, months, weekdays = (_numbers(part, field) for part, field in zip(parts, FIELDS, strict=True))
    any_day, any_weekday = (part.removesuffix("/1") in ANY for part in (parts[2], parts[4]))
    if any_weekday and all(day > LONGEST[month - 1] for day in days for month in months):
        raise ValueError(f"schedule {text!r} never fires: none of its months has such a day")
    return Cron(tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, any_day, any_weekday)


def _numbers(text: str, field: Field) -> frozenset[int]:
    try:
        return frozenset(number for part in text.split(",") for number in _range(part, field))
    except ValueError as error:
        raise ValueError(f"{field.name} {text!r}: {error}") from None


def _range(text: str, field: Field) -> Iterator[int]:
    """`*`, `a`, `a-b`, each with a step after a slash; `a/step` goes on to the end."""
    span, slash, step_text = text.partition("/")
    start_text, dash, end_text = span.partition("-")
    if span in ANY:
        start, end = field.first, field.last
    else:
        start = _number(start_text, field)
        end = _number(end_text, field) if dash else field.last if slash else start
    step = int(step_text) if step_text.isascii() and step_text.isdigit() else 0 if slash else 1
    if step < 1:
        raise ValueError(f"{step_text!r} is no step")
    if start > end:
        raise ValueError(f"{span} ends before it begins")
    return (number % 7 if field.words is WEEKDAYS else number for number in range(start, end + 1, step))


def _number(text: str, field: Field) -> int:
    """A number or name; Sunday may be 7, too."""
    if text.lower() in field.words:
        return field.first + field.words.index(text.lower())
    number = int(text) if text.isascii() and text.isdigit() else -1
    last = 7 if field.words is WEEKDAYS else field.last
    if not field.first <= number <= last:
        raise ValueError(f"{text!r} is not within {field.first}-{last}")
    return number
