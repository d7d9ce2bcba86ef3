"""Decides the form of a question to Prometheus; leaves which are asked to `default_queries` and the user.

One query brings the values of all nodes (or pods) and, marked by a label, the times at which they were measured: the times
that Prometheus puts beside values are only those of the question.

Names of nodes and pods never enter a query. What does (labels that all series must have) is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.response import SERIES_KIND_LABEL

TIME, VALUE = "time", "value"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_PLACEHOLDER = re.compile(r"\$(only|and|window)")


@dataclass(frozen=True, slots=True)
class Query:
    """One way to ask; `part` names the part of the source that it serves.

    In built-in ones `$only` stands for matchers, `$and` for the same behind others, `$window` for the span of rates.
    """

    resource: str
    value_expr: str
    time_expr: str
    subject: Subject = Subject.NODES
    unit: Unit = Unit.ABSOLUTE
    statistic: Statistic = Statistic.LATEST
    window: float = 0.0
    scale: float = 1.0
    query_name: str = ""

    @property
    def promql(self) -> str:
        """Values and times at once."""
        return f"{_with_kind(self.value_expr, VALUE)} or {_with_kind(self.time_expr, TIME)}"

    def make_reading(
        self,
        names: tuple[str, ...],
        values: tuple[float, ...],
        measured: tuple[float, ...],
        skipped: tuple[tuple[str, int], ...] = (),
    ) -> Reading:
        return Reading(
            source=self.query_name,
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
class MetricQuery:
    """One part of the source: `ways` to ask, best first. Nothing is amiss where an `extra` has no answer."""

    name: str
    alternatives: tuple[Query, ...]
    remedy: str
    optional: bool = False

    @property
    def subject(self) -> Subject:
        return self.alternatives[0].subject


def _with_kind(expression: str, kind: str) -> str:
    """Lines of its own, so that a comment at the end of a user's query ends with its line."""
    return f'label_replace(\n{expression}\n, "{SERIES_KIND_LABEL}", "{kind}", "", "")'


def quote(text: str) -> str:
    """A text as PromQL reads it back: the same text and nothing else."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def label_matchers(matching: Mapping[str, str]) -> str:
    """What every selector is narrowed down by; SourceError for what is no name of a label."""
    for label in matching:
        if not _LABEL_NAME.fullmatch(label):
            raise SourceError(f"{label[:60]!r} is no name of a label", "use letters, digits and _")
    return ",".join(f"{label}={quote(value)}" for label, value in matching.items())


def render(query: Query, name: str, window: float, matchers: str) -> Query:
    """A built-in way with everything filled in."""
    fill = {"only": matchers, "and": f",{matchers}" if matchers else "", "window": promql_duration(window)}
    value, time = (_PLACEHOLDER.sub(lambda blank: fill[blank[1]], text) for text in (query.value_expr, query.time_expr))
    return replace(
        query,
        value_expr=value,
        time_expr=time,
        window=window if "$window" in query.value_expr else query.window,
        query_name=name,
    )


def promql_duration(seconds: float) -> str:
    """As PromQL writes it."""
    return f"{max(round(seconds * 1000), 1)}ms" if seconds % 1 else f"{seconds:.0f}s"
