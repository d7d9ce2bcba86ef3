"""Decides what a source of measurements must offer and how it fails; leaves where it asks to each source.

A source has parts, one for each question that it asks. A part that fails says so by its name and takes no other with it:
nothing that this part has measured is believed until it answers again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading, Subject

Get = Callable[[str], Awaitable[tuple[int, bytes]]]


class SourceError(Exception):
    """What went wrong, and what to do about it; `passing` if asking again soon may help. Never holds a secret."""

    def __init__(self, problem: str, remedy: str = "", transient: bool = False) -> None:
        super().__init__(f"{problem}: {remedy}" if remedy else problem)
        self.problem, self.remedy, self.transient = problem, remedy, transient


class Failure(NamedTuple):
    """One part that did not answer, or nonsense."""

    query: str
    error: SourceError


class Scrape(NamedTuple):
    """What one look brought; `Reading.source` and `Failure.query` are names out of the source's `parts`."""

    readings: tuple[Reading, ...] = ()
    failures: tuple[Failure, ...] = ()


class HistoryRange(NamedTuple):
    """A stretch of the past: from `since` seconds ago until `until` seconds ago, a value every `step` seconds."""

    subject: Subject
    since: float
    until: float
    step: float


class SourceContext(NamedTuple):
    """What sources may look at besides their own settings.

    nodes: those that are known, asked at every look. get: a path on the API server to status and body.
    now: the wall clock, by which samples are stamped.
    """

    nodes: Callable[[], Iterable[Node]]
    get: Get
    now: Callable[[], float] = time.time


class Source(Protocol):
    """One place to ask."""

    @property
    def name(self) -> str: ...

    @property
    def interval(self) -> float:
        """Seconds between two looks."""

    @property
    def query_names(self) -> tuple[str, ...]:
        """Everything it may answer or fail for; each begins with its name."""

    async def read(self) -> Scrape:
        """Look once, within a bounded time; SourceError where nothing at all could be asked."""

    def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        """What it remembers of these spans, oldest first and a bearable amount at a time; may be nothing."""

    async def close(self) -> None:
        """Let go of connections and files."""


async def no_history() -> AsyncIterator[tuple[Reading, ...]]:
    """What a source without a memory recalls."""
    for each in tuple[tuple[Reading, ...], ...]():
        yield each
