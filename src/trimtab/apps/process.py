"""A live process: runs the engine's controllers against a cluster, from start to shutdown.

    start ─▶ preflight ─▶ list and watch ─▶ (synced) acquire the lease ─▶ (acquired, lists fresh) lead
                                                │                             │
                          SIGTERM: not ready, drain, release, exit 0 ◀────────┴─▶ lease lost, or etcd set back: exit 1

    drain: binds, 18 s at most ─▶ other writes, 3 s at most ─▶ (all answered) release the lease, 5 s at most
                                                          └─▶ (not) the lease expires

Which controllers run is a value, a tuple of `ControllerSpec`; each adds what it needs. Sources are polled on a standby, too,
so that it knows the load when it becomes the leader.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from random import Random
from typing import Any, Protocol
from urllib.parse import urlsplit

from trimtab.apps.clock import Clock
from trimtab.apps.config_file import ConfigFile, validate_queries
from trimtab.apps.event_loop import run_event_loop
from trimtab.apps.invariant_checks import InvariantChecks
from trimtab.apps.labeller_status import LabellerStatus
from trimtab.apps.logging_recorder import LoggingRecorder
from trimtab.apps.logs import log_decision, log_plan, log_task_exit
from trimtab.apps.recording import RecordingOptions, open_recording
from trimtab.apps.reload import Reload
from trimtab.apps.runtime import Runtime
from trimtab.apps.serving import Pages, Ports
from trimtab.apps.source_pollers import SourcePollers
from trimtab.config.configuration import Configuration
from trimtab.config.registry import NODE_ANNOTATIONS, default_profile
from trimtab.core.engine import Engine
from trimtab.core.framework.forbidden_kinds import only_some_pods_need
from trimtab.core.model.events import Event, LeaseAcquired, LeaseLost, PauseChanged
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.settings import Settings
from trimtab.kube import kinds
from trimtab.kube.api_calls import ApiCalls
from trimtab.kube.credentials import Credentials
from trimtab.kube.informers import Informers
from trimtab.kube.kinds import IfForbidden
from trimtab.kube.lease import LeaderElector
from trimtab.kube.preflight import check_access, check_permission
from trimtab.kube.transport import AiohttpTransport, PooledTransport, rate_limiter
from trimtab.serve.explain import ExplainEndpoints
from trimtab.serve.gauges import Gauges, ProcessStats
from trimtab.serve.health import Check, Health, flag_check, freshness_check
from trimtab.serve.http import Endpoints, MetricsEndpoint
from trimtab.serve.options import Serving
from trimtab.sources.interface import HistoryRange
from trimtab.sources.poller import HISTORY_RANGES, SourceEvent
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.pod_template import DEFAULT_SCHEDULER
from trimtab.wire.requests import NODES, PODS, Request

log = logging.getLogger(__name__)

# Together with the release of the lease less than the 30 s after which a pod is killed.
BIND_DRAIN_SECONDS = 18.0
LOW_PRIORITY_DRAIN_SECONDS = 3.0
STALL_SECONDS = 20.0
READ_TIMEOUT = 30.0
MAX_LIST_BYTES = 256 << 20  # metrics.k8s.io has no pagination
CORE_KINDS = ("pods", "nodes")
NOT_SERVING = Serving()
LABELLER_IN_SCHEDULER = "deploy/components/labeller/labeller.yaml and deploy/rbac-labeller.yaml"


class Extension(Protocol):
    """A part of the process that belongs to one controller: it sees samples and reloads, and has endpoints."""

    def on_samples(self, event: SourceEvent) -> None: ...

    def on_reload(self) -> None: ...

    def endpoints(self) -> Endpoints: ...


@dataclass(frozen=True, eq=False)
class ControllerSpec:
    """What one controller adds to a process. To add a controller, add a value to `CONTROLLERS`."""

    name: str
    role_file: str  # in deploy/, named where the preflight check fails
    preflight_paths: tuple[str, ...]
    history: Sequence[HistoryRange] = ()  # read from the sources at the start
    extension: Callable[[Process], Extension] | None = None


def _labeller_status(process: Process) -> LabellerStatus:
    return LabellerStatus(
        process.engine, process.clock, process.informers, lambda: process.current, process.reload_error
    )


SCHEDULER = ControllerSpec("scheduler", "rbac.yaml", (PODS, NODES), HISTORY_RANGES)
LABELLER = ControllerSpec("labeller", "components/labeller/labeller.yaml", (NODES,), extension=_labeller_status)
RESCHEDULER = ControllerSpec("rescheduler", "components/rescheduler/rescheduler.yaml", (PODS, NODES), HISTORY_RANGES)
CONTROLLERS = {each.name: each for each in (SCHEDULER, LABELLER, RESCHEDULER)}


@dataclass(frozen=True)
class Options:
    """What the command line sets."""

    identity: str
    serving: Serving = NOT_SERVING
    recording: RecordingOptions | None = None
    check_invariants: float | None = None  # every so many seconds; None for never


class Process:
    """The parts of one process, connected; `configuration` must be for these controllers (`configuration_for`)."""

    def __init__(
        self,
        configuration: Configuration,
        credentials: Credentials,
        options: Options,
        file: ConfigFile | None = None,
        controllers: Sequence[ControllerSpec] = (SCHEDULER,),
        recorder: LoggingRecorder | None = None,
    ) -> None:
        self.configuration, self.controllers = configuration, tuple(controllers)
        self.credentials, self.options = credentials, options
        self.recorder = recorder if recorder is not None else LoggingRecorder()
        self.engine = Engine(configuration.settings, self.recorder)
        self.engine.controller(Scheduling).evaluator.stock = default_profile(DEFAULT_SCHEDULER)
        self.recording = open_recording(options.recording, self.engine) if options.recording is not None else None
        self.clock, random, reader = Clock(), Random(), PodReader()
        connection, leader = configuration.client_connection, configuration.leader_election
        self.read_transport = AiohttpTransport(credentials, rate_limiter=None)
        self.write_transport = PooledTransport(credentials, rate_limiter=rate_limiter(connection.qps, connection.burst))
        self.lease_transport = PooledTransport(credentials, connections=2)
        self.elector = (
            LeaderElector(self.lease_transport, leader, options.identity, self.clock.wall, random)
            if leader.enabled
            else None
        )
        record = self.recording.record if self.recording is not None else None
        self.runtime = Runtime(
            self.engine,
            lambda each: self.api_calls.submit(self.clock.to_wall_clock(each)),
            self.clock,
            log_decision,
            record,
            log_plan,
        )
        may_write = self.elector.may_write if self.elector else lambda: True
        if self.elector is not None:
            self.elector.on_pause = lambda reason: self.runtime.dispatch(PauseChanged(reason, self.clock()))
        self.api_calls = ApiCalls(
            self.write_transport,
            sink=self.runtime.dispatch,
            may_write=may_write,
            clock=self.clock,
            random=random,
            reader=reader,
            instance=options.identity,
            wall=self.clock.wall,
            ledger_namespace=leader.namespace,
            paused=self._pause_reason,
        )
        watched = tuple(watched_kinds(configuration.settings, reader))
        self.informers = Informers(self.read_transport, watched, self.runtime.dispatch, self.clock, random)
        self.pollers = self._create_pollers()
        self.reload = self._create_reload(file) if file is not None else None
        self.extensions = [spec.extension(self) for spec in self.controllers if spec.extension is not None]
        self.stopping = False
        self.ports: Ports | None = None

    # --- parts

    def _create_pollers(self) -> SourcePollers:
        nodes, history = self.engine.cluster.node_table, [each for spec in self.controllers for each in spec.history]
        return SourcePollers(
            self.configuration.trimtab.sources,
            lambda: nodes.nodes,
            self._get,
            self._on_samples,
            self.clock,
            history,
            self.clock.wall,
        )

    def _create_reload(self, file: ConfigFile) -> Reload:
        return Reload(file, self.configuration, self._on_config, self.clock, self.pollers.change)

    @property
    def current(self) -> Configuration:
        """The configuration in force."""
        return self.reload.current if self.reload is not None else self.configuration

    def reload_error(self) -> str:
        """Why the file on disk is not in force; empty if it is."""
        return self.reload.error if self.reload is not None else ""

    def _on_config(self, event: Event) -> None:
        for each in self.extensions:
            each.on_reload()
        self.runtime.dispatch(event)

    def _on_samples(self, event: SourceEvent) -> None:
        for each in self.extensions:
            each.on_samples(event)
        self.runtime.dispatch(event)

    async def _pause_reason(self) -> str:
        """Why no pod may be moved now."""
        return await self.elector.pause_reason() if self.elector is not None else ""

    async def _get(self, path: str) -> tuple[int, bytes]:
        response = await self.read_transport.send(Request("GET", path), READ_TIMEOUT, MAX_LIST_BYTES)
        return response.status, response.body

    # --- running

    async def run(self) -> int:
        """Until SIGTERM or SIGINT (0), or until leadership is lost or a task fails (1)."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            with closing(Ports(self.options.serving, self.credentials)) as self.ports:
                await self._preflight()
                async with self.ports.serve(self._pages()):
                    return await self._run_until(stop)
        finally:
            for transport in (self.read_transport, self.write_transport, self.lease_transport):
                await transport.close()
            if self.recording is not None:
                self.recording.close()

    async def _preflight(self) -> None:
        """Raises PreflightError where a role file is missing, with its name."""
        for spec in self.controllers:
            await check_access(self.read_transport, self.credentials, spec.preflight_paths, spec.role_file)
        labels = self.configuration.settings.labels
        if {SCHEDULER, LABELLER} <= {*self.controllers} and labels is not None and labels.apply:
            await check_permission(self.read_transport, self.credentials, "patch", "nodes", LABELLER_IN_SCHEDULER)

    async def _run_until(self, stop: asyncio.Event) -> int:
        tasks = [asyncio.create_task(each) for each in self._tasks()]
        stopped = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({*tasks, stopped}, return_when=asyncio.FIRST_COMPLETED)
        self.stopping = True
        self.runtime.dispatch(LeaseLost(self.clock()))
        if stopped in done:
            await self._shut_down()
        for task in (*tasks, stopped):
            task.cancel()
        await asyncio.gather(*tasks, stopped, return_exceptions=True)
        for task in done - {stopped}:
            log_task_exit(task)
        return 0 if stopped in done else 1

    def _tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What runs concurrently; when one ends, the process does."""
        tasks = [self.informers.run(), self.api_calls.run(), self.runtime.run(), self._run_election(), self._poll()]
        if self.reload is not None:
            tasks.append(self.reload.run())
        if (interval := self.options.check_invariants) is not None:
            tasks.append(InvariantChecks(self.engine, interval, self.recorder.invariants_violated).run())
        return tasks

    async def _poll(self) -> None:
        """Once nodes are listed: before that no series would match a node."""
        await self.informers.wait_synced()
        await self.pollers.run()

    async def _run_election(self) -> None:
        """Acquire the lease; a new leader lists once more before it decides, because its watches may lag."""
        if self.elector is None:
            self.runtime.dispatch(LeaseAcquired(0, self.clock()))
            await asyncio.Event().wait()
            return
        await self.informers.wait_synced()
        await self.elector.run(self.runtime.dispatch, self.informers.refresh, self.clock)

    async def _shut_down(self) -> None:
        """The next leader must not meet a bind of ours: with one unanswered, the lease is left to expire."""
        await self.api_calls.drain_binds(BIND_DRAIN_SECONDS)
        drained = await self.api_calls.drain(LOW_PRIORITY_DRAIN_SECONDS)
        log.info("stopping: drained=%s", drained)
        if self.elector is not None and self.api_calls.idle:
            await self.elector.release()
        elif self.elector is not None:
            log.warning("lease not released, it will expire: reason=%s", "not every write was answered")

    # --- endpoints

    def _pages(self) -> Pages:
        explain = ExplainEndpoints(self.engine, self.clock.to_wall_time)
        status = tuple(each.endpoints() for each in self.extensions)
        return Pages(self._health(), self._metrics(), (explain,), status)

    def _health(self) -> Health:
        live = (freshness_check("eventLoop", lambda: self.clock() - self.runtime.last_tick, STALL_SECONDS),)
        running = flag_check("shutdown", lambda: not self.stopping, "the process is shutting down")
        return Health(live, (*live, Check("informer-sync", self.informers.unsynced), running))

    def _metrics(self) -> MetricsEndpoint:
        events, reload = self.api_calls.event_recorder, self.reload
        stats = ProcessStats(
            version("trimtab"),
            self.configuration.leader_election.name if self.elector else "",
            events=lambda: {"written": events.written, "dropped": events.dropped, "failed": events.failed},
            conditions_failed=lambda: self.api_calls.patches_failed,
            informers=self.informers.counts,
            silences=self.informers.silences,
            requests=self._requests_sent,
            wall=self.clock.wall,
            sources=self.pollers.failing,
            node_usage=self.configuration.trimtab.metrics.node_usage,
        )
        if self.recording is not None:
            stats = replace(stats, recorded=self.recording.counts)
        if reload is not None:
            stats = replace(stats, reloads=lambda: reload.counts, config_in_force=lambda: reload.in_force)
        return MetricsEndpoint(self.recorder, Gauges(self.engine, stats))

    def _requests_sent(self) -> Mapping[tuple[str, str, str], int]:
        """Requests to the API server by code, host and method."""
        own = (self.read_transport, self.write_transport, self.lease_transport)
        reviews = self.ports.review_transports() if self.ports is not None else ()
        sent = Counter[tuple[str, str, str]]()
        for credentials, transport in (*((self.credentials, each) for each in own), *reviews):
            host = urlsplit(credentials.server).netloc
            sent.update({(code, host, method): number for (method, code), number in transport.requests.items()})
        return sent


def watched_kinds(settings: Settings, reader: PodReader) -> Iterator[kinds.WatchedKind[Any]]:
    """Pods and nodes as far as they are needed, and the kinds that some plugin needs."""
    core = (kinds.pod_kind(reader), kinds.node_kind(NodeReader(NODE_ANNOTATIONS)))
    yield from (kind for kind in core if kind.name in settings.kinds)
    yield from extra_watched_kinds(settings)


def extra_watched_kinds(settings: Settings) -> Iterator[kinds.WatchedKind[Any]]:
    """The kinds beyond pods and nodes that some profile or the rescheduler needs, each with who needs it."""
    for name in (kind for kind in settings.kinds if kind not in CORE_KINDS):
        plugins = dict.fromkeys(
            plugin
            for profile in (*settings.profiles, *settings.other_profiles)
            for plugin in profile.needed_kinds.get(name, ())
        )
        some = only_some_pods_need(name, settings.profiles)
        # Guards refuse all moves without their kinds; pods are scheduled all the same.
        missing = IfForbidden.REPORT if some or not plugins else IfForbidden.WAIT
        for kind in kinds.extra_kinds(name, plugins or ("rescheduling",), missing):
            granted_together = not settings.profiles and not kind.optional
            yield replace(kind, role=RESCHEDULER.role_file, wanted_by="") if granted_together else kind


def run(
    configuration: Configuration,
    credentials: Credentials,
    options: Options,
    file: ConfigFile | None = None,
    controllers: Sequence[ControllerSpec] = (SCHEDULER,),
) -> int:
    """Run a process on an event loop of its own; `file` is reloaded when it changes. Returns the exit code."""

    async def start() -> int:
        if file is not None:
            await validate_queries(configuration, file.path)
        return await Process(configuration, credentials, options, file, controllers).run()

    return run_event_loop(start())
