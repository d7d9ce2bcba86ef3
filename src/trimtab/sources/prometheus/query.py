"""Decides the form of a question to Prometheus; leaves which are asked to `built_in` and the user.

One query brings the values of all nodes (or pods) and, marked by a label, the times at which they were measured: the times
that Prometheus puts beside values are only those of the question.

Names of nodes and pods never enter a query. What does (labels that all series must have) is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.core.model.sample import Reading, Statistic, Subject, Unit
from trimtab.sources.contract import SourceError
from trimtab.sources.prometheus.answers import KIND

TIME, VALUE = "time", "value"
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_BLANK = re.compile(r"\$(only|and|window)")


@dataclass(frozen=True, slots=True)
class Query:
    """One way to ask; `part` names the part of the source that it serves.

    In built-in ones `$only` stands for matchers, `$and` for the same behind others, `$window` for the span of rates.
    """

    resource: str
    value: str
    time: str
    subject: Subject = Subject.NODES
    unit: Unit = Unit.OWN
    statistic: Statistic = Statistic.LATEST
    window: float = 0.0
    scale: float = 1.0
    part: str = ""

    @property
    def text(self) -> str:
        """Values and times at once."""
        return f"{_marked(self.value, VALUE)} or {_marked(self.time, TIME)}"

    def reading(
        self,
        names: tuple[str, ...],
        values: tuple[float, ...],
        measured: tuple[float, ...],
        skipped: tuple[tuple[str, int], ...] = (),
    ) -> Reading:
        return Reading(
            source=self.part,
            resource=self.resource,
            names=names,
            values=values,
            measured=measured,
            subject=self.subject,
            unit=self.unit,
            statistic=self.statistic,
            window=self.window,
            skipped=skipped,
        )


@dataclass(frozen=True, slots=True)
class Question:
    """One part of the source: `ways` to ask, best first. Nothing is amiss where an `extra` has no answer."""

    part: str
    ways: tuple[Query, ...]
    missing: str
    extra: bool = False

    @property
    def subject(self) -> Subject:
        return self.ways[0].subject


def _marked(expression: str, kind: str) -> str:
    """Lines of its own, so that a comment at the end of a user's query ends with its line."""
    return f'label_replace(\n{expression}\n, "{KIND}", "{kind}", "", "")'


def quoted(text: str) -> str:
    """A text as PromQL reads it back: the same text and nothing else."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def matchers(matching: Mapping[str, str]) -> str:
    """What every selector is narrowed down by; SourceError for what is no name of a label."""
    for label in matching:
        if not _LABEL.fullmatch(label):
            raise SourceError(f"{label[:60]!r} is no name of a label", "use letters, digits and _")
    return ",".join(f"{label}={quoted(value)}" for label, value in matching.items())


def ready(way: Query, part: str, window: float, only: str) -> Query:
    """A built-in way with everything filled in."""
    fill = {"only": only, "and": f",{only}" if only else "", "window": span(window)}
    value, time = (_BLANK.sub(lambda blank: fill[blank[1]], text) for text in (way.value, way.time))
    return replace(way, value=value, time=time, window=window if "$window" in way.value else way.window, part=part)


def span(seconds: float) -> str:
    """As PromQL writes it."""
    return f"{max(round(seconds * 1000), 1)}ms" if seconds % 1 else f"{seconds:.0f}s"
