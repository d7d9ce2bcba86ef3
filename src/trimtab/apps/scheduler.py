"""Wires the live scheduler: credentials, watches, lease, performer, pages and the runtime; decides nothing itself.

start ─▶ greet the API server ─▶ follow pods, nodes and what the plugins look at ─▶ (all listed) strive for the lease
      ─▶ (lease ours, lists fresh) lead ─▶ SIGTERM: not ready any more, wind down, exit 0
                      └─▶ lease lost, or etcd set back: exit 1
wind down ─▶ binds answered, 18 s at most ─▶ lesser writes, 3 s at most ─▶ (all answered) release, 5 s at most
                                                                       └─▶ (not) the lease expires by itself
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from random import Random
from typing import Any, ClassVar

import uvloop
from aiohttp import web

from trimtab.apps.clock import Clock
from trimtab.apps.ending import tell_end
from trimtab.apps.logs import tell_decision
from trimtab.apps.looking import Looking
from trimtab.apps.reload import ConfigFile, Reload
from trimtab.apps.runtime import Runtime
from trimtab.apps.trial import try_queries
from trimtab.config.configuration import Configuration
from trimtab.core.engine import Engine
from trimtab.core.model.event import Event, Following, Leading
from trimtab.core.settings import Settings
from trimtab.kube import kinds
from trimtab.kube.credentials import Credentials
from trimtab.kube.greeting import greet
from trimtab.kube.lease import Elector
from trimtab.kube.limiter import limiter
from trimtab.kube.perform import Performer
from trimtab.kube.transport import AiohttpTransport, PooledTransport
from trimtab.kube.watches import Watches
from trimtab.serve.explain import Explaining
from trimtab.serve.health import Check, Health, recent, true
from trimtab.serve.http import application, serving
from trimtab.serve.metrics import PrometheusTally
from trimtab.serve.page import MetricsPage
from trimtab.serve.readings import Outside, Readings
from trimtab.sources.contract import Past
from trimtab.sources.polling import SPANS, Measured
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.request import Request

log = logging.getLogger(__name__)

# Together with the release of the lease less than the 30 s after which a pod is killed.
BIND_SECONDS = 18.0
LESSER_SECONDS = 3.0
STUCK_SECONDS = 20.0
PATIENCE = 30.0
LARGEST_LIST = 256 << 20  # of metrics.k8s.io, which knows no pages
PLAIN = ("pods", "nodes")


@dataclass(frozen=True)
class Options:
    """What the command line decides beside the configuration."""

    identity: str
    host: str
    port: int


class Scheduler:
    """All parts of the live scheduler, put together once."""

    role: ClassVar[str] = "rbac.yaml"  # the file that grants what it needs first
    spans: ClassVar[Sequence[Past]] = SPANS  # of the past, that sources are asked about at the start

    def __init__(
        self,
        configuration: Configuration,
        credentials: Credentials,
        options: Options,
        file: ConfigFile | None = None,
        tally: PrometheusTally | None = None,
    ) -> None:
        self.configuration = configuration
        self.credentials, self.options = credentials, options
        self.clock, random, reader = Clock(), Random(), PodReader()
        speed = limiter(configuration.connection.qps, configuration.connection.burst)
        self.reads = AiohttpTransport(credentials, limiter=None)
        self.writes = PooledTransport(credentials, limiter=speed)
        self.lease_line = PooledTransport(credentials, connections=2)
        leader = configuration.leader
        self.elector = (
            Elector(self.lease_line, leader, options.identity, self.clock.wall, random) if leader.enabled else None
        )
        may_write = self.elector.may_write if self.elector else lambda: True
        self.tally = tally if tally is not None else PrometheusTally()
        self.engine = Engine(configuration.settings, self.tally)
        told = tell_decision if configuration.own.logging.decisions else None
        self.runtime = Runtime(self.engine, lambda wish: self.performer.perform(wish), self.clock, on_decision=told)
        self.performer = Performer(
            self.writes, self.runtime.put, may_write, self.clock, random, reader, options.identity, wall=self.clock.wall
        )
        wanted, plain = configuration.settings.kinds, (kinds.pods(reader), kinds.nodes(NodeReader()))
        followed = (*(kind for kind in plain if kind.name in wanted), *looked_at(configuration.settings))
        self.paths = tuple(kind.path for kind in plain if kind.name in wanted)
        self.watches = Watches(self.reads, followed, self.runtime.put, self.clock, random)
        self._measure(file)
        self.stopping = False

    def _measure(self, file: ConfigFile | None) -> None:
        """Sources are asked by whoever follows, too: its picture is warm when it has to lead."""
        columns = self.engine.cluster.columns
        self.looking = Looking(
            self.configuration.own.sources,
            lambda: columns.nodes,
            self._get,
            self._measured,
            self.clock,
            self.spans,
            self.clock.wall,
        )
        self.reload = None
        if file is not None:
            read = file.read
            self.reload = Reload(
                replace(file, read=lambda content: self._mine(read(content))),
                self.configuration,
                self._took,
                self.clock,
                self.looking.change,
            )

    async def run(self) -> int:
        """Until told to stop (0) or leadership is lost (1)."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            await greet(self.reads, self.credentials, self.paths, self.role)
            async with serving(self._pages(), self.options.host, self.options.port) as port:
                log.info("serving: address=http://%s:%d", self.options.host, port)
                return await self._until(stop)
        finally:
            for line in (self.reads, self.writes, self.lease_line):
                await line.close()

    async def _until(self, stop: asyncio.Event) -> int:
        tasks = [asyncio.create_task(part) for part in self._parts()]
        asked = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({*tasks, asked}, return_when=asyncio.FIRST_COMPLETED)
        self.stopping = True
        self.runtime.put(Following(self.clock()))
        if asked in done:
            await self._wind_down()
        for task in (*tasks, asked):
            task.cancel()
        await asyncio.gather(*tasks, asked, return_exceptions=True)
        for task in done - {asked}:
            tell_end(task)
        return 0 if asked in done else 1

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        """All that runs side by side; if one of them ends, everything does."""
        parts = [self.watches.run(), self.performer.run(), self.runtime.run(), self._lead(), self._look()]
        return [*parts, self.reload.run()] if self.reload is not None else parts

    @property
    def current(self) -> Configuration:
        """What is in force now."""
        return self.reload.current if self.reload is not None else self.configuration

    def _mine(self, configuration: Configuration) -> Configuration:
        """What of a changed file is meant for this process."""
        return without_labels(configuration)

    def _took(self, event: Event) -> None:
        """A changed file is in force."""
        self.runtime.put(event)

    def _measured(self, event: Measured) -> None:
        self.runtime.put(event)

    async def _get(self, path: str) -> tuple[int, bytes]:
        response = await self.reads.send(Request("GET", path), PATIENCE, LARGEST_LIST)
        return response.status, response.body

    def _pages(self) -> web.Application:
        return application(self._health(), self._metrics(), Explaining(self.engine, self.clock.on_the_wall))

    async def _look(self) -> None:
        """Once nodes are known: before that no series would match any, and a rule that is there would be called absent."""
        await self.watches.complete()
        await self.looking.run()

    async def _lead(self) -> None:
        """Strive for the lease; a new leader lists afresh before it decides, for its watches may lag."""
        if self.elector is None:
            self.runtime.put(Leading(0, self.clock()))
            await asyncio.Event().wait()
            return
        await self.watches.complete()
        await self.elector.run(self.runtime.put, self.watches.refresh, self.clock)

    async def _wind_down(self) -> None:
        """Whoever leads next must not meet a bind of ours: with one unanswered, the lease is left to expire."""
        await self.performer.drain_binds(BIND_SECONDS)
        finished = await self.performer.drain(LESSER_SECONDS)
        log.info("stopping: drained=%s", finished)
        if self.elector is not None and self.performer.settled:
            await self.elector.release()
        elif self.elector is not None:
            log.warning("lease not released, it will expire: problem=not every write was answered")

    def _health(self) -> Health:
        live = (recent("eventLoop", lambda: self.clock() - self.runtime.turned, STUCK_SECONDS),)
        stays = true("shutdown", lambda: not self.stopping, "told to stop, and winding down")
        return Health(live, (*live, Check("informer-sync", self.watches.missing), stays))

    def _metrics(self) -> MetricsPage:
        lease = self.configuration.leader.name if self.elector else ""
        posting = self.performer.posting
        outside = Outside(
            version("trimtab"),
            lease,
            events=lambda: {"written": posting.written, "dropped": posting.dropped, "failed": posting.failed},
            conditions_failed=lambda: self.performer.patches_failed,
            watches=self.watches.counts,
            sources=self.looking.failing,
            node_usage=self.configuration.own.metrics.node_usage,
            **self._of_the_file(),
        )
        return MetricsPage(self.tally, Readings(self.engine, outside))

    def _of_the_file(self) -> dict[str, Any]:
        reload = self.reload
        return {} if reload is None else {"reloads": lambda: reload.counts, "file_holds": lambda: reload.holds}


def without_labels(configuration: Configuration) -> Configuration:
    """Nodes are marked by `trimtab labeller`, under an account of its own: whoever places pods may not change nodes."""
    return replace(configuration, settings=replace(configuration.settings, labels=None))


def looked_at(settings: Settings) -> Iterator[kinds.Kind[Any]]:
    """The further kinds that some profile needs, each with the names of the plugins that need it."""
    for name in (kind for kind in settings.kinds if kind not in PLAIN):
        wanted_by = dict.fromkeys(plugin for profile in settings.profiles for plugin in profile.watches.get(name, ()))
        yield from kinds.further(name, wanted_by)


def run(
    configuration: Configuration, credentials: Credentials, options: Options, file: ConfigFile | None = None
) -> int:
    """Run the live scheduler on an event loop of its own; what `file` comes to later is taken as it changes."""

    async def running() -> int:
        if file is not None:
            await try_queries(configuration, file.path)
        return await Scheduler(without_labels(configuration), credentials, options, file).run()

    return uvloop.run(running())
