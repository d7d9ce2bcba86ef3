"""`Finding`, the result of a check with its remedy, and how findings are sorted and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

EXAMPLES = 3


class Severity(StrEnum):
    """PROBLEM: something configured does not work. WARNING: it works, but perhaps not as intended. Worst first."""

    PROBLEM = "problem"
    WARNING = "warning"
    OK = "ok"


class Area(StrEnum):
    """What a check is about, in the order in which problems should be fixed."""

    SERVER = "API server"
    RIGHTS = "rights"
    CONFIGURATION = "configuration"
    SOURCE = "source"
    NODES = "nodes"
    PODS = "pods"
    PLUGIN = "plugin"
    LABELS = "labels"
    CACHE = "cache"


class Finding(Struct, frozen=True, omit_defaults=True, rename={"message": "says"}):
    """One sentence about one subject; `nodes` are all that it concerns, also where the sentence names only a few.

    Of pods, which may be very many, there is the `count` and some examples.
    """

    severity: Severity
    area: Area
    subject: str
    message: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    count: int = 0
    pods: tuple[str, ...] = ()


def ok(area: Area, subject: str, message: str, remedy: str = "") -> Finding:
    return Finding(Severity.OK, area, subject, message, remedy)


def warning(area: Area, subject: str, message: str, remedy: str = "") -> Finding:
    return Finding(Severity.WARNING, area, subject, message, remedy)


def problem(area: Area, subject: str, message: str, remedy: str = "") -> Finding:
    return Finding(Severity.PROBLEM, area, subject, message, remedy)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, then by area: later ones often follow from earlier ones."""
    severities, areas = list(Severity), list(Area)
    return tuple(sorted(findings, key=lambda each: (severities.index(each.severity), areas.index(each.area))))


def count_by_severity(findings: Iterable[Finding]) -> dict[Severity, int]:
    """The number of findings of each severity."""
    found = Counter(each.severity for each in findings)
    return {severity: found[severity] for severity in Severity}


def shorten(items: Sequence[str], count: int = 0) -> str:
    """The first few, and how many more there are of `count`, or of these."""
    shown, more = ", ".join(items[:EXAMPLES]), max(count, len(items)) - EXAMPLES
    return f"{shown} and {more} more" if more > 0 else shown
