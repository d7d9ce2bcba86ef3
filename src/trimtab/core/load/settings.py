"""How long a measurement is believed, which spans statistics cover, how unseen pods are estimated: a plain value."""

from __future__ import annotations

from dataclasses import dataclass

RULES = ("siblings", "cluster", "koordinator", "trimaran", "volcano", "requests")


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Seconds and shares; `estimates` are tried in this order until one knows the pod.

    fresh, stale: until a sample counts for half, and for nothing. window: the span of a node's mean and deviation.
    most_missing: where a larger share of nodes has no trusted data, the whole picture is not believed (by the doctor now).
    """

    fresh: float = 120.0
    stale: float = 300.0
    window: float = 900.0
    most_missing: float = 0.5
    estimates: tuple[str, ...] = ("siblings", "cluster", "koordinator")

    def __post_init__(self) -> None:
        if not 0 < self.fresh <= self.stale:
            raise ValueError(f"fresh ({self.fresh:g} s) must be above 0 and at most stale ({self.stale:g} s)")
        if not 0 < self.window <= 3600:
            raise ValueError(f"window ({self.window:g} s) must be above 0 and at most an hour")
        if not 0 < self.most_missing <= 1:
            raise ValueError(f"most_missing ({self.most_missing:g}) must be above 0 and at most 1")
        if unknown := [rule for rule in self.estimates if rule not in RULES]:
            raise ValueError(f"unknown rule {unknown[0]!r}: use {', '.join(RULES)}")
