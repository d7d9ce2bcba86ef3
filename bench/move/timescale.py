"""Simulated minutes in real seconds: the one factor that all times of `make bench-move` are divided by.

Intervals, windows and ages of both reschedulers, the scrapes of Prometheus, and the start of a pod are divided by it. What
the control plane itself needs, a tenth of a second to place a pod, is not: it counts `speed` times as long.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimeScale:
    """How many simulated seconds pass in a real one."""

    speed: float

    def real(self, seconds: float) -> float:
        """These simulated seconds in real ones."""
        return seconds / self.speed

    def duration(self, seconds: float) -> str:
        """The same as text that Prometheus, the descheduler and Trimtab read, at least a second."""
        return f"{max(round(self.real(seconds)), 1)}s"
