"""Runs a shadow on a live cluster: lists, watches and polls as the scheduler does, and never writes.

    start ─▶ preflight ─▶ list and watch ─▶ (synced) decide and compare ─▶ SIGINT, SIGTERM or the end of --for: report, exit 0
                                              │ every minute: --out, as a whole
                                              └ SIGUSR1: report

There is one transport, which refuses to write; no lease, no Events, and nothing that could send an instruction of the engine.
That the engine is told of a lease only lets it decide.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from trimtab.apps.atomic_file import write_atomically
from trimtab.apps.clock import Clock
from trimtab.apps.config_file import config_digest, os_error_text, validate_queries
from trimtab.apps.event_loop import run_event_loop
from trimtab.apps.logs import log_task_exit
from trimtab.apps.process import MAX_LIST_BYTES, READ_TIMEOUT
from trimtab.apps.runtime import Runtime
from trimtab.apps.source_pollers import SourcePollers
from trimtab.apps.watched_kinds import watched_kinds
from trimtab.config.configuration import Configuration
from trimtab.core.model.events import ConfigText, Event, KindForbidden, LeaseAcquired
from trimtab.kube.credentials import Credentials
from trimtab.kube.informers import Informers
from trimtab.kube.preflight import check_access
from trimtab.kube.transport import AiohttpTransport, ReadOnlyTransport, Transport
from trimtab.sim.shadow.report import FollowedPolicy, Report, ReportError, encode_report, make_report, resume
from trimtab.sim.shadow.shadow import Shadow, shadow_settings
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import Request

log = logging.getLogger(__name__)

MEASURE_SECONDS = 15.0
SAVE_SECONDS = 60.0


class OutputError(Exception):
    """Why the file of --out cannot be continued, and what to do."""


@dataclass(frozen=True)
class ShadowOptions:
    """What the command line sets."""

    policy: FollowedPolicy
    duration: float | None = None  # in seconds, of this run and those that it continues
    out: Path | None = None
    on_report: Callable[[Report], None] = lambda report: None


def policy_of(configuration: Configuration, config: ConfigText, *, cumulative: bool = False) -> FollowedPolicy:
    """The policy in a configuration file, with a digest of all that was read."""
    profiles = tuple(each.name for each in configuration.settings.profiles)
    return FollowedPolicy(config.file, profiles, config_digest(config), cumulative)


class ShadowProcess:
    """The parts of one shadow, connected."""

    def __init__(
        self,
        configuration: Configuration,
        credentials: Credentials,
        options: ShadowOptions,
        transport: Transport | None = None,
    ) -> None:
        self.configuration, self.credentials, self.options = configuration, credentials, options
        self.shadow = Shadow(configuration.settings, cumulative=options.policy.cumulative)
        self.clock = Clock()
        self.transport = ReadOnlyTransport(transport or AiohttpTransport(credentials, rate_limiter=None))
        self.runtime = Runtime(self.shadow.engine, self.shadow.perform, self.clock, self.shadow.on_decision)
        kinds = tuple(watched_kinds(shadow_settings(configuration.settings), PodReader()))
        jitter = Random()  # noqa: S311 (no secret)
        self.informers = Informers(self.transport, kinds, self.dispatch, self.clock, jitter)
        nodes = self.shadow.real.cluster.node_table
        self.pollers = SourcePollers(
            configuration.trimtab.sources,
            lambda: nodes.nodes,
            self._get,
            self.dispatch,
            self.clock,
            wall=self.clock.wall,
        )
        self.started, self._watched_before, self._synced_at = self.clock.wall(), 0.0, 0.0
        self._resume()

    def _resume(self) -> None:
        """Go on from what --out holds, if it is there."""
        out = self.options.out
        if out is None or not out.exists():
            return
        try:
            found = resume(self.shadow, out.read_bytes(), self.options.policy)
        except OSError as error:
            raise OutputError(f"{out} {os_error_text(error)}") from None
        except ReportError as error:
            raise OutputError(f"{out}: {error}: choose another file, or remove this one") from None
        self.started, self._watched_before = found.started, found.watched_seconds
        log.info("resumed: file=%s decided=%d", out, self.shadow.counts.decided)

    # --- events

    def dispatch(self, event: Event) -> None:
        """What informers and sources report: compared first, then handed to the engine."""
        if isinstance(event, KindForbidden):
            log.warning("forbidden, pods that need it are not decided: kind=%s error=%s", event.kind, event.problem)
        self.shadow.take(self.clock.to_engine_time(event), self.runtime.put)

    async def _get(self, path: str) -> tuple[int, bytes]:
        response = await self.transport.send(Request("GET", path), READ_TIMEOUT, MAX_LIST_BYTES)
        return response.status, response.body

    # --- reports

    @property
    def watched(self) -> float:
        """Seconds in which pods were compared, of this run and those before."""
        return self._watched_before + (self.clock() - self._synced_at if self._synced_at else 0.0)

    def report(self, *, finished: bool = False) -> Report:
        now = self.clock.wall()
        return make_report(self.shadow, self.options.policy, self.started, now, self.watched, finished=finished)

    def save(self, report: Report) -> None:
        """Write --out; a disk that is full for a while must not end a day's comparison."""
        if self.options.out is None:
            return
        try:
            write_atomically(self.options.out, [encode_report(report)])
        except OSError as error:
            log.error("report not written: file=%s error=%s", self.options.out, os_error_text(error))

    # --- running

    async def run(self) -> int:
        """Until a signal or the end of --for (0), or until a task fails (1)."""
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGUSR1, lambda: self.options.on_report(self.report()))
        try:
            await check_access(self.transport, self.credentials)
            return await self._run_until(stop)
        finally:
            await self.transport.close()

    async def _run_until(self, stop: asyncio.Event) -> int:
        self.runtime.dispatch(LeaseAcquired(0, self.clock()))
        work = (self.informers.run(), self.runtime.run(), self._poll(), self._measure(), self._save())
        tasks = [asyncio.create_task(each) for each in work]
        ends = {asyncio.create_task(stop.wait()), asyncio.create_task(self._time_up())}
        done, _ = await asyncio.wait({*tasks, *ends}, return_when=asyncio.FIRST_COMPLETED)
        self.shadow.measure(self.clock())
        report = self.report(finished=bool(done & ends))
        for task in (*tasks, *ends):
            task.cancel()
        await asyncio.gather(*tasks, *ends, return_exceptions=True)
        for task in done - ends:
            log_task_exit(task)
        self.save(report)
        self.options.on_report(report)
        return 0 if done & ends else 1

    async def _synced(self) -> None:
        await self.informers.wait_synced()
        self._synced_at = self._synced_at or self.clock()

    async def _poll(self) -> None:
        await self._synced()
        await self.pollers.run()

    async def _time_up(self) -> None:
        await self._synced()
        while self.options.duration is None or self.watched < self.options.duration:
            left = SAVE_SECONDS if self.options.duration is None else self.options.duration - self.watched
            await asyncio.sleep(min(max(left, 0.01), SAVE_SECONDS))

    async def _measure(self) -> None:
        await self._synced()
        while True:
            self.shadow.measure(self.clock())
            await asyncio.sleep(MEASURE_SECONDS)

    async def _save(self) -> None:
        await self._synced()
        while True:
            self.save(self.report())
            await asyncio.sleep(SAVE_SECONDS)


def run(configuration: Configuration, credentials: Credentials, options: ShadowOptions) -> int:
    """Run a shadow on an event loop of its own; returns the exit code. Raises ConfigError, OutputError, PreflightError."""

    async def start() -> int:
        await validate_queries(configuration, Path(options.policy.file))
        return await ShadowProcess(configuration, credentials, options).run()

    return run_event_loop(start())
