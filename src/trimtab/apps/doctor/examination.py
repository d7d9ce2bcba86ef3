"""Wires the doctor: asks the API server, rights and sources side by side, and puts what they say in order.

knock ─▶ (reached) rights │ nodes ─▶ sources ─▶ whose values are missing ─▶ which plugins and rules lack theirs
     └─▶ (not) sources alone, and what they say of nodes cannot be told
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from trimtab.apps.doctor import configured, coverage, lacking, looks, rights
from trimtab.apps.doctor.finding import Finding, in_order
from trimtab.apps.doctor.server import Named, Nodes, knock, listed
from trimtab.apps.scheduler import LARGEST_LIST, PATIENCE
from trimtab.config.configuration import Configuration
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
    looked = await looks.look(sources, nodes, get, case.now)
    found = [*known.findings, *looks.told(looked, known.nodes is not None, load, case.now())]
    if not nodes:
        return found
    case.tell("looking for nodes without data")
    covered = await coverage.covered(looked, nodes, load, case.now())
    found += coverage.told(covered, nodes, load)
    found += lacking.plugins_told(case.configuration, configured.measured_by(sources), covered)
    labels = case.configuration.own.labels
    found += lacking.labels_told(labels.rules if labels is not None and sources else (), covered)
    return found


def run(case: Case, credentials: Credentials) -> tuple[Finding, ...]:
    """On an event loop of its own."""

    async def running() -> tuple[Finding, ...]:
        transport = AiohttpTransport(credentials, limiter=None)
        try:
            return await examine(case, Named(transport, credentials.server))
        finally:
            await transport.close()

    return asyncio.run(running())
