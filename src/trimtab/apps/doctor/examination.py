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

from trimtab.apps.doctor import configured, coverage, lacking, looks, pods, rights, rules, trying
from trimtab.apps.doctor.finding import Finding, in_order
from trimtab.apps.doctor.server import Named, Nodes, knock, listed, running
from trimtab.apps.scheduler import LARGEST_LIST, PATIENCE
from trimtab.config.configuration import Configuration
from trimtab.core.model.node import Node
from trimtab.kube.credentials import Credentials
from trimtab.kube.transport import AiohttpTransport
from trimtab.wire.request import Request


class Case(NamedTuple):
    """What is examined: a configuration, with whose rights (our own unless said), and who is told of progress."""

    configuration: Configuration
    account: str = ""
    tell: Callable[[str], None] = lambda words: None
    now: Callable[[], float] = time.time


async def examine(case: Case, server: Named) -> tuple[Finding, ...]:
    """Everything once; no longer than the slowest source and a little."""
    case.tell("asking the API server")
    reached = await knock(server, case.now)
    found = [*configured.told(case.configuration), *reached.findings]
    if reached.well:
        of_rights, of_sources = await asyncio.gather(
            rights.check(server, case.configuration, case.account), _measured(case, server, listed(server))
        )
        return in_order([*found, *of_rights, *of_sources])
    return in_order([*found, *await _measured(case, server, _nobody())])


async def _nobody() -> Nodes:
    return Nodes(None)


async def _measured(case: Case, server: Named, listing: Awaitable[Nodes]) -> list[Finding]:
    known = await listing
    sources, load = configured.sources_of(case.configuration), case.configuration.own.load
    case.tell(f"asking {len(sources)} sources about {len(known.nodes or ())} nodes")

    async def get(path: str) -> tuple[int, bytes]:
        response = await server.transport.send(Request("GET", path), PATIENCE, LARGEST_LIST)
        return response.status, response.body

    nodes = known.nodes or ()
    looked, tried = await asyncio.gather(
        looks.look(sources, nodes, get, case.now), trying.tried(server, case.configuration, nodes, case.account)
    )
    found = [*known.findings, *tried, *looks.told(looked, known.nodes is not None, load, case.now())]
    return [*found, *await _missing(case, server, nodes, looked)] if nodes else found


async def _missing(case: Case, server: Named, nodes: Sequence[Node], looked: Sequence[looks.Look]) -> list[Finding]:
    """What lacks measurements: nodes, pods, plugins, rules."""
    configuration, load, now = case.configuration, case.configuration.own.load, case.now()
    case.tell("looking for nodes and pods without data")
    covered = await coverage.covered(looked, nodes, load, now)
    cluster = coverage.pictured(looked, nodes, load, now)
    found = [*coverage.told(covered, nodes, load)]
    if configuration.settings.profiles and (wanted := pods.asked_for(looked)):
        found += pods.told(looked, wanted, await running(server), cluster, now)
    sources = configured.measured_by(configured.sources_of(configuration))
    found += lacking.plugins_told(configuration, sources, covered)
    if (labels := configuration.own.labels) is not None and looked:
        found += rules.told(labels, rules.judged(labels, cluster, now), covered, load)
    return found


def run(case: Case, credentials: Credentials) -> tuple[Finding, ...]:
    """On an event loop of its own."""

    async def examining() -> tuple[Finding, ...]:
        transport = AiohttpTransport(credentials, limiter=None)
        try:
            return await examine(case, Named(transport, credentials.server))
        finally:
            await transport.close()

    return asyncio.run(examining())
