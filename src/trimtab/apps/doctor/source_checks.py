"""Decides how every part of every source is looked at once, and what is said of those that fail; whose values are missing
is left to `coverage`.

Each part is asked as a source of its own, so that each query's failure is told under its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from trimtab.apps.doctor.finding import Area, Finding, ok, problem, warning
from trimtab.config.diagnostics import printable
from trimtab.config.trimtab.settings import MetricsServerSettings, PrometheusSettings, SourceSettings
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading, Statistic, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sources.interface import Scrape, SourceError
from trimtab.sources.prometheus.queries import plan_queries
from trimtab.sources.prometheus.source import UnusableResponse
from trimtab.sources.registry import open_source

SLACK = 5.0  # beyond what a source allows itself
MetricKey = tuple[str, Subject]
Get = Callable[[str], Awaitable[tuple[int, bytes]]]


class Probe(NamedTuple):
    """One part of a source, its settings as a source of its own, and what came of asking it."""

    source: str
    subject: str
    settings: SourceSettings
    scrape: Scrape = Scrape()
    error: SourceError | None = None

    def readings(self) -> Iterator[Reading]:
        """Without those that nothing depends on."""
        wanted = expected_metrics(self.settings)
        return (each for each in self.scrape.readings if not wanted or (each.resource, each.subject) in wanted)

    @property
    def matched_no_node(self) -> bool:
        """There are series, and none of them could be used."""
        return isinstance(self.error, UnusableResponse)


def split_by_query(settings: SourceSettings) -> list[tuple[str, SourceSettings]]:
    """Each question of a source as a source that asks this one alone."""
    if not isinstance(settings, PrometheusSettings):
        return [(settings.name, settings)]
    built = [(metric.value, replace(settings, metrics=(metric,), queries=())) for metric in settings.metrics]
    own = [(printable(query.name), replace(settings, metrics=(), queries=(query,))) for query in settings.queries]
    return [(f"{settings.name}/{name}", one) for name, one in (*built, *own)]


def expected_metrics(settings: SourceSettings) -> frozenset[MetricKey]:
    """What a source is meant to measure; nothing for one that says so only in its answers."""
    match settings:
        case PrometheusSettings():
            asked = [question.alternatives[0] for question in plan_queries(settings) if not question.optional]
            return frozenset((way.resource, way.subject) for way in asked if way.statistic is Statistic.LATEST)
        case MetricsServerSettings():
            return frozenset((resource, subject) for resource in (CPU, MEMORY) for subject in Subject)
    return frozenset()


async def probe_all(
    sources: Iterable[SourceSettings], nodes: Sequence[Node], get: Get, now: Callable[[], float]
) -> list[Probe]:
    """All parts of all sources at once."""
    parts = [(source.name, subject, part) for source in sources for subject, part in split_by_query(source)]
    return await asyncio.gather(*(_probe(Probe(*each), nodes, get, now) for each in parts))


async def _probe(probe: Probe, nodes: Sequence[Node], get: Get, now: Callable[[], float]) -> Probe:
    try:
        source = open_source(probe.settings, lambda: nodes, get, now)
    except SourceError as error:
        return probe._replace(error=error)
    patience = getattr(probe.settings, "timeout", SLACK) + SLACK
    try:
        async with asyncio.timeout(patience):
            return probe._replace(scrape=await source.read())
    except SourceError as error:
        return probe._replace(error=error)
    except TimeoutError:
        return probe._replace(error=SourceError(f"no answer within {patience:g} s", "see whether it is overloaded"))
    except Exception as error:  # one source in trouble keeps no other from being looked at
        return probe._replace(error=SourceError(f"fault of our own ({type(error).__name__})", "report it"))
    finally:
        await source.close()


def check_sources(probes: Sequence[Probe], nodes_known: bool, load: LoadSettings, now: float) -> Iterator[Finding]:
    """What is to be said of each source; of one that fails altogether, once."""
    for name in dict.fromkeys(each.source for each in probes):
        mine = [each for each in probes if each.source == name]
        errors = {str(each.error) for each in mine}
        if len(mine) > 1 and len(errors) == 1 and mine[0].error is not None and not mine[0].matched_no_node:
            yield _failed(name, mine[0].error)
            continue
        for each in mine:
            yield from _probe_findings(each, nodes_known, load, now)


def _failed(subject: str, error: SourceError) -> Finding:
    return problem(Area.SOURCE, subject, printable(error.problem), printable(error.remedy))


def _probe_findings(each: Probe, nodes_known: bool, load: LoadSettings, now: float) -> Iterator[Finding]:
    if each.matched_no_node and not nodes_known:
        yield warning(Area.SOURCE, each.subject, "answers, but which nodes are meant cannot be told", "see nodes")
    elif each.error is not None:
        yield _failed(each.subject, each.error)
    yield from (_failed(part, error) for part, error in each.scrape.failures)
    for reading in each.readings():
        yield _reading_finding(each, reading, load, now)


def _reading_finding(each: Probe, reading: Reading, load: LoadSettings, now: float) -> Finding:
    many = f"{reading.resource} of {len(reading.names)} {reading.subject}"
    if not reading.names:
        return ok(Area.SOURCE, each.subject, many)
    newest, oldest = now - max(reading.measured), now - min(reading.measured)
    if newest > load.fresh:
        says, remedy = f"{many}, but even the newest sample is {newest:.0f} s old", "see whether they are still scraped"
        return warning(Area.SOURCE, each.subject, says, f"{remedy}, or raise load.freshFor ({load.fresh:g} s)")
    return ok(Area.SOURCE, each.subject, f"{many}, {max(newest, 0):.0f} to {max(oldest, 0):.0f} s old")
