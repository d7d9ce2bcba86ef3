"""A simulated machine: counters and gauges for the load that a test sets.

Counters are the integral of the load over time, so a rate over any window with a constant load is that load.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

GIB = 1 << 30
# Machines were up before the test: no counter starts at zero, and history can be backfilled.
UPTIME = 30 * 86_400.0


@dataclass(frozen=True)
class Load:
    """Usage outside of pods: fractions of CPU and memory, and of time that tasks waited."""

    cpu: float = 0.0
    memory: float = 0.0
    cpu_waiting: float = 0.0
    memory_waiting: float = 0.0
    io_waiting: float = 0.0


@dataclass(frozen=True)
class Usage:
    """Usage of a container: cores and bytes."""

    cpu: float
    memory: float


Container = tuple[str, str, str]
"""Namespace, pod, container."""


@dataclass(frozen=True)
class MachineReading:
    """The counters and gauges of a machine at one time."""

    at: float
    busy: float = 0.0
    memory: float = 0.0
    cpu_waited: float = 0.0
    memory_waited: float = 0.0
    io_waited: float = 0.0
    pods: tuple[tuple[Container, float, float], ...] = ()


@dataclass
class Machine:
    """One machine: its size, load, containers, and accumulated usage."""

    name: str
    started: float
    cores: int = 8
    memory: float = 16 * GIB
    load: Load = field(default_factory=Load)
    pods: dict[Container, Usage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with counters of a machine that was half busy."""
        self._last = MachineReading(self.started, busy=UPTIME * self.cores / 2)
        self._spent: dict[Container, float] = {}
        self.restarts: Counter[Container] = Counter()

    def reading(self, at: float) -> MachineReading:
        """Advance the counters to this time with the current load."""
        seconds, load = at - self._last.at, self.load
        for key, usage in self.pods.items():
            self._spent[key] = self._spent.get(key, 0.0) + usage.cpu * seconds
        self._last = replace(
            self._last,
            at=at,
            busy=self._last.busy + self._cores_used() * seconds,
            memory=load.memory * self.memory + sum(usage.memory for usage in self.pods.values()),
            cpu_waited=self._last.cpu_waited + load.cpu_waiting * seconds,
            memory_waited=self._last.memory_waited + load.memory_waiting * seconds,
            io_waited=self._last.io_waited + load.io_waiting * seconds,
            pods=tuple((key, self._spent[key], usage.memory) for key, usage in self.pods.items()),
        )
        return self._last

    def restart(self, key: Container) -> None:
        """A new container of the same name, with its counters at zero."""
        self._spent[key] = 0.0
        self.restarts[key] += 1

    def _cores_used(self) -> float:
        """Limited by the number of cores; NaN is passed on."""
        wanted = self.load.cpu * self.cores + sum(usage.cpu for usage in self.pods.values())
        return wanted if math.isnan(wanted) else min(wanted, self.cores)

    def past_readings(self, past: Iterable[tuple[float, float, float]]) -> list[MachineReading]:
        """Readings of a past (seconds ago, CPU share, memory share) that leads up to the last reading.

        Each load held from its moment until the next one, the last until the last reading.
        """
        found, busy, until = [], self._last.busy, self._last.at
        for ago, cpu, memory in sorted(past):
            at = self._last.at - ago
            busy -= cpu * self.cores * (until - at)
            found.append(MachineReading(at, busy, memory * self.memory))
            until = at
        return found[::-1]
