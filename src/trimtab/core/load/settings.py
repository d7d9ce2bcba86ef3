"""Settings of measured load: how long samples are trusted, the statistics window, and how unmeasured pods are estimated."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.model.duration import DAY, HOUR, format_duration
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import ParsedFields, setting

TRACKED = (CPU, MEMORY)  # resources for which the usage of pods is accounted
FRESH, STALE = 120.0, 300.0  # defaults, in seconds
SIBLINGS = "siblings"
RULES = (SIBLINGS, "cluster", "koordinator", "trimaran", "volcano", "requests")


def _ratio_error(value: float) -> str | None:
    return None if 0 < value <= 1 else f"{value:g} is not above 0 and at most 1"


def _rules_error(rules: tuple[str, ...]) -> str | None:
    return None if rules else f"must not be empty: list some of {', '.join(RULES)}"


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Times are in seconds; `estimates` are tried in this order until one applies to the pod.

    fresh, stale: the age above which a sample counts half, and above which it is not trusted at all.
    window: what a node's mean and deviation cover.
    most_missing: above this fraction of nodes without trusted data, the doctor reports all load data as unusable.
    """

    fresh: float = setting(
        FRESH, "2m unless set: how old a sample may be to count in full", name="freshFor", seconds=(1, DAY)
    )
    stale: float = setting(
        STALE,
        "5m unless set: from this age on a sample is ignored; not less than freshFor",
        name="staleAfter",
        seconds=(1, DAY),
    )
    window: float = setting(
        900.0, "15m unless set: the time range of a node's mean and deviation; at most 1h", seconds=(1, HOUR)
    )
    most_missing: float = setting(
        0.5,
        "0.5 unless set: if a larger share of nodes has no data, `trimtab doctor` calls it a "
        "problem; the rescheduler will heed it",
        validate=_ratio_error,
    )
    estimates: tuple[str, ...] = setting(
        ("siblings", "cluster", "koordinator"),
        "how the usage of pods without measurements is estimated, first rule first: siblings, "
        "cluster, koordinator unless set; also trimaran, volcano, requests",
        unique=True,
        validate=_rules_error,
        choices=RULES,
    )

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        fresh = parsed.values.get("fresh", FRESH)
        stale = parsed.values.setdefault("stale", max(STALE, fresh))
        if stale < fresh:
            parsed.at("freshFor", "staleAfter").error(
                f"freshFor ({format_duration(fresh)}) must not be longer than staleAfter ({format_duration(stale)})"
            )

    def __post_init__(self) -> None:
        if not 0 < self.fresh <= self.stale:
            raise ValueError(f"fresh ({self.fresh:g} s) must be above 0 and at most stale ({self.stale:g} s)")
        if not 0 < self.window <= HOUR:
            raise ValueError(f"window ({self.window:g} s) must be above 0 and at most an hour")
        if not 0 < self.most_missing <= 1:
            raise ValueError(f"most_missing ({self.most_missing:g}) must be above 0 and at most 1")
        if unknown := [rule for rule in self.estimates if rule not in RULES]:
            raise ValueError(f"unknown rule {unknown[0]!r}: use {', '.join(RULES)}")
