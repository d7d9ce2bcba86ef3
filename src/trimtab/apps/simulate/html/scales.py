"""Axes of the report's charts: round numbers, times of day, and where they are in a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from trimtab.core.model.duration import DAY, HOUR

TIME_STEPS = (1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


class Scale(Struct, frozen=True):
    """From values to pixels."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.first + (self.last - self.first) * share


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About so many round numbers from low to high."""
    rough = (high - low or 1.0) / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def time_ticks(begins: float, ends: float, count: int = 8) -> Iterator[tuple[float, str]]:
    """Times and their labels; those of a day on the hour, later days with their number."""
    step = next((each for each in TIME_STEPS if (ends - begins) / each <= count), TIME_STEPS[-1])
    at = math.ceil(begins / step) * step
    while at <= ends:
        yield at, time_label(at, ends - begins)
        at += step


def time_label(at: float, span: float) -> str:
    day, seconds = divmod(round(at), int(DAY))
    clock = f"{seconds // 3600:02}:{seconds % 3600 // 60:02}" + (f":{seconds % 60:02}" if span < HOUR / 2 else "")
    return clock if day == 0 and span <= DAY else f"day {day + 1} {clock}"


def duration_text(seconds: float) -> str:
    """As people say it: 2 d 3 h, 15 min, 30 s."""
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count:.0f} {unit}")
    return " ".join(parts) or "0 s"


def tick_text(value: float) -> str:
    """A share on an axis, as percent."""
    return f"{value * 100:.4g} %"
