"""Decides how every part of every source is looked at once, and what is said of those that fail; whose values are missing
is left to `coverage`.

Each part is asked as a source of its own, so that each query's failure is told under its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from trimtab.apps.doctor.finding import Area, Finding, problem, warning, well
from trimtab.config.own.settings import MetricsServerSettings, PrometheusSettings, SourceSettings
from trimtab.config.problem import printable
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.node import Node
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Reading, Statistic, Subject
from trimtab.sources.contract import Scrape, SourceError
from trimtab.sources.opening import opened
from trimtab.sources.prometheus.questions import questions
from trimtab.sources.prometheus.source import Unusable

SLACK = 5.0  # beyond what a source allows itself
Measured = tuple[str, Subject]
Get = Callable[[str], Awaitable[tuple[int, bytes]]]


class Look(NamedTuple):
    """One part of a source, its settings as a source of its own, and what came of asking it."""

    source: str
    subject: str
    settings: SourceSettings
    scrape: Scrape = Scrape()
    error: SourceError | None = None

    def readings(self) -> Iterator[Reading]:
        """Without those that nothing depends on."""
        wanted = answers(self.settings)
        return (each for each in self.scrape.readings if not wanted or (each.resource, each.subject) in wanted)

    @property
    def matched_nobody(self) -> bool:
        """There are series, and none of them could be used."""
        return isinstance(self.error, Unusable)


def parted(settings: SourceSettings) -> list[tuple[str, SourceSettings]]:
    """Each question of a source as a source that asks this one alone."""
    if not isinstance(settings, PrometheusSettings):
        return [(settings.name, settings)]
    built = [(metric.value, replace(settings, metrics=(metric,), queries=())) for metric in settings.metrics]
    own = [(printable(query.name), replace(settings, metrics=(), queries=(query,))) for query in settings.queries]
    return [(f"{settings.name}/{name}", one) for name, one in (*built, *own)]


def answers(settings: SourceSettings) -> frozenset[Measured]:
    """What a source is meant to measure; nothing for one that says so only in its answers."""
    match settings:
        case PrometheusSettings():
            asked = [question.ways[0] for question in questions(settings) if not question.extra]
            return frozenset((way.resource, way.subject) for way in asked if way.statistic is Statistic.LATEST)
        case MetricsServerSettings():
            return frozenset((resource, subject) for resource in (CPU, MEMORY) for subject in Subject)
    return frozenset()


async def look(
    sources: Iterable[SourceSettings], nodes: Sequence[Node], get: Get, now: Callable[[], float]
) -> list[Look]:
    """All parts of all sources at once."""
    parts = [(source.name, subject, part) for source in sources for subject, part in parted(source)]
    return await asyncio.gather(*(_look(Look(*each), nodes, get, now) for each in parts))


async def _look(asked: Look, nodes: Sequence[Node], get: Get, now: Callable[[], float]) -> Look:
    try:
        source = opened(asked.settings, lambda: nodes, get, now)
    except SourceError as error:
        return asked._replace(error=error)
    patience = getattr(asked.settings, "timeout", SLACK) + SLACK
    try:
        async with asyncio.timeout(patience):
            return asked._replace(scrape=await source.read())
    except SourceError as error:
        return asked._replace(error=error)
    except TimeoutError:
        return asked._replace(error=SourceError(f"no answer within {patience:g} s", "see whether it is overloaded"))
    except Exception as error:  # one source in trouble keeps no other from being looked at
        return asked._replace(error=SourceError(f"fault of our own ({type(error).__name__})", "report it"))
    finally:
        await source.close()


def told(looks: Sequence[Look], nodes_known: bool, load: LoadSettings, now: float) -> Iterator[Finding]:
    """What is to be said of each source; of one that fails altogether, once."""
    for name in dict.fromkeys(each.source for each in looks):
        mine = [each for each in looks if each.source == name]
        errors = {str(each.error) for each in mine}
        if len(mine) > 1 and len(errors) == 1 and mine[0].error is not None and not mine[0].matched_nobody:
            yield _failed(name, mine[0].error)
            continue
        for each in mine:
            yield from _part(each, nodes_known, load, now)


def _failed(subject: str, error: SourceError) -> Finding:
    return problem(Area.SOURCE, subject, printable(error.problem), printable(error.remedy))


def _part(each: Look, nodes_known: bool, load: LoadSettings, now: float) -> Iterator[Finding]:
    if each.matched_nobody and not nodes_known:
        yield warning(Area.SOURCE, each.subject, "answers, but which nodes are meant cannot be told", "see nodes")
    elif each.error is not None:
        yield _failed(each.subject, each.error)
    yield from (_failed(part, error) for part, error in each.scrape.failures)
    for reading in each.readings():
        yield _answered(each, reading, load, now)


def _answered(each: Look, reading: Reading, load: LoadSettings, now: float) -> Finding:
    many = f"{reading.resource} of {len(reading.names)} {reading.subject}"
    if not reading.names:
        return well(Area.SOURCE, each.subject, many)
    newest, oldest = now - max(reading.measured), now - min(reading.measured)
    if newest > load.fresh:
        says, remedy = f"{many}, but even the newest sample is {newest:.0f} s old", "see whether they are still scraped"
        return warning(Area.SOURCE, each.subject, says, f"{remedy}, or raise load.freshFor ({load.fresh:g} s)")
    return well(Area.SOURCE, each.subject, f"{many}, {max(newest, 0):.0f} to {max(oldest, 0):.0f} s old")
