"""Runs all checks of `trimtab doctor`, concurrently where they do not depend on each other, and sorts the findings.

API server ─▶ (reachable) permissions │ nodes ─▶ sources ─▶ coverage of nodes and pods ─▶ plugins and label rules
                                            └─▶ (labels are written) a dry run of each label
           └─▶ (not) sources alone: their series cannot be matched to nodes
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trimtab.apps.doctor import coverage, label_checks, rbac_checks, source_checks
from trimtab.apps.doctor.apiserver_checks import (
    ApiServer,
    NodeListing,
    check_apiserver,
    list_nodes,
    list_running_pods,
)
from trimtab.apps.doctor.finding import Area, Finding, by_severity, ok, problem, warning
from trimtab.apps.doctor.source_checks import MetricKey, Probe, expected_metrics
from trimtab.apps.process import MAX_LIST_BYTES, READ_TIMEOUT
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import Info
from trimtab.config.trimtab.labeller import combined_configuration
from trimtab.config.trimtab.plugin_sources import describe_sources
from trimtab.config.trimtab.settings import SourceSettings
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Subject
from trimtab.kube.credentials import Credentials
from trimtab.kube.transport import AiohttpTransport
from trimtab.sources.interface import SourceError
from trimtab.wire.requests import Request


class DoctorRun(NamedTuple):
    """What to check: a configuration, and the account whose permissions count (default: our own)."""

    configuration: Configuration
    account: str = ""
    on_progress: Callable[[str], None] = lambda message: None
    now: Callable[[], float] = time.time


Checks = Callable[[ApiServer], Awaitable[tuple[Finding, ...]]]


def run(options: DoctorRun, credentials: Credentials) -> tuple[Finding, ...]:
    """Run all checks."""
    return run_on_server(lambda server: run_checks(options, server), credentials)


def run_on_server(checks: Checks, credentials: Credentials) -> tuple[Finding, ...]:
    """Run checks on an event loop of their own."""

    async def start() -> tuple[Finding, ...]:
        transport = AiohttpTransport(credentials, rate_limiter=None)
        try:
            return await checks(ApiServer(transport, credentials.server))
        finally:
            await transport.close()

    return asyncio.run(start())


async def run_checks(options: DoctorRun, server: ApiServer) -> tuple[Finding, ...]:
    """Takes hardly longer than the slowest source."""
    options.on_progress("connecting to the API server")
    reachability = await check_apiserver(server, options.now)
    found = [*check_config(options.configuration), *reachability.findings]
    if not reachability.ok:
        return by_severity([*found, *await _check_load(options, server, _no_nodes())])
    permissions, serving, load = await asyncio.gather(
        rbac_checks.check_rbac(server, options.configuration, options.account),
        rbac_checks.check_serving(server, options.account),
        _check_load(options, server, list_nodes(server)),
    )
    return by_severity([*found, *permissions, *serving, *load])


async def _no_nodes() -> NodeListing:
    return NodeListing(None)


async def _check_load(options: DoctorRun, server: ApiServer, listing: Awaitable[NodeListing]) -> list[Finding]:
    listed = await listing
    nodes = listed.nodes or ()
    sources, load = sources_to_probe(options.configuration), options.configuration.settings.load
    options.on_progress(f"querying {len(sources)} sources about {len(nodes)} nodes")

    async def get(path: str) -> tuple[int, bytes]:
        response = await server.transport.send(Request("GET", path), READ_TIMEOUT, MAX_LIST_BYTES)
        return response.status, response.body

    probes, dry_runs = await asyncio.gather(
        source_checks.probe_all(sources, nodes, get, options.now),
        label_checks.check_dry_runs(server, options.configuration, nodes, options.account),
    )
    found = [*listed.findings, *dry_runs]
    profiles = options.configuration.settings.profiles
    pods_read = _is_rescheduler(options.configuration) or any(map(source_checks.reads_pods, profiles))
    found += source_checks.check_sources(probes, listed.nodes is not None, load, options.now(), pods_read)
    return [*found, *await _check_coverage(options, server, nodes, probes)] if nodes else found


async def _check_coverage(
    options: DoctorRun, server: ApiServer, nodes: Sequence[Node], probes: Sequence[Probe]
) -> list[Finding]:
    """Nodes and pods without samples, and the plugins and label rules that lack them."""
    configuration, load, now = options.configuration, options.configuration.settings.load, options.now()
    options.on_progress("checking nodes and pods without samples")
    coverages = await coverage.node_coverage(probes, nodes, load, now)
    cluster = coverage.cluster_from_readings(probes, nodes, load, now)
    found = [*coverage.check_nodes(coverages, nodes, load)]
    places_pods = configuration.settings.profiles or _is_rescheduler(configuration)
    if places_pods and (metrics := coverage.pod_metrics(probes)):
        found += coverage.check_pods(probes, metrics, await list_running_pods(server), cluster, now)
    known = {each.resource: len(each.known) for each in coverages}
    found += source_checks.check_plugins(configuration, _sources_by_metric(configuration), known)
    if (labels := configuration.trimtab.labels) is not None and probes:
        evaluation = label_checks.evaluate_rules(labels, cluster, now)
        found += label_checks.check_rules(labels, evaluation, coverages, load)
    return found


# --- the configuration by itself


def check_config(configuration: Configuration) -> Iterator[Finding]:
    """Notes on the file, metrics that two sources return, and label rules without a source."""
    for note in configuration.notes:
        position = f"{note.file}:{note.line}" if note.line else note.file
        if isinstance(note, Info):
            yield ok(Area.CONFIGURATION, note.path or position, note.message)
        else:
            yield warning(Area.CONFIGURATION, note.path or position, note.message, f"see {position}")
    document = configuration.trimtab
    yield from _duplicate_metrics(document.sources)
    if document.labels is not None and not document.sources:
        remedy = "add a source, or remove labels"
        yield problem(Area.LABELS, "rules", "there is no source, so no node is ever under pressure", remedy)
    names = ", ".join(profile.name for profile in configuration.settings.profiles)
    sources = describe_sources(configuration)
    alone = "moves pods" if _is_rescheduler(configuration) else "labels nodes"
    purpose = f"profiles: {names}" if names else alone
    yield ok(Area.CONFIGURATION, "file", f"valid; {purpose}; metric sources: {sources}")


def _is_rescheduler(configuration: Configuration) -> bool:
    """Whether the process moves pods, or plans it, and does not schedule them."""
    return configuration.settings.rescheduling is not None and not configuration.settings.profiles


def sources_to_probe(configuration: Configuration) -> tuple[SourceSettings, ...]:
    """The sources, each with the queries of the label rules added."""
    document = configuration.trimtab
    if document.labels is None or not configuration.settings.profiles or not document.sources:
        return document.sources
    return combined_configuration(configuration, "").trimtab.sources


def _duplicate_metrics(sources: Iterable[SourceSettings]) -> Iterator[Finding]:
    duplicates: dict[tuple[str, ...], list[str]] = {}
    for (resource, subject), names in _sources_by_key(sources).items():
        if len(names) > 1:
            duplicates.setdefault(names, []).append(f"{resource} of {subject}")
    for names, metrics in duplicates.items():
        message = f"{', '.join(metrics)} come from {' and '.join(names)}: of each node the newer sample counts"
        yield warning(Area.CONFIGURATION, "sources", message, "use one source for each: set metrics on the other")


def _sources_by_key(sources: Iterable[SourceSettings]) -> Mapping[MetricKey, tuple[str, ...]]:
    found: dict[MetricKey, tuple[str, ...]] = {}
    for source in sources:
        try:
            keys = expected_metrics(source)
        except SourceError:  # reported when it is probed
            continue
        for key in sorted(keys):
            found[key] = (*found.get(key, ()), source.name)
    return found


def _sources_by_metric(configuration: Configuration) -> Mapping[str, tuple[str, ...]]:
    """The sources that should return each node metric."""
    by_key = _sources_by_key(sources_to_probe(configuration))
    return {resource: names for (resource, subject), names in by_key.items() if subject is Subject.NODES}
