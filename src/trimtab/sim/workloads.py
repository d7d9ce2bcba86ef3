"""What pods ask for and what they then use over the day; where they run is left to the scheduler.

A pattern is a plain function of time, in seconds since midnight, that gives the share of the request in use. All chance
is drawn when the pattern is made, so that looking twice shows the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from msgspec import Struct

from trimtab.core.model.resources import CPU, MEMORY, NANOS, ContainerRequests, PodRequests, pod_requests

UsagePattern = Callable[[float], float]

HOUR = 3600.0
DAY = 24 * HOUR
MIB = 1024 * 1024
_NOISE_MINUTES = 97  # minutes until noise repeats; a prime, so that it keeps no step with the hours


class Workload(Struct, frozen=True):
    """One pod to be: its name, its requests (thousandths of a core, bytes), and the shares of them that it uses."""

    name: str
    cpu_request: int
    memory_request: int
    cpu_usage: UsagePattern
    memory_usage: UsagePattern

    @property
    def requests(self) -> PodRequests:
        asked = {CPU: self.cpu_request * (NANOS // 1000), MEMORY: self.memory_request * NANOS}
        return pod_requests([ContainerRequests(asked)])

    def usage(self, now: float) -> dict[str, float]:
        return {CPU: self.cpu_request * self.cpu_usage(now), MEMORY: self.memory_request * self.memory_usage(now)}


def constant(share: float) -> UsagePattern:
    return lambda at: share


def daily_wave(low: float, high: float, peak: float) -> UsagePattern:
    """Once up and down a day, highest at `peak`."""
    return lambda at: low + (high - low) * (1 + math.cos(2 * math.pi * (at - peak) / DAY)) / 2


def ramp(first: float, last: float, begins: float, ends: float) -> UsagePattern:
    """A straight line from one share to another, level before and after."""
    return lambda at: first + (last - first) * min(max((at - begins) / (ends - begins), 0.0), 1.0)


def burst(level: float, begins: float, ends: float, rise: float) -> UsagePattern:
    """Nothing before and after; up to `level` within `rise` seconds, and as fast down again by `ends`."""
    return lambda at: level * min(max(min(at - begins, ends - at) / rise, 0.0), 1.0)


def noisy(pattern: UsagePattern, rng: Random, by: float) -> UsagePattern:
    """The pattern with a new gust each minute, at most `by` of it up or down."""
    factors = [1 + rng.uniform(-by, by) for _ in range(_NOISE_MINUTES)]
    return lambda at: pattern(at) * factors[int(at // 60) % _NOISE_MINUTES]
