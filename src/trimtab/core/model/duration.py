"""Durations: in seconds, and as Go writes them."""

from __future__ import annotations

import re

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
INT64 = (1 << 63) - 1
_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_NANOSECONDS["h"] = 60 * _NANOSECONDS["m"]
_TIMED = re.compile(r"([0-9]{1,20})?(?:\.([0-9]{0,20}))?(ns|us|µs|μs|ms|s|m|h)")


class Duration(float):
    """Seconds, written in configuration files as Go does: `15s`, `1h30m`."""


def format_duration(seconds: float) -> str:
    """A duration as people write it, exact to the nanosecond."""
    for size, unit in ((3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s" if seconds == float(f"{seconds:g}") else f"{round(seconds * 10**9)}ns"


def parse_duration(text: str) -> float | None:
    """Seconds of a Go duration; None if it is invalid, or longer than Go can hold."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0.0
    total, at = 0, 0
    while match := _TIMED.match(unsigned, at):
        whole, fraction, unit = match.groups()
        if not whole and not fraction:
            return None
        scale = 10 ** len(fraction or "")
        total += (int(whole or 0) * scale + int(fraction or 0)) * _NANOSECONDS[unit] // scale
        at = match.end()
    if not at or at != len(unsigned) or total > INT64:
        return None
    return (-total if text[0] == "-" else total) / 10**9
