"""A rescheduler that carries out one plan and ends: the parts of a live process, without a lease.

    list, watch, poll ─▶ ledger read, history read ─▶ PlanApproved ─▶ follow each move ─▶ all ended, ledger written
                 └─ not within a minute: CannotApply        ▲   └─ dropped by a conflict: again ─┘
                                                            └──────────────────────────────────┘

Nobody leads: by the ledger's compare-and-swap its budgets are those of a running rescheduler, too. The term of its records is
negative, so that it never takes a leader's moves further; a rescheduler that leads takes over what is left behind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from msgspec.structs import replace as struct_replace

from trimtab.apps.apply.cluster_checks import LEASES, ApiServer, pause_reason
from trimtab.apps.apply.plan_file import CannotApply
from trimtab.apps.controller_configuration import configuration_for
from trimtab.apps.logging_recorder import LoggingRecorder
from trimtab.apps.logs import log_task_exit
from trimtab.apps.plan.cluster import with_default_source
from trimtab.apps.process import RESCHEDULER, ControllerSpec, Options, Process
from trimtab.config.configuration import Configuration
from trimtab.core.framework.profile import Profile
from trimtab.core.model.duration import DAY, HOUR, MINUTE, format_duration
from trimtab.core.model.events import LeaseAcquired, PlanApproved
from trimtab.core.model.ledger import MoveRecord, MoveState
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.readings import Subject
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.execution import Execution
from trimtab.core.rescheduling.guards import cluster_refusal
from trimtab.core.rescheduling.ledger_keeper import NOT_WRITTEN
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.kube.credentials import Credentials
from trimtab.sources.interface import HistoryRange
from trimtab.sources.poller import HISTORY_RANGES

POLL = 0.2
READY_TIMEOUT = 60.0
SUBMIT_INTERVAL = 5.0
IDLE_TIMEOUT = 120.0  # without progress, moves that were not started are given up
WRITE_TIMEOUT = 10.0
# Moves are judged again by what a plan knows: a day of usage.
HISTORY = (*HISTORY_RANGES, HistoryRange(Subject.PODS, DAY, HOUR, 5 * MINUTE))
APPLIER = ControllerSpec("rescheduler", RESCHEDULER.role_file, RESCHEDULER.preflight_paths, HISTORY)
INTERRUPTED = "interrupted before it was started"


class Verdict(Enum):
    """What became of a move."""

    DONE = auto()
    SKIPPED = auto()  # certainly not moved
    FAILED = auto()
    LEFT = auto()  # under way when this process ended


class MoveResult(NamedTuple):
    """`record` is None if the move was never charged."""

    move: Move
    verdict: Verdict
    reason: str
    record: MoveRecord | None = None


class Listener(NamedTuple):
    """Hears of each state of a move, of skipped ones with their reasons, and of what is waited for."""

    on_move: Callable[[MoveRecord], None]
    on_skip: Callable[[Move, str], None]
    on_wait: Callable[[str], None]


class ProgressRecorder(LoggingRecorder):
    """Passes on how far moves have come."""

    def __init__(self, on_move: Callable[[MoveRecord], None]) -> None:
        super().__init__()
        self._on_move = on_move

    def move_changed(self, record: MoveRecord) -> None:
        super().move_changed(record)
        self._on_move(record)


def apply_configuration(
    configuration: Configuration, others: Mapping[str, Profile], namespace: str, file: str = ""
) -> Configuration:
    """For a process that only carries out plans of others: it suggests no moves itself, and nobody elects it.

    namespace: of the ledger, or empty for the one of the file's leaderElection. Raises ConfigError.
    """
    own = configuration.settings.rescheduling or ReschedulingSettings()
    with_own = replace(configuration, settings=replace(configuration.settings, rescheduling=own))
    found = configuration_for((RESCHEDULER.name,), with_default_source(with_own), file, others)
    leader = replace(
        found.leader_election, enabled=False, namespace=namespace or configuration.leader_election.namespace
    )
    quiet = replace(own, mode=Mode.APPROVE, strategies=())
    return replace(found, settings=replace(found.settings, rescheduling=quiet), leader_election=leader)


class ApplyProcess(Process):
    """`configuration` is one of `apply_configuration`; no move of a plan older than `max_age` seconds is started."""

    def __init__(
        self, configuration: Configuration, credentials: Credentials, plan: Plan, max_age: float, listener: Listener
    ) -> None:
        self._moves = {each.uid: each for each in plan.moves}
        self._plan, self._max_age, self._listener = plan, max_age, listener
        self._changed_at = self._submitted_at = float("-inf")
        self.results: dict[str, MoveResult] = {}
        recorder = ProgressRecorder(self._on_move)
        super().__init__(configuration, credentials, Options("trimtab-apply"), None, (APPLIER,), recorder)
        self._term = -int(self.clock.wall() * 1000)
        self._interrupted, self._aborted = asyncio.Event(), asyncio.Event()

    @property
    def _execution(self) -> Execution:
        return self.engine.controller(Rescheduling).execution

    def _on_move(self, record: MoveRecord) -> None:
        self._changed_at = self.clock()
        if record.uid in self._moves and not _is_unwritten(record):
            self._listener.on_move(record)

    async def _pause_reason(self) -> str:
        leader = self.configuration.leader_election
        server = ApiServer(self.read_transport, self.credentials)
        return await pause_reason(server, leader.namespace, (leader.name, *LEASES))

    async def _run_election(self) -> None:
        await self.informers.wait_synced()
        self.runtime.dispatch(LeaseAcquired(self._term, self.clock()))
        await asyncio.Event().wait()

    # --- from start to end

    async def apply(self) -> list[MoveResult]:
        """What became of each move, in the order of the plan. Raises CannotApply if none could be tried."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.interrupt)
        tasks = [asyncio.create_task(each) for each in self._tasks()]
        work, aborted = asyncio.create_task(self._carry_out()), asyncio.create_task(self._aborted.wait())
        try:
            with self.watchdog.watching():
                done, _ = await asyncio.wait({*tasks, work, aborted}, return_when=asyncio.FIRST_COMPLETED)
            for task in done & {*tasks}:
                log_task_exit(task)
            if work in done:
                work.result()
            await self.api_calls.drain(WRITE_TIMEOUT if work in done else 0.0)
        finally:
            for each in (*tasks, work, aborted):
                each.cancel()
            await asyncio.gather(*tasks, work, aborted, return_exceptions=True)
            await self._close()
        return [self.results.get(uid) or self._left(move) for uid, move in self._moves.items()]

    def interrupt(self) -> None:
        """The first time no further move is started; the second time this ends at once."""
        (self._aborted if self._interrupted.is_set() else self._interrupted).set()

    def _left(self, move: Move) -> MoveResult:
        record = self._record(move.uid)
        if record is None:
            return MoveResult(move, Verdict.SKIPPED, INTERRUPTED)
        return MoveResult(move, Verdict.LEFT, record.state.value, record)

    async def _carry_out(self) -> None:
        await self._wait_until_ready()
        self._changed_at = self.clock()
        while self._unsettled():
            self._submit()
            await asyncio.sleep(POLL)
            self._collect()
            if reason := self._why_give_up():
                self._give_up(reason)
        for _ in range(int(WRITE_TIMEOUT / POLL)):
            if not self._execution.is_waiting:
                return
            await asyncio.sleep(POLL)

    async def _wait_until_ready(self) -> None:
        deadline, said = self.clock() + READY_TIMEOUT, ""
        while reason := self._why_not_ready():
            if self._interrupted.is_set():
                raise CannotApply("interrupted before any move was started")
            if self.clock() > deadline:
                raise CannotApply(f"nothing was moved: {reason}")
            if reason != said:
                self._listener.on_wait(reason)
                said = reason
            await asyncio.sleep(POLL)

    def _why_not_ready(self) -> str:
        state, execution = self.engine.state, self._execution
        if state.unsynced or state.term is None:
            return "; ".join(state.forbidden.values()) or f"{', '.join(sorted(state.unsynced)) or 'objects'} are listed"
        if execution.problem:
            return execution.problem
        refused = cluster_refusal(execution.guard_context(self.clock()))
        if refused is not None:
            return f"{refused.guard}: {refused.reason}"
        if unknown := self.scheduler_leases.not_known_yet:
            return unknown
        return "" if self.pollers.have_read_history() else "the metric sources are asked for the last day"

    # --- moves

    def _record(self, uid: str) -> MoveRecord | None:
        """Of this process; a charge that was never written is none."""
        record = self._execution.records.get(uid)
        return None if record is None or record.term != self._term or _is_unwritten(record) else record

    def _unsettled(self) -> list[Move]:
        return [move for uid, move in self._moves.items() if uid not in self.results]

    def _unstarted(self) -> list[Move]:
        return [move for move in self._unsettled() if self._record(move.uid) is None]

    def _submit(self) -> None:
        """Moves that were dropped, because another process wrote the ledger, are submitted again."""
        moves, now = self._unstarted(), self.clock()
        if moves and not self._execution.is_waiting and now >= self._submitted_at + SUBMIT_INTERVAL:
            self._submitted_at = now
            self._dispatch(moves)

    def _dispatch(self, moves: Iterable[Move]) -> None:
        self.runtime.dispatch(PlanApproved(struct_replace(self._plan, moves=tuple(moves)), self.clock()))

    def _collect(self) -> None:
        for move in self._unsettled():
            record, skipped = self._record(move.uid), self._execution.skipped.get(move.uid, "")
            if record is None and skipped:
                self._skip(move, skipped)
            elif record is not None and not record.under_way:
                self._settle(move, record)

    def _settle(self, move: Move, record: MoveRecord) -> None:
        verdicts = {MoveState.DONE: Verdict.DONE, MoveState.CANCELLED: Verdict.SKIPPED}
        verdict = verdicts.get(record.state, Verdict.FAILED)
        self.results[move.uid] = MoveResult(move, verdict, record.message or record.state.value, record)

    def _skip(self, move: Move, reason: str) -> None:
        self.results[move.uid] = MoveResult(move, Verdict.SKIPPED, reason)
        self._listener.on_skip(move, reason)

    def _why_give_up(self) -> str:
        """Why moves that were not started never will be."""
        if self._interrupted.is_set():
            return INTERRUPTED
        if self.clock.wall() - self._plan.at > self._max_age:
            return f"the plan is older than {format_duration(self._max_age)} by now"
        if self.clock() - self._changed_at > IDLE_TIMEOUT:
            refused = cluster_refusal(self._execution.guard_context(self.clock()))
            why = f"{refused.guard}: {refused.reason}" if refused is not None else "too many moves are in progress"
            return f"it could not be started within {format_duration(IDLE_TIMEOUT)}: {why}"
        return ""

    def _give_up(self, reason: str) -> None:
        unstarted = self._unstarted()
        if unstarted:
            self._dispatch(())
        for move in unstarted:
            self._skip(move, reason)


def _is_unwritten(record: MoveRecord) -> bool:
    """Another process wrote the ledger first: the move was not sent, and may be tried again."""
    return record.state is MoveState.CANCELLED and record.message.startswith(NOT_WRITTEN)
