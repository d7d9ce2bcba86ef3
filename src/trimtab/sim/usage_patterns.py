"""Usage patterns: what a pod, or a process outside of Kubernetes, would use over time with unlimited capacity.

Amounts are in millicores or bytes. A pattern is a frozen value; what is random in it depends on the pod's key alone, so any
time can be evaluated, in any order.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from trimtab.core.model.duration import DAY, MINUTE
from trimtab.sim.randomness import Floats, uniforms

Samples = NDArray[np.float32] | Floats  # a trace has millions of them, for which 32 bits are enough


class UsagePattern(Protocol):
    """A pattern of one resource."""

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        """The amount at each of these times, for a pod that started at `started`."""
        ...


class Steady(Struct, frozen=True):
    """The same at all times."""

    level: float

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        return np.full(len(times), self.level)


class Daily(Struct, frozen=True):
    """A sine wave with a period of one day, highest at `peak` (seconds since midnight)."""

    low: float
    high: float
    peak: float

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        return self.low + (self.high - self.low) * (1 + np.cos(2 * np.pi * (times - self.peak) / DAY)) / 2


class Ramp(Struct, frozen=True):
    """Linear from `first` to `last` within `seconds`, constant before and after; begins `delay` after the pod's start."""

    first: float
    last: float
    seconds: float
    delay: float = 0.0

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        progress = np.clip((times - started - self.delay) / self.seconds, 0.0, 1.0)
        return self.first + (self.last - self.first) * progress


class Surge(Struct, frozen=True):
    """Zero before and after; rises to `level` within `rise` seconds, and falls as fast to zero by `ends`."""

    level: float
    begins: float
    ends: float
    rise: float = 1.0

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        return self.level * np.clip(np.minimum(times - self.begins, self.ends - times) / self.rise, 0.0, 1.0)


class Bursty(Struct, frozen=True):
    """Slots of `seconds`, each a burst at `high` with probability `share`, otherwise `low`."""

    low: float
    high: float
    share: float
    seconds: float

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        slots = np.floor_divide(times, self.seconds).astype(np.int64)
        return np.where(uniforms(key, slots) < self.share, self.high, self.low)


class Recorded(Struct, frozen=True):
    """One value for each `step` seconds, from `begins` on (None: from the pod's start); the last one stays.

    `repeat` starts again at the end.
    """

    values: Samples
    step: float
    begins: float | None = None
    repeat: bool = False

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        begins = started if self.begins is None else self.begins
        index = ((times - begins) // self.step).astype(np.intp)
        mode: Literal["wrap", "clip"] = "wrap" if self.repeat else "clip"
        return self.values.take(index, mode=mode).astype(np.float64)


def without_gaps(values: Floats) -> Floats:
    """Each gap (NaN) has the value before it, and one at the beginning the first value, of which there must be one."""
    known = np.flatnonzero(~np.isnan(values))
    latest = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return values.take(known[np.maximum(latest, 0)])


class Noisy(Struct, frozen=True):
    """The pattern times a random factor for each minute, at most `by` above or below 1."""

    pattern: UsagePattern
    by: float

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        minutes = np.floor_divide(times, MINUTE).astype(np.int64)
        factors = 1 + self.by * (2 * uniforms(key + 1 & (1 << 64) - 1, minutes) - 1)
        return self.pattern.amounts(times, started, key) * factors


class Total(Struct, frozen=True):
    """The sum of several patterns."""

    patterns: tuple[UsagePattern, ...]

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        total = np.zeros(len(times))
        for pattern in self.patterns:
            total += pattern.amounts(times, started, key)
        return total
