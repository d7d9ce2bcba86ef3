"""Carries out the engine's instructions: one table says how, and each outcome goes back to the engine as an event.

::

    Bind, GetPod, Preempt, Evict, BindVolume, SelectNode, LabelNode, ReadLedger, WriteLedger, StartSurge, EndSurge,
    ResizePod
                                   ──▶ one queue, `max_in_flight` at a time ──▶ outcome event
                                       └─(Evict, StartSurge, ResizePod: all moves are paused, or too late)──▶ not sent
    SetUnschedulable, Nominate ──▶ the newest of each for a pod, in one patch, behind the LowPriorityGate
                                       ├─(a Bind of the pod is submitted first)──▶ dropped
                                       └─(sent)──▶ a Bind of the pod waits for the answer
    EmitEvent ──▶ EventRecorder, behind the LowPriorityGate
    LabelNode with observe_only ──▶ the log
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from trimtab.core.model.events import BindFailed, BindFailure, Event, GetPodDone
from trimtab.core.model.instructions import (
    Bind,
    Evict,
    Instruction,
    LabelNode,
    Nominate,
    SetUnschedulable,
    StartSurge,
)
from trimtab.kube.bind_refusals import BindRefusals
from trimtab.kube.call_table import ApiCall, Lane, call_table
from trimtab.kube.event_recorder import EventRecorder
from trimtab.kube.surge import TOO_LATE
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.kube.writer import LowPriorityGate, Writer
from trimtab.wire.outcomes import (
    OK,
    Reply,
)
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import (
    Request,
    format_label_change,
    pod_status_request,
    rfc3339,
)

log = logging.getLogger(__name__)
MAX_IN_FLIGHT = 20
STATUS_WORKERS = 2
PATCH_TIMEOUT = 10.0
MAX_REMEMBERED = 100_000
UNPROCESSABLE = 422


async def never_paused() -> str:
    return ""


PodStatus = tuple[SetUnschedulable | None, Nominate | None]


class ApiCalls:
    """Queues and workers for instructions; outcomes go to the sink as events."""

    def __init__(
        self,
        transport: Transport,
        sink: Callable[[Event], None],
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        random: Random,
        reader: PodReader,
        instance: str,
        max_in_flight: int = MAX_IN_FLIGHT,
        wall: Callable[[], float] | None = None,  # for times written into objects; `clock` by default
        ledger_namespace: str = "",
        paused: Callable[[], Awaitable[str]] = never_paused,  # asked right before a pod is moved: why it must not be
    ) -> None:
        self.patches_failed = 0
        self.bind_refusals = BindRefusals(clock)
        self.on_gone: Callable[[str], None] = lambda reason: None  # the API server does not have a pod that we know
        self._transport, self._sink, self._clock = transport, sink, clock
        self._max_in_flight, self._wall = max_in_flight, wall or clock
        self._table = call_table(reader, self._timestamp, ledger_namespace)
        self._paused = paused
        self._low_priority = LowPriorityGate(max_in_flight // 2)
        self._writer = Writer(transport, may_write, random)
        self.event_recorder = EventRecorder(self._writer, self._wall, self._low_priority, instance)
        self._calls: asyncio.Queue[Instruction] = asyncio.Queue()
        self._statuses: dict[str, PodStatus] = {}
        self._to_patch: asyncio.Queue[str] = asyncio.Queue()
        self._patching: dict[str, asyncio.Event] = {}
        self._condition_set: dict[str, None] = {}
        self._lanes: Mapping[Lane, Callable[[Any], None]] = {
            Lane.CALL: self._queue_call,
            Lane.POD_STATUS: self._queue_status,
            Lane.EVENT: self.event_recorder.record,
        }

    @property
    def in_flight(self) -> int:
        """Calls that are queued or sent; pod statuses and Events do not count."""
        return self._low_priority.in_flight

    @property
    def idle(self) -> bool:
        """Whether no call is queued and everything sent has been answered; Events do not count."""
        return not self.in_flight and not self._patching

    def submit(self, instruction: Instruction) -> None:
        """Queue an instruction; never waits."""
        self._lanes[self._table[type(instruction)].lane](instruction)

    def _queue_call(self, instruction: Instruction) -> None:
        if isinstance(instruction, LabelNode) and instruction.observe_only:
            change = format_label_change(instruction)
            log.info("would label node: node=%s change=%s reason=%s", instruction.node, change, instruction.reason)
            return
        if isinstance(instruction, Bind):  # a pod that gets a node must not be reported unschedulable afterwards
            self._statuses.pop(instruction.uid, None)
        self._low_priority.start()
        self._calls.put_nowait(instruction)

    def _queue_status(self, status: SetUnschedulable | Nominate) -> None:
        if status.uid not in self._statuses:
            self._to_patch.put_nowait(status.uid)
        unschedulable, nominate = self._statuses.get(status.uid, (None, None))
        self._statuses[status.uid] = (
            (status, nominate) if isinstance(status, SetUnschedulable) else (unschedulable, status)
        )

    async def run(self) -> None:
        """Carry out instructions until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._max_in_flight):
                group.create_task(self._worker())
            for _ in range(STATUS_WORKERS):
                group.create_task(self._status_worker())
            group.create_task(self.event_recorder.run())

    async def drain_binds(self, seconds: float) -> None:
        """Wait until the call queue is empty, at most so many seconds; nothing is cancelled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._calls.join()

    async def drain(self, seconds: float) -> bool:
        """Whether everything submitted is done within so many seconds; nothing is cancelled."""
        try:
            async with asyncio.timeout(seconds):
                await self._calls.join()
                await self._to_patch.join()
                await self.event_recorder.wait_drained()
        except TimeoutError:
            return False
        return True

    async def _worker(self) -> None:
        while True:
            instruction = await self._calls.get()
            with self._low_priority.finishing():
                outcome = await self._perform(instruction)
            if outcome is not None:
                self._sink(outcome)
            self._calls.task_done()

    async def _perform(self, instruction: Instruction) -> Event | None:
        call = self._table[type(instruction)]
        if isinstance(instruction, Bind):
            await self._wait_for_patch(instruction.uid)
        if call.sequence is not None:
            return await self._perform_sequence(call, instruction)
        reply = Reply(0)
        for build in call.requests:
            reply = await self._send(build(instruction), call, instruction)
            if reply.status != OK:
                break
        if isinstance(instruction, Bind):
            self.bind_refusals.note(instruction, reply)
        outcome = call.outcome(instruction, reply, self._clock()) if call.outcome is not None else None
        if isinstance(outcome, BindFailed) and outcome.reason is BindFailure.GONE:
            self.on_gone(f"the API server does not have the pod {outcome.uid}")
        if isinstance(outcome, GetPodDone) and outcome.pod is not None and outcome.pod.node:
            self.bind_refusals.bound_after_all()
        if call.log is not None:
            call.log(instruction, outcome)
        return outcome

    async def _perform_sequence(self, call: ApiCall, instruction: Instruction) -> Event:
        assert call.sequence is not None
        refused = await self._why_not(instruction) if call.moves_pods else ""

        async def send(request: Request) -> Reply:
            return Reply(0, error=refused, sent=False) if refused else await self._send(request, call, instruction)

        outcome = await call.sequence(instruction, send, self._clock)
        if call.log is not None:
            call.log(instruction, outcome)
        return outcome

    async def _send(self, request: Request, call: ApiCall, instruction: Instruction) -> Reply:
        if call.moves_pods and request.method != "GET":
            return await _reply(self._move(request, call.timeout, instruction))
        send = self._writer.send if call.needs_lease else self._transport.send
        return await _reply(send(request, call.timeout))

    async def _move(self, request: Request, timeout: float, instruction: Instruction) -> Response:
        """Not sent while moves are paused, nor once it is too late, however long it waited for its turn or for a retry."""

        async def ask() -> None:
            if reason := await self._why_not(instruction):
                raise Unreachable(reason, sent=False)

        def in_time() -> bool:
            if self._is_late(instruction):
                raise Unreachable(TOO_LATE, sent=False)
            return True

        await ask()
        return await self._writer.send(request, timeout, in_time, ask)

    async def _why_not(self, instruction: Instruction) -> str:
        return await self._paused() or (TOO_LATE if self._is_late(instruction) else "")

    def _is_late(self, instruction: Instruction) -> bool:
        until = instruction.until if isinstance(instruction, Evict | StartSurge) else None
        return until is not None and self._clock() > until

    async def _status_worker(self) -> None:
        while True:
            uid = await self._to_patch.get()
            await self._low_priority.wait()
            await self._wait_for_patch(uid)
            if (status := self._statuses.pop(uid, None)) is not None:
                with self._patch_in_flight(uid):
                    await self._patch(*status)
            self._to_patch.task_done()

    @contextmanager
    def _patch_in_flight(self, uid: str) -> Iterator[None]:
        answered = self._patching[uid] = asyncio.Event()
        try:
            yield
        finally:
            del self._patching[uid]
            answered.set()

    async def _wait_for_patch(self, uid: str) -> None:
        """Wait until no status patch of this pod is in flight, so that the next request arrives after it."""
        while (answered := self._patching.get(uid)) is not None:
            await answered.wait()

    async def _patch(self, unschedulable: SetUnschedulable | None, nominate: Nominate | None) -> None:
        pod = unschedulable or nominate
        assert pod is not None
        since = "" if pod.uid in self._condition_set else self._timestamp()
        reply = await _reply(self._writer.send(pod_status_request(unschedulable, nominate, since), PATCH_TIMEOUT))
        if reply.status == UNPROCESSABLE and unschedulable is None:
            # The pod got its node before the nomination arrived, from a scheduler of another process.
            log.info("nomination came too late: pod=%s error=%s", f"{pod.namespace}/{pod.name}", reply.message)
        elif reply.status != OK:
            self.patches_failed += 1
            log.warning(
                "failed to update pod status: pod=%s status=%d error=%s",
                f"{pod.namespace}/{pod.name}",
                reply.status,
                reply.message,
            )
        elif unschedulable is not None:
            self._remember(pod.uid)

    def _remember(self, uid: str) -> None:
        """The condition's lastTransitionTime is that of its first change, so later patches leave it out."""
        self._condition_set[uid] = None
        if len(self._condition_set) > MAX_REMEMBERED:
            del self._condition_set[next(iter(self._condition_set))]

    def _timestamp(self) -> str:
        return rfc3339(self._wall())


async def _reply(response: Awaitable[Response]) -> Reply:
    """The response, or why there is none."""
    try:
        status, _, body = await response
    except Unreachable as error:
        return Reply(0, error=str(error), sent=error.sent)
    return Reply(status, body)
