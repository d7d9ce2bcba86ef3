"""Wires the doctor: asks the API server, rights and sources side by side, and puts what they say in order.

knock ─▶ (reached) rights │ nodes ─▶ sources ─▶ (pods) whose values are missing ─▶ which plugins and rules lack theirs
                                 └─▶ (marks are written) each mark tried, as a dry run
     └─▶ (not) sources alone, and what they say of nodes cannot be told
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from trimtab.apps.doctor import (
    config_checks,
    label_dry_run,
    label_rule_checks,
    node_coverage,
    plugin_checks,
    pod_coverage,
    rbac_checks,
    source_checks,
)
from trimtab.apps.doctor.apiserver_checks import (
    ApiServer,
    NodeListing,
    check_apiserver,
    list_nodes,
    list_running_pods,
)
from trimtab.apps.doctor.finding import Finding, by_severity
from trimtab.apps.process import MAX_LIST_BYTES, READ_TIMEOUT
from trimtab.config.configuration import Configuration
from trimtab.core.model.node import Node
from trimtab.kube.credentials import Credentials
from trimtab.kube.transport import AiohttpTransport
from trimtab.wire.requests import Request


class DoctorRun(NamedTuple):
    """What is examined: a configuration, with whose rights (our own unless said), and who is told of progress."""

    configuration: Configuration
    account: str = ""
    on_progress: Callable[[str], None] = lambda words: None
    now: Callable[[], float] = time.time


async def run_checks(case: DoctorRun, server: ApiServer) -> tuple[Finding, ...]:
    """Everything once; no longer than the slowest source and a little."""
    case.on_progress("asking the API server")
    reached = await check_apiserver(server, case.now)
    found = [*config_checks.check_config(case.configuration), *reached.findings]
    if reached.ok:
        of_rights, of_sources = await asyncio.gather(
            rbac_checks.check_rbac(server, case.configuration, case.account),
            _check_load(case, server, list_nodes(server)),
        )
        return by_severity([*found, *of_rights, *of_sources])
    return by_severity([*found, *await _check_load(case, server, _no_nodes())])


async def _no_nodes() -> NodeListing:
    return NodeListing(None)


async def _check_load(case: DoctorRun, server: ApiServer, listing: Awaitable[NodeListing]) -> list[Finding]:
    known = await listing
    sources, load = config_checks.sources_to_probe(case.configuration), case.configuration.settings.load
    case.on_progress(f"asking {len(sources)} sources about {len(known.nodes or ())} nodes")

    async def get(path: str) -> tuple[int, bytes]:
        response = await server.transport.send(Request("GET", path), READ_TIMEOUT, MAX_LIST_BYTES)
        return response.status, response.body

    nodes = known.nodes or ()
    looked, tried = await asyncio.gather(
        source_checks.probe_all(sources, nodes, get, case.now),
        label_dry_run.check_dry_runs(server, case.configuration, nodes, case.account),
    )
    found = [*known.findings, *tried, *source_checks.check_sources(looked, known.nodes is not None, load, case.now())]
    return [*found, *await _check_coverage(case, server, nodes, looked)] if nodes else found


async def _check_coverage(
    case: DoctorRun, server: ApiServer, nodes: Sequence[Node], looked: Sequence[source_checks.Probe]
) -> list[Finding]:
    """What lacks measurements: nodes, pods, plugins, rules."""
    configuration, load, now = case.configuration, case.configuration.settings.load, case.now()
    case.on_progress("looking for nodes and pods without data")
    covered = await node_coverage.measure_coverage(looked, nodes, load, now)
    cluster = node_coverage.cluster_from_readings(looked, nodes, load, now)
    found = [*node_coverage.check_nodes(covered, nodes, load)]
    if configuration.settings.profiles and (wanted := pod_coverage.pod_metrics(looked)):
        found += pod_coverage.check_pods(looked, wanted, await list_running_pods(server), cluster, now)
    sources = config_checks.sources_by_metric(config_checks.sources_to_probe(configuration))
    found += plugin_checks.check_plugins(configuration, sources, covered)
    if (labels := configuration.trimtab.labels) is not None and looked:
        found += label_rule_checks.check_rules(
            labels, label_rule_checks.evaluate_rules(labels, cluster, now), covered, load
        )
    return found


def run(case: DoctorRun, credentials: Credentials) -> tuple[Finding, ...]:
    """On an event loop of its own."""

    async def examining() -> tuple[Finding, ...]:
        transport = AiohttpTransport(credentials, rate_limiter=None)
        try:
            return await run_checks(case, ApiServer(transport, credentials.server))
        finally:
            await transport.close()

    return asyncio.run(examining())
