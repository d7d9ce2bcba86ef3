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
from trimtab.apps.logs import log_decision
from trimtab.apps.query_validation import validate_queries
from trimtab.apps.reload import ConfigFile, Reload
from trimtab.apps.runtime import Runtime
from trimtab.apps.source_pollers import SourcePollers
from trimtab.apps.task_exit import log_task_exit
from trimtab.config.configuration import Configuration
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event, LeaseAcquired, LeaseLost
from trimtab.core.settings import Settings
from trimtab.kube import kinds
from trimtab.kube.api_calls import ApiCalls
from trimtab.kube.credentials import Credentials
from trimtab.kube.informers import Informers
from trimtab.kube.lease import LeaderElector
from trimtab.kube.preflight import check_access
from trimtab.kube.transport import AiohttpTransport, PooledTransport, rate_limiter
from trimtab.serve.explain import ExplainEndpoints
from trimtab.serve.gauges import Gauges, ProcessStats
from trimtab.serve.health import Check, Health, flag_check, freshness_check
from trimtab.serve.http import MetricsEndpoint, create_app, serve
from trimtab.serve.metrics import PrometheusRecorder
from trimtab.sources.interface import HistoryRange
from trimtab.sources.poller import HISTORY_RANGES, SourceEvent
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import Request

log = logging.getLogger(__name__)

# Together with the release of the lease less than the 30 s after which a pod is killed.
BIND_DRAIN_SECONDS = 18.0
LOW_PRIORITY_DRAIN_SECONDS = 3.0
STALL_SECONDS = 20.0
READ_TIMEOUT = 30.0
MAX_LIST_BYTES = 256 << 20  # of metrics.k8s.io, which knows no pages
CORE_KINDS = ("pods", "nodes")


@dataclass(frozen=True)
class Options:
    """What the command line decides beside the configuration."""

    identity: str
    host: str
    port: int


class Process:
    """All parts of the live scheduler, put together once."""

    role_file: ClassVar[str] = "rbac.yaml"  # the file that grants what it needs first
    history_ranges: ClassVar[Sequence[HistoryRange]] = (
        HISTORY_RANGES  # of the past, that sources are asked about at the start
    )

    def __init__(
        self,
        configuration: Configuration,
        credentials: Credentials,
        options: Options,
        file: ConfigFile | None = None,
        recorder: PrometheusRecorder | None = None,
    ) -> None:
        self.configuration = configuration
        self.credentials, self.options = credentials, options
        self.clock, random, reader = Clock(), Random(), PodReader()
        speed = rate_limiter(configuration.client_connection.qps, configuration.client_connection.burst)
        self.read_transport = AiohttpTransport(credentials, rate_limiter=None)
        self.write_transport = PooledTransport(credentials, rate_limiter=speed)
        self.lease_transport = PooledTransport(credentials, connections=2)
        leader = configuration.leader_election
        self.elector = (
            LeaderElector(self.lease_transport, leader, options.identity, self.clock.wall, random)
            if leader.enabled
            else None
        )
        may_write = self.elector.may_write if self.elector else lambda: True
        self.recorder = recorder if recorder is not None else PrometheusRecorder()
        self.engine = Engine(configuration.settings, self.recorder)
        told = log_decision if configuration.trimtab.logging.decisions else None
        self.runtime = Runtime(self.engine, lambda wish: self.api_calls.submit(wish), self.clock, on_decision=told)
        self.api_calls = ApiCalls(
            self.write_transport,
            self.runtime.dispatch,
            may_write,
            self.clock,
            random,
            reader,
            options.identity,
            wall=self.clock.wall,
        )
        wanted, plain = configuration.settings.kinds, (kinds.pod_kind(reader), kinds.node_kind(NodeReader()))
        followed = (*(kind for kind in plain if kind.name in wanted), *extra_watched_kinds(configuration.settings))
        self.preflight_paths = tuple(kind.path for kind in plain if kind.name in wanted)
        self.informers = Informers(self.read_transport, followed, self.runtime.dispatch, self.clock, random)
        self._set_up_pollers(file)
        self.stopping = False

    def _set_up_pollers(self, file: ConfigFile | None) -> None:
        """Sources are asked by whoever follows, too: its picture is warm when it has to lead."""
        columns = self.engine.cluster.node_table
        self.pollers = SourcePollers(
            self.configuration.trimtab.sources,
            lambda: columns.nodes,
            self._get,
            self._on_samples,
            self.clock,
            self.history_ranges,
            self.clock.wall,
        )
        self.reload = None
        if file is not None:
            read = file.read
            self.reload = Reload(
                replace(file, read=lambda content: self._adapt_config(read(content))),
                self.configuration,
                self._on_config,
                self.clock,
                self.pollers.change,
            )

    async def run(self) -> int:
        """Until told to stop (0) or leadership is lost (1)."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            await check_access(self.read_transport, self.credentials, self.preflight_paths, self.role_file)
            async with serve(self._web_app(), self.options.host, self.options.port) as port:
                log.info("serving: address=http://%s:%d", self.options.host, port)
                return await self._run_until(stop)
        finally:
            for line in (self.read_transport, self.write_transport, self.lease_transport):
                await line.close()

    async def _run_until(self, stop: asyncio.Event) -> int:
        tasks = [asyncio.create_task(part) for part in self._tasks()]
        asked = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({*tasks, asked}, return_when=asyncio.FIRST_COMPLETED)
        self.stopping = True
        self.runtime.dispatch(LeaseLost(self.clock()))
        if asked in done:
            await self._shut_down()
        for task in (*tasks, asked):
            task.cancel()
        await asyncio.gather(*tasks, asked, return_exceptions=True)
        for task in done - {asked}:
            log_task_exit(task)
        return 0 if asked in done else 1

    def _tasks(self) -> list[Coroutine[Any, Any, None]]:
        """All that runs side by side; if one of them ends, everything does."""
        parts = [self.informers.run(), self.api_calls.run(), self.runtime.run(), self._run_election(), self._poll()]
        return [*parts, self.reload.run()] if self.reload is not None else parts

    @property
    def current(self) -> Configuration:
        """What is in force now."""
        return self.reload.current if self.reload is not None else self.configuration

    def _adapt_config(self, configuration: Configuration) -> Configuration:
        """What of a changed file is meant for this process."""
        return without_labels(configuration)

    def _on_config(self, event: Event) -> None:
        """A changed file is in force."""
        self.runtime.dispatch(event)

    def _on_samples(self, event: SourceEvent) -> None:
        self.runtime.dispatch(event)

    async def _get(self, path: str) -> tuple[int, bytes]:
        response = await self.read_transport.send(Request("GET", path), READ_TIMEOUT, MAX_LIST_BYTES)
        return response.status, response.body

    def _web_app(self) -> web.Application:
        return create_app(self._health(), self._metrics(), ExplainEndpoints(self.engine, self.clock.to_wall_time))

    async def _poll(self) -> None:
        """Once nodes are known: before that no series would match any, and a rule that is there would be called absent."""
        await self.informers.wait_synced()
        await self.pollers.run()

    async def _run_election(self) -> None:
        """Strive for the lease; a new leader lists afresh before it decides, for its watches may lag."""
        if self.elector is None:
            self.runtime.dispatch(LeaseAcquired(0, self.clock()))
            await asyncio.Event().wait()
            return
        await self.informers.wait_synced()
        await self.elector.run(self.runtime.dispatch, self.informers.refresh, self.clock)

    async def _shut_down(self) -> None:
        """Whoever leads next must not meet a bind of ours: with one unanswered, the lease is left to expire."""
        await self.api_calls.drain_binds(BIND_DRAIN_SECONDS)
        finished = await self.api_calls.drain(LOW_PRIORITY_DRAIN_SECONDS)
        log.info("stopping: drained=%s", finished)
        if self.elector is not None and self.api_calls.idle:
            await self.elector.release()
        elif self.elector is not None:
            log.warning("lease not released, it will expire: problem=not every write was answered")

    def _health(self) -> Health:
        live = (freshness_check("eventLoop", lambda: self.clock() - self.runtime.last_tick, STALL_SECONDS),)
        stays = flag_check("shutdown", lambda: not self.stopping, "told to stop, and winding down")
        return Health(live, (*live, Check("informer-sync", self.informers.unsynced), stays))

    def _metrics(self) -> MetricsEndpoint:
        lease = self.configuration.leader_election.name if self.elector else ""
        posting = self.api_calls.event_recorder
        outside = ProcessStats(
            version("trimtab"),
            lease,
            events=lambda: {"written": posting.written, "dropped": posting.dropped, "failed": posting.failed},
            conditions_failed=lambda: self.api_calls.patches_failed,
            informers=self.informers.counts,
            sources=self.pollers.failing,
            node_usage=self.configuration.trimtab.metrics.node_usage,
            **self._reload_stats(),
        )
        return MetricsEndpoint(self.recorder, Gauges(self.engine, outside))

    def _reload_stats(self) -> dict[str, Any]:
        reload = self.reload
        return {} if reload is None else {"reloads": lambda: reload.counts, "config_in_force": lambda: reload.in_force}


def without_labels(configuration: Configuration) -> Configuration:
    """Nodes are marked by `trimtab labeller`, under an account of its own: whoever places pods may not change nodes."""
    return replace(configuration, settings=replace(configuration.settings, labels=None))


def extra_watched_kinds(settings: Settings) -> Iterator[kinds.WatchedKind[Any]]:
    """The further kinds that some profile needs, each with the names of the plugins that need it."""
    for name in (kind for kind in settings.kinds if kind not in CORE_KINDS):
        wanted_by = dict.fromkeys(
            plugin for profile in settings.profiles for plugin in profile.needed_kinds.get(name, ())
        )
        yield from kinds.extra_kinds(name, wanted_by)


def run(
    configuration: Configuration, credentials: Credentials, options: Options, file: ConfigFile | None = None
) -> int:
    """Run the live scheduler on an event loop of its own; what `file` comes to later is taken as it changes."""

    async def running() -> int:
        if file is not None:
            await validate_queries(configuration, file.path)
        return await Process(without_labels(configuration), credentials, options, file).run()

    return uvloop.run(running())
