"""A live process: runs the engine's controllers against a cluster, from start to shutdown.

    start ─▶ wait for the API server ─▶ list and watch ─▶ (synced) acquire the lease ─▶ (acquired, lists fresh) lead
                  └─ forbidden: exit 1                          │                                              │
                          SIGTERM: not ready, drain, release, exit 0 ◀─────────────────────────────────────────┤
                                          lease lost, or etcd set back: exit 1 within 3 s, hard if it must ◀───┘

    drain: binds, 18 s at most ─▶ other writes, 3 s at most ─▶ (all answered) release the lease, 5 s at most
                                                          └─▶ (not) the lease expires

Everything runs on one event loop, the decision loop, except for what must go on while that is busy, each on a thread of its
own: the lease (`lease_thread.py`), the pages (`serving.py`), the watchdog (`watchdog.py`) and the log (`log_writer.py`).
Values pass between them by `call_soon_threadsafe`; health checks and the fence of writes read single attributes.

Which controllers run is a value, a tuple of `ControllerSpec`; each adds what it needs. Sources are polled on a standby, too,
so that it knows the load when it becomes the leader.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from random import Random
from typing import Any, Protocol

from trimtab.apps.clock import Clock
from trimtab.apps.config_file import ConfigFile, validate_queries
from trimtab.apps.event_loop import run_event_loop
from trimtab.apps.invariant_checks import InvariantChecks
from trimtab.apps.labeller_status import LabellerStatus
from trimtab.apps.lease_thread import LeaseThread
from trimtab.apps.log_writer import dropped_lines
from trimtab.apps.logging_recorder import LoggingRecorder
from trimtab.apps.logs import log_decision, log_plan, log_task_exit
from trimtab.apps.recording import RecordingOptions, open_recording
from trimtab.apps.reload import Reload
from trimtab.apps.runtime import Runtime
from trimtab.apps.scheduler_leases import SchedulerLeases
from trimtab.apps.serving import Pages, Ports, run_on_this_loop, served
from trimtab.apps.source_pollers import SourcePollers
from trimtab.apps.watchdog import Watchdog, exit_now, exit_within
from trimtab.apps.watched_kinds import RESCHEDULER_ROLE, watched_kinds
from trimtab.config.configuration import Configuration
from trimtab.config.registry import default_profile
from trimtab.core.engine import Engine
from trimtab.core.model.events import Event, LeaseAcquired, LeaseLost, PauseChanged
from trimtab.core.model.instructions import Instruction
from trimtab.core.scheduling.controller import Scheduling
from trimtab.kube.api_calls import ApiCalls
from trimtab.kube.credentials import Credentials
from trimtab.kube.informers import Informers
from trimtab.kube.lease import lead
from trimtab.kube.preflight import check_access, check_permission, wait_for_api_server
from trimtab.kube.reflector import Backoff
from trimtab.kube.transport import AiohttpTransport, PooledTransport, rate_limiter, requests_by_host
from trimtab.serve.explain import ExplainEndpoints
from trimtab.serve.gauges import Gauges, ProcessStats
from trimtab.serve.health import Check, Health, flag_check
from trimtab.serve.http import Endpoints, MetricsEndpoint
from trimtab.serve.options import Serving
from trimtab.serve.status import CachePage, StatusPage
from trimtab.sources.interface import HistoryRange
from trimtab.sources.poller import HISTORY_RANGES, SourceEvent
from trimtab.wire.pod import PodReader
from trimtab.wire.pod_template import DEFAULT_SCHEDULER
from trimtab.wire.requests import NODES, PODS, Request

log = logging.getLogger(__name__)

# Together with the release of the lease less than the 30 s after which a pod is killed.
BIND_DRAIN_SECONDS = 18.0
LOW_PRIORITY_DRAIN_SECONDS = 3.0
LOST_SECONDS = 3.0  # in which a process ends that has lost its lease, or one of its tasks
LEASE_LOST = "the lease was lost, and the process had not ended by itself"
MAX_START_DELAY = 5.0
READ_TIMEOUT = 30.0
MAX_LIST_BYTES = 256 << 20  # metrics.k8s.io has no pagination
NOT_SERVING = Serving()
LABELLER_IN_SCHEDULER = "deploy/components/labeller/labeller.yaml and deploy/rbac-labeller.yaml"


class Extension(Protocol):
    """A part of the process that belongs to one controller: it sees samples and reloads, and has checks and pages."""

    def on_samples(self, event: SourceEvent) -> None: ...

    def on_reload(self) -> None: ...

    def checks(self) -> Iterable[Check]: ...

    def endpoints(self) -> Endpoints: ...


@dataclass(frozen=True, eq=False)
class ControllerSpec:
    """What one controller adds to a process. To add a controller, add a value to `CONTROLLER_SPECS`."""

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
RESCHEDULER = ControllerSpec("rescheduler", RESCHEDULER_ROLE, (PODS, NODES), HISTORY_RANGES)
CONTROLLER_SPECS = {each.name: each for each in (SCHEDULER, LABELLER, RESCHEDULER)}


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
        self.clock, random, reader = Clock(), Random(), PodReader()  # noqa: S311 (for jitter)
        self._start_backoff = Backoff(random, MAX_START_DELAY)
        connection, leader = configuration.client_connection, configuration.leader_election
        self.read_transport = AiohttpTransport(credentials, rate_limiter=None)
        self.write_transport = PooledTransport(credentials, rate_limiter=rate_limiter(connection.qps, connection.burst))
        on_lost = partial(exit_within, LOST_SECONDS, LEASE_LOST)
        self.lease = (
            LeaseThread(credentials, leader, options.identity, self.clock.wall, on_lost) if leader.enabled else None
        )
        self.watchdog = Watchdog(exit_now)
        record = self.recording.record if self.recording is not None else None
        self.runtime = Runtime(self.engine, self._perform, self.clock, log_decision, record, log_plan)
        may_write = self.lease.may_write if self.lease else lambda: True
        if self.lease is not None:
            self.lease.on_pause = lambda reason: self.runtime.dispatch(PauseChanged(reason, self.clock()))
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
        self.api_calls.on_gone = lambda reason: self.informers.suspect("pods", reason)
        self.pollers = self._create_pollers()
        self.scheduler_leases = SchedulerLeases(
            self.read_transport, lambda: self.current.scheduler_leases, self.runtime.dispatch, self.clock
        )
        self.reload = (
            Reload(file, configuration, self._on_config, self.clock, self.pollers.change) if file is not None else None
        )
        self.extensions = [spec.extension(self) for spec in self.controllers if spec.extension is not None]
        self.stopping = False
        self.ports: Ports | None = None

    # --- parts

    def _create_pollers(self) -> SourcePollers:
        nodes, history = self.engine.cluster.node_table, [each for spec in self.controllers for each in spec.history]
        sources, wall = self.configuration.trimtab.sources, self.clock.wall
        return SourcePollers(sources, lambda: nodes.nodes, self._get, self._on_samples, self.clock, history, wall)

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

    def _perform(self, instruction: Instruction) -> None:
        self.api_calls.submit(self.clock.to_wall_clock(instruction))

    async def _pause_reason(self) -> str:
        """Why no pod may be moved now."""
        return await self.lease.pause_reason() if self.lease is not None else ""

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
            with closing(Ports(self.options.serving, self.credentials.copy())) as self.ports, self.watchdog.watching():
                async with served(self.ports, self._pages()):
                    return await self._run_until(stop) if await self._can_start(stop) else 0
        finally:
            await self._close()

    async def _close(self) -> None:
        for part in (self.read_transport, self.write_transport, self.lease):
            if part is not None:
                await part.close()
        if self.recording is not None:
            self.recording.close()

    async def _can_start(self, stop: asyncio.Event) -> bool:
        """Wait until the API server answers; False if the process is stopped before. Raises PreflightError."""
        checked = asyncio.create_task(wait_for_api_server(self._preflight, self._start_backoff.next))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((checked, stopped), return_when=asyncio.FIRST_COMPLETED)
            if checked.done():
                checked.result()
            return checked.done()
        finally:
            checked.cancel()
            stopped.cancel()

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
        else:
            exit_within(LOST_SECONDS, "a task had ended, and the process had not ended by itself")
        for task in (*tasks, stopped):
            task.cancel()
        await asyncio.gather(*tasks, stopped, return_exceptions=True)
        for task in done - {stopped}:
            log_task_exit(task)
        return 0 if stopped in done else 1

    def _tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What runs concurrently; when one ends, the process does."""
        tasks = [self._list_and_watch(), self.api_calls.run(), self.runtime.run(), self._run_election(), self._poll()]
        if RESCHEDULER.name in (each.name for each in self.controllers):
            tasks.append(self.scheduler_leases.run())
        if self.reload is not None:
            tasks.append(self.reload.run())
        if (interval := self.options.check_invariants) is not None:
            tasks.append(InvariantChecks(self.engine, interval, self.recorder.invariants_violated).run())
        return tasks

    async def _list_and_watch(self) -> None:
        if self.lease is not None:
            await self.lease.delay_standby()
        await self.informers.run()

    async def _poll(self) -> None:
        """Once nodes are listed: before that no series would match a node."""
        await self.informers.wait_synced()
        await self.pollers.run()

    async def _run_election(self) -> None:
        """Acquire the lease; a new leader lists once more before it decides, because its watches may lag."""
        if self.lease is None:
            self._on_election(LeaseAcquired(0, self.clock()))
            await asyncio.Event().wait()
            return
        await self.informers.wait_synced()
        await lead(self.lease, self._on_election, self.informers.refresh, self.clock)

    def _on_election(self, event: Event) -> None:
        """The lease is renewed until all binds are answered, but who shuts down does not begin to decide."""
        if not (self.stopping and isinstance(event, LeaseAcquired)):
            self.runtime.dispatch(event)

    async def _shut_down(self) -> None:
        """The next leader must not meet a bind of ours: with one unanswered, the lease is left to expire."""
        await self.api_calls.drain_binds(BIND_DRAIN_SECONDS)
        drained = await self.api_calls.drain(LOW_PRIORITY_DRAIN_SECONDS)
        log.info("stopping: drained=%s", drained)
        if self.lease is not None and self.api_calls.idle:
            await self.lease.release()
        elif self.lease is not None:
            log.warning("lease not released, it will expire: reason=%s", "not every write was answered")

    # --- endpoints

    def _pages(self) -> Pages:
        pages = ExplainEndpoints(self.engine, self.clock.to_wall_time), CachePage(self.informers.views)
        live = (Check("eventLoop", self.watchdog.problem),)
        ready = (*live, *self._ready_checks())
        health = Health(live, ready)
        own = [check for each in self.extensions for check in each.checks()]
        status = StatusPage((*own, *ready, Check("configuration", lambda: self.reload_error() or None)))
        extensions = (each.endpoints() for each in self.extensions)
        return Pages(health, self._metrics(), pages, (status, *extensions), run_on_this_loop())

    def _ready_checks(self) -> tuple[Check, ...]:
        """They run on the thread of the pages, so they only read."""
        informers, lease = self.informers, self.lease
        return (
            Check("informer-sync", informers.unsynced),
            Check("watches", informers.disconnected),
            *((Check("leaderElection", lease.problem),) if lease is not None else ()),
            Check("binds", self.api_calls.bind_refusals.degraded),
            flag_check("shutdown", lambda: not self.stopping, "the process is shutting down"),
        )

    def _metrics(self) -> MetricsEndpoint:
        events, reload = self.api_calls.event_recorder, self.reload
        stats = ProcessStats(
            version("trimtab"),
            self.configuration.leader_election.name if self.lease else "",
            events=lambda: {"written": events.written, "dropped": events.dropped, "failed": events.failed},
            conditions_failed=lambda: self.api_calls.patches_failed,
            bind_refusals=self.api_calls.bind_refusals,
            informers=self.informers.counts,
            silences=self.informers.silences,
            requests=self._requests_sent,
            wall=self.clock.wall,
            sources=self.pollers.failing,
            node_usage=self.configuration.trimtab.metrics.node_usage,
            log_lines_dropped=dropped_lines,
        )
        if self.recording is not None:
            stats = replace(stats, recorded=self.recording.counts)
        if reload is not None:
            stats = replace(stats, reloads=lambda: reload.counts, config_in_force=lambda: reload.in_force)
        return MetricsEndpoint(self.recorder, Gauges(self.engine, stats))

    def _requests_sent(self) -> Mapping[tuple[str, str, str], int]:
        """Requests to the API server by code, host and method."""
        own = (self.read_transport, self.write_transport, *((self.lease,) if self.lease is not None else ()))
        reviews = self.ports.review_transports() if self.ports is not None else ()
        pairs = (*((self.credentials, each) for each in own), *reviews)
        return requests_by_host((credentials.server, each.requests) for credentials, each in pairs)


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
