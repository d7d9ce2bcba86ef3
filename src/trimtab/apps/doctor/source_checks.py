"""Probes every query of every metric source once, and finds the plugins that lack a metric.

Each query is sent as a source of its own, so that its failure is reported under its name. Which metrics a plugin reads is
found by calling it on a sample node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from trimtab.apps.doctor.finding import Area, Finding, ok, problem, warning
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import printable
from trimtab.config.trimtab.plugin_sources import take_turns
from trimtab.config.trimtab.settings import MetricsServerSettings, PrometheusSettings, SourceSettings
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS, Filter, Score
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Statistic, Subject
from trimtab.core.model.resources import CPU, MEMORY, PodRequests
from trimtab.sources.interface import Scrape, SourceError
from trimtab.sources.prometheus.queries import plan_queries
from trimtab.sources.prometheus.source import NoSeries, UnusableResponse
from trimtab.sources.registry import open_source

SLACK = 5.0  # seconds beyond a source's own timeout
MetricKey = tuple[str, Subject]
Get = Callable[[str], Awaitable[tuple[int, bytes]]]
_RESOURCES = ((CPU, 1000), (MEMORY, 1 << 30), ("pods", 110))
OF_PODS = ("forecast", "pod_usage", "system_usage")  # methods of LoadView whose values are made of samples of pods


class Probe(NamedTuple):
    """One query of a source, its settings as a source of its own, and the result."""

    source: str
    subject: str
    settings: SourceSettings
    scrape: Scrape = Scrape()
    error: SourceError | None = None

    def readings(self) -> Iterator[Reading]:
        """Without those that are only read to compute others."""
        wanted = expected_metrics(self.settings)
        return (each for each in self.scrape.readings if not wanted or (each.resource, each.subject) in wanted)

    @property
    def matched_no_node(self) -> bool:
        """There are series, and none of them matches a node."""
        return isinstance(self.error, UnusableResponse)


def split_by_query(settings: SourceSettings) -> list[tuple[str, SourceSettings]]:
    """Each query of a source as a source that sends this one alone."""
    if not isinstance(settings, PrometheusSettings):
        return [(settings.name, settings)]
    built = [(metric.value, replace(settings, metrics=(metric,), queries=())) for metric in settings.metrics]
    own = [(printable(query.name), replace(settings, metrics=(), queries=(query,))) for query in settings.queries]
    return [(f"{settings.name}/{name}", one) for name, one in (*built, *own)]


def expected_metrics(settings: SourceSettings) -> frozenset[MetricKey]:
    """The metrics that a source should return; empty if only its responses tell."""
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
    """All queries of all sources, concurrently."""
    parts = [(source.name, subject, part) for source in sources for subject, part in split_by_query(source)]
    return await asyncio.gather(*(_probe(Probe(*each), nodes, get, now) for each in parts))


async def _probe(probe: Probe, nodes: Sequence[Node], get: Get, now: Callable[[], float]) -> Probe:
    try:
        source = open_source(probe.settings, lambda: nodes, get, now)
    except SourceError as error:
        return probe._replace(error=error)
    timeout = getattr(probe.settings, "timeout", SLACK) + SLACK
    try:
        async with asyncio.timeout(timeout):
            return probe._replace(scrape=await source.read())
    except SourceError as error:
        return probe._replace(error=error)
    except TimeoutError:
        return probe._replace(error=SourceError(f"no answer within {timeout:g} s", "check whether it is overloaded"))
    except Exception as error:  # one failing source must not stop the others
        return probe._replace(error=SourceError(f"internal error ({type(error).__name__})", "report it"))
    finally:
        await source.close()


def check_sources(
    probes: Sequence[Probe], nodes_known: bool, load: LoadSettings, now: float, pods_read: bool = True
) -> Iterator[Finding]:
    """One finding per query; a source that fails as a whole is reported once.

    pods_read: whether a plugin reads metrics of pods. If none does, their absence is no problem.
    """
    for name in dict.fromkeys(each.source for each in probes):
        mine = [each for each in probes if each.source == name]
        errors = {str(each.error) for each in mine}
        if len(mine) > 1 and len(errors) == 1 and mine[0].error is not None and not mine[0].matched_no_node:
            yield _failed(name, mine[0].error)
            continue
        for each in mine:
            unread = {} if pods_read else dict(_missing_pods(each))
            yield from (_unread_pods(subject, error) for subject, error in unread.items())
            if each.error is None or each.subject not in unread:
                failures = tuple(failure for failure in each.scrape.failures if failure.query not in unread)
                rest = each._replace(scrape=each.scrape._replace(failures=failures))
                yield from _probe_findings(rest, nodes_known, load, now)


def _missing_pods(probe: Probe) -> Iterator[tuple[str, SourceError]]:
    """The queries about pods alone that found nothing."""
    if isinstance(probe.error, NoSeries) and {Subject.PODS} == {of for _, of in expected_metrics(probe.settings)}:
        yield probe.subject, probe.error
    if isinstance(probe.settings, MetricsServerSettings):
        pods = f"{probe.source}/{Subject.PODS}"
        yield from (each for each in probe.scrape.failures if each.query == pods)


def _unread_pods(subject: str, error: SourceError) -> Finding:
    message = f"{error.problem}: no plugin reads metrics of pods, and new ones are estimated by requests and limits"
    remedy = f"{error.remedy}, or leave it so (a Prometheus is then not asked with `metrics: [nodeCPU, nodeMemory]`)"
    return warning(Area.SOURCE, subject, printable(message), printable(remedy))


def _failed(subject: str, error: SourceError) -> Finding:
    return problem(Area.SOURCE, subject, printable(error.problem), printable(error.remedy))


def _probe_findings(each: Probe, nodes_known: bool, load: LoadSettings, now: float) -> Iterator[Finding]:
    if each.matched_no_node and not nodes_known:
        message = "answers, but its series cannot be matched: nodes are not known"
        yield warning(Area.SOURCE, each.subject, message, "see the findings about nodes")
    elif each.error is not None:
        yield _failed(each.subject, each.error)
    yield from (_failed(part, error) for part, error in each.scrape.failures)
    for reading in each.readings():
        yield _reading_finding(each, reading, load, now)


def _reading_finding(each: Probe, reading: Reading, load: LoadSettings, now: float) -> Finding:
    summary = f"{reading.resource} of {len(reading.names)} {reading.subject}"
    if not reading.names:
        return ok(Area.SOURCE, each.subject, summary)
    newest, oldest = now - max(reading.measured), now - min(reading.measured)
    if newest > load.fresh:
        message = f"{summary}, but even the newest sample is {newest:.0f} s old"
        remedy = f"check whether they are still scraped, or raise load.freshFor ({load.fresh:g} s)"
        return warning(Area.SOURCE, each.subject, message, remedy)
    return ok(Area.SOURCE, each.subject, f"{summary}, {max(newest, 0):.0f} to {max(oldest, 0):.0f} s old")


# --- plugins


class RecordingLoad:
    """A load view that records which metrics are read, and whether any of them is made of samples of pods."""

    def __init__(self, load: Any, metrics: dict[str, None]) -> None:
        self._load, self._metrics = load, metrics
        self.reads_pods = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._load, name)
        if not callable(found):
            return found

        def recorded(*arguments: Any) -> Any:
            self.reads_pods |= name in OF_PODS
            if arguments and isinstance(arguments[0], str):
                self._metrics[arguments[0]] = None
            return found(*arguments)

        return recorded


def metrics_read(profile: Profile) -> dict[str, tuple[str, ...]]:
    """The metrics that each load-aware plugin of a profile reads."""
    return {name: _metrics_of(those)[0] for name, those in _load_aware_plugins(profile).items()}


def reads_pods(profile: Profile) -> bool:
    """Whether a plugin of a profile reads metrics of pods, other than to estimate the pod to be scheduled."""
    return any(_metrics_of(those)[1] for those in _load_aware_plugins(profile).values())


def _load_aware_plugins(profile: Profile) -> dict[str, list[object]]:
    load_aware = [name for name, changes in profile.depends_on.items() if changes & int(Change.LOAD)]
    plugins: dict[str, list[object]] = {name: [] for name in sorted(load_aware)}
    for plugin in (*profile.filters, *(score.plugin for score in profile.scores)):
        plugins.get(plugin_name(plugin), []).append(plugin)
    return plugins


def _metrics_of(plugins: Iterable[object]) -> tuple[tuple[str, ...], bool]:
    """Which metrics they read, and whether they read any of pods."""
    metrics: dict[str, None] = {}
    cluster = _sample_cluster()
    load = RecordingLoad(cluster.load, metrics)
    cluster.load = load  # type: ignore[assignment]
    view, pod = cluster.view, Pod("u", "n", "p", requests=PodRequests(_RESOURCES[:2], _RESOURCES[:2]))
    for plugin in plugins:
        with suppress(Exception):  # a plugin that fails on the sample is reported where it really runs
            if isinstance(plugin, Filter):
                plugin.filter(view, pod, ALL_ROWS)
            if isinstance(plugin, Score):
                plugin.score(view, pod, ALL_ROWS)
    return tuple(sorted(metrics)) or (CPU, MEMORY), load.reads_pods


def _sample_cluster() -> Cluster:
    """One node with samples; without them plugins would use requests."""
    cluster = Cluster()
    cluster.upsert_node(Node("n", allocatable=_RESOURCES, capacity=_RESOURCES))
    readings = [Reading("s", name, ("n",), (amount / 2,), (1.0,)) for name, amount in _RESOURCES[:2]]
    cluster.ingest_samples(tuple(readings), 1.0)
    return cluster


def check_plugins(
    configuration: Configuration, sources: Mapping[str, tuple[str, ...]], known: Mapping[str, int]
) -> Iterator[Finding]:
    """Metrics that a plugin reads and no node has. Without any source a note on the configuration says so."""
    for profile in configuration.settings.profiles if configuration.trimtab.sources else ():
        missing: dict[str, list[str]] = {}
        plugins = metrics_read(profile)
        for name, resources in plugins.items():
            for resource in (each for each in resources if not known.get(each)):
                missing.setdefault(resource, []).append(name)
        turns = [name for name in take_turns(profile) if all(not known.get(each) for each in plugins.get(name, ()))]
        for resource, names in missing.items():
            yield _missing_metric(profile.name, names, resource, sources.get(resource, ()), turns)
        if plugins and not missing:
            yield ok(Area.PLUGIN, profile.name, f"all metrics are available for {', '.join(plugins)}")


def _missing_metric(
    profile: str, plugins: list[str], resource: str, sources: tuple[str, ...], turns: Collection[str]
) -> Finding:
    """turns: the plugins that, without any metric, let nodes take turns."""
    fallback = "nodes take turns" if {*plugins} <= {*turns} else "pods are scored by requests"
    who = f"{', '.join(plugins)} of profile {profile}"
    if sources:
        message = f"{who} reads {resource} of nodes, and {', '.join(sources)} returns it for none: {fallback}"
        return problem(Area.PLUGIN, f"{profile} {resource}", message, "see the findings about the source")
    message = f"{who} reads {resource} of nodes, and no source returns it: {fallback}"
    remedy = "add it to a source (metrics or queries), or disable the plugin"
    return problem(Area.PLUGIN, f"{profile} {resource}", message, remedy)
