"""What a check came to, as a plain value with its remedy, and how findings are put in order; the checks are elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

EXAMPLES = 3


class Severity(StrEnum):
    """PROBLEM: something asked for does not work. WARNING: it works, but perhaps not as meant. Worst first."""

    PROBLEM = "problem"
    WARNING = "warning"
    OK = "ok"


class Area(StrEnum):
    """What a check looks at, in the order in which people mend it."""

    SERVER = "API server"
    RIGHTS = "rights"
    CONFIGURATION = "configuration"
    SOURCE = "source"
    NODES = "nodes"
    PODS = "pods"
    PLUGIN = "plugin"
    LABELS = "labels"


class Finding(Struct, frozen=True, omit_defaults=True):
    """One sentence about one subject; `nodes` are all that it concerns, where the sentence names only a few.

    Of pods, which may be very many, there is the `count` and some examples.
    """

    severity: Severity
    area: Area
    subject: str
    says: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    count: int = 0
    pods: tuple[str, ...] = ()


def ok(area: Area, subject: str, says: str, remedy: str = "") -> Finding:
    return Finding(Severity.OK, area, subject, says, remedy)


def warning(area: Area, subject: str, says: str, remedy: str = "") -> Finding:
    return Finding(Severity.WARNING, area, subject, says, remedy)


def problem(area: Area, subject: str, says: str, remedy: str = "") -> Finding:
    return Finding(Severity.PROBLEM, area, subject, says, remedy)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first, then as people would mend them: what comes later often follows from what comes before."""
    severities, areas = list(Severity), list(Area)
    return tuple(sorted(findings, key=lambda each: (severities.index(each.severity), areas.index(each.area))))


def count_by_severity(findings: Iterable[Finding]) -> dict[Severity, int]:
    """How many there are of each severity."""
    found = Counter(each.severity for each in findings)
    return {severity: found[severity] for severity in Severity}


def shorten(items: Sequence[str], count: int = 0) -> str:
    """A few of them, and how many more there are, of these or of so many."""
    shown, more = ", ".join(items[:EXAMPLES]), max(count, len(items)) - EXAMPLES
    return f"{shown} and {more} more" if more > 0 else shown
