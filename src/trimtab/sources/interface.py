"""What a source of metrics must implement, and how it reports failures.

A source runs one or more named queries. A query that fails is reported by its name and does not affect the others. Without
an answer its last samples age as usual; after an invalid answer nothing of it is trusted until it succeeds again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading, Subject

Get = Callable[[str], Awaitable[tuple[int, bytes]]]


class SourceError(Exception):
    """What failed and how to fix it, never with a secret in it.

    transient: retrying soon may help. invalid: there was an answer that cannot be true, so what this query said before is
    not trusted either; missing data is not invalid.
    """

    def __init__(self, problem: str, remedy: str = "", transient: bool = False, *, invalid: bool = False) -> None:
        super().__init__(f"{problem}: {remedy}" if remedy else problem)
        self.problem, self.remedy, self.transient, self.invalid = problem, remedy, transient, invalid


class Failure(NamedTuple):
    """A query that failed."""

    query: str
    error: SourceError


class Scrape(NamedTuple):
    """The result of one poll; `Reading.source` and `Failure.query` are taken from the source's `query_names`."""

    readings: tuple[Reading, ...] = ()
    failures: tuple[Failure, ...] = ()


class HistoryRange(NamedTuple):
    """A range of the past: from `since` seconds ago to `until` seconds ago, one value every `step` seconds."""

    subject: Subject
    since: float
    until: float
    step: float


class SourceContext(NamedTuple):
    """What sources may use besides their own settings.

    nodes: the known nodes, called at every poll. get: GET of a path on the API server, returning status and body.
    now: the wall clock, which timestamps of samples refer to.
    """

    nodes: Callable[[], Iterable[Node]]
    get: Get
    now: Callable[[], float] = time.time


class Source(Protocol):
    """One backend that provides metrics."""

    @property
    def name(self) -> str: ...

    @property
    def interval(self) -> float:
        """Seconds between two polls."""

    @property
    def query_names(self) -> tuple[str, ...]:
        """Every query that may return readings or fail; each starts with the source's name."""

    async def read(self) -> Scrape:
        """Poll once, within a bounded time; SourceError if nothing could be read at all, which holds for every query."""

    def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        """Past values of these ranges, oldest first and in chunks of moderate size; may be empty."""

    async def close(self) -> None:
        """Release connections and files."""


async def no_history() -> AsyncIterator[tuple[Reading, ...]]:
    """For sources without past values."""
    for readings in tuple[tuple[Reading, ...], ...]():
        yield readings
