"""Decides how and in which order instructions are carried out; leaves what to wish, and what an outcome means, to the core.

Bind, GetPod, Preempt, BindVolume, SelectNode, LabelNode ──▶ one queue, `max_in_flight` at a time ──▶ event with the outcome
Preempt ──▶ the victim's condition is patched ──(200)──▶ the victim is deleted
SetUnschedulable, Nominate ──▶ the newest of each for a pod, in one patch, in a lull between binds
                                  ├─(a Bind of the pod is asked for first)──▶ dropped
                                  └─(sent)──▶ a Bind of the pod waits for its answer
Tell ──▶ posting, in a lull between binds
LabelNode that only observes ──▶ the log
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    GetPodFailed,
    LabelDone,
    LabelFailed,
    PreemptDone,
    PreemptFailed,
    StageAnswered,
)
from trimtab.core.model.instructions import (
    Bind,
    BindVolume,
    EmitEvent,
    GetPod,
    Instruction,
    LabelNode,
    Nominate,
    Preempt,
    SelectNode,
    SetUnschedulable,
)
from trimtab.kube.event_recorder import EventRecorder
from trimtab.kube.low_priority_gate import LowPriorityGate
from trimtab.kube.timestamps import rfc3339
from trimtab.kube.transport import Transport, Unreachable
from trimtab.kube.writer import Writer
from trimtab.wire.objects.node_patch import format_label_change, label_outcome, label_request
from trimtab.wire.objects.volume_binding import bind_volume_outcome, bind_volume_request
from trimtab.wire.outcomes import bind_outcome, get_pod_outcome, preempt_outcome
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import (
    bind_request,
    delete_pod_request,
    disruption_target_request,
    get_pod_request,
    pod_status_request,
)
from trimtab.wire.status import read_status

log = logging.getLogger(__name__)
MAX_IN_FLIGHT = 20
STATUS_WORKERS = 2
# The server itself gives up on a write after 34 s. To wait longer than that turns most unknown outcomes into known ones.
WRITE_TIMEOUT = 40.0
READ_TIMEOUT = 10.0
PATCH_TIMEOUT = 10.0
OK = 200
MAX_REMEMBERED = 100_000

ApiCall = Bind | GetPod | Preempt | BindVolume | SelectNode | LabelNode
PodStatus = tuple[SetUnschedulable | None, Nominate | None]


class ApiCalls:
    """Carries out instructions; outcomes go to the sink as events."""

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
        wall: Callable[[], float] | None = None,  # what is written is stamped by it; by the clock if there is none
    ) -> None:
        self.patches_failed = 0
        self._transport, self._sink, self._clock, self._reader = transport, sink, clock, reader
        self._max_in_flight, self._wall = max_in_flight, wall or clock
        self._low_priority = LowPriorityGate(max_in_flight // 2)
        self._writer = Writer(transport, may_write, random)
        self.event_recorder = EventRecorder(self._writer, self._wall, self._low_priority, instance)
        self._calls: asyncio.Queue[ApiCall] = asyncio.Queue()
        self._statuses: dict[str, PodStatus] = {}
        self._to_patch: asyncio.Queue[str] = asyncio.Queue()
        self._patching: dict[str, asyncio.Event] = {}
        self._condition_set: dict[str, None] = {}

    @property
    def in_flight(self) -> int:
        """Wishes that are queued or sent: all but statuses and Events, which wait for a lull."""
        return self._low_priority.in_flight

    @property
    def idle(self) -> bool:
        """Whether all that was sent has been answered, but for Events, and no wish waits."""
        return not self.in_flight and not self._patching

    def submit(self, instruction: Instruction) -> None:
        """Take an instruction in; never waits."""
        match instruction:
            case LabelNode(observe_only=True):
                log.info(
                    "would mark: node=%s change=%s why=%s",
                    instruction.node,
                    format_label_change(instruction),
                    instruction.reason,
                )
            case Bind() | GetPod() | Preempt() | BindVolume() | SelectNode() | LabelNode():
                if isinstance(instruction, Bind):  # a pod that gets a node is not called unschedulable afterwards
                    self._statuses.pop(instruction.uid, None)
                self._low_priority.start()
                self._calls.put_nowait(instruction)
            case SetUnschedulable() | Nominate():
                self._queue_status(instruction)
            case EmitEvent():
                self.event_recorder.record(instruction)

    def _queue_status(self, news: SetUnschedulable | Nominate) -> None:
        if news.uid not in self._statuses:
            self._to_patch.put_nowait(news.uid)
        mark, nominate = self._statuses.get(news.uid, (None, None))
        self._statuses[news.uid] = (news, nominate) if isinstance(news, SetUnschedulable) else (mark, news)

    async def run(self) -> None:
        """Perform for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._max_in_flight):
                group.create_task(self._worker())
            for _ in range(STATUS_WORKERS):
                group.create_task(self._patch_statuses())
            group.create_task(self.event_recorder.run())

    async def drain_binds(self, seconds: float) -> None:
        """Wait for binds and whatever else stands in their queue, but not longer; nothing is cancelled by this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._calls.join()

    async def drain(self, seconds: float) -> bool:
        """Whether all that was asked for is done within so many seconds; nothing is cancelled by this."""
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
            wish = await self._calls.get()
            with self._low_priority.finishing():
                outcome = await self._outcome(wish)
            self._sink(outcome)
            self._calls.task_done()

    async def _outcome(self, instruction: ApiCall) -> Event:
        match instruction:
            case Bind():
                return await self._bind(instruction)
            case GetPod():
                return await self._get_pod(instruction)
            case Preempt():
                return await self._preempt(instruction)
            case LabelNode():
                return await self._label(instruction)
        return await self._bind_volume(instruction)

    async def _label(self, instruction: LabelNode) -> LabelDone | LabelFailed:
        try:
            response = await self._writer.send(label_request(instruction), WRITE_TIMEOUT)
        except Unreachable as error:
            outcome: LabelDone | LabelFailed = LabelFailed(instruction.node, str(error), self._clock())
        else:
            outcome = label_outcome(instruction, response.status, response.body, self._clock())
        if isinstance(outcome, LabelDone):
            log.info(
                "marked: node=%s change=%s why=%s",
                instruction.node,
                format_label_change(instruction),
                instruction.reason,
            )
        else:
            log.warning(
                "not marked: node=%s change=%s problem=%s",
                instruction.node,
                format_label_change(instruction),
                outcome.message,
            )
        return outcome

    async def _bind_volume(self, instruction: BindVolume | SelectNode) -> StageAnswered:
        try:
            response = await self._writer.send(bind_volume_request(instruction), WRITE_TIMEOUT)
        except Unreachable as error:
            return StageAnswered(instruction.uid, self._clock(), str(error))
        return bind_volume_outcome(instruction, response.status, response.body, self._clock())

    async def _preempt(self, preempt: Preempt) -> PreemptDone | PreemptFailed:
        try:
            request = disruption_target_request(preempt, rfc3339(self._wall()))
            response = await self._writer.send(request, WRITE_TIMEOUT)
            if response.status == OK:
                response = await self._writer.send(delete_pod_request(preempt), WRITE_TIMEOUT)
        except Unreachable as error:
            return PreemptFailed(preempt.uid, preempt.preemptor, str(error), self._clock())
        return preempt_outcome(preempt, response.status, response.body, self._clock())

    async def _bind(self, bind: Bind) -> BindDone | BindFailed:
        await self._wait_for_patch(bind.uid)
        try:
            response = await self._writer.send(bind_request(bind), WRITE_TIMEOUT)
        except Unreachable as error:
            fault = BindFailure.UNKNOWN if error.sent else BindFailure.NOT_SENT
            return BindFailed(bind.uid, bind.node, fault, str(error), self._clock())
        return bind_outcome(bind.uid, bind.node, response.status, response.body, self._clock())

    async def _get_pod(self, reread: GetPod) -> GetPodDone | GetPodFailed:
        try:
            response = await self._transport.send(get_pod_request(reread), READ_TIMEOUT)
        except Unreachable:
            return GetPodFailed(reread.uid, self._clock())
        return get_pod_outcome(reread.uid, response.status, response.body, self._clock(), self._reader)

    async def _patch_statuses(self) -> None:
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
        """Until no patch of this pod is under way: what is sent next must also arrive next."""
        while (answered := self._patching.get(uid)) is not None:
            await answered.wait()

    async def _patch(self, mark: SetUnschedulable | None, nominate: Nominate | None) -> None:
        pod = mark or nominate
        assert pod is not None
        since = "" if pod.uid in self._condition_set else rfc3339(self._wall())
        try:
            response = await self._writer.send(pod_status_request(mark, nominate, since), PATCH_TIMEOUT)
        except Unreachable as error:
            status, said = 0, str(error)
        else:
            status, said = response.status, read_status(response.body).message
        if status != OK:
            self.patches_failed += 1
            log.warning("status not set: pod=%s/%s status=%d problem=%s", pod.namespace, pod.name, status, said)
        elif mark is not None:
            self._remember(pod.uid)

    def _remember(self, uid: str) -> None:
        """The condition's time is that of its first change, so later patches leave it alone."""
        self._condition_set[uid] = None
        if len(self._condition_set) > MAX_REMEMBERED:
            del self._condition_set[next(iter(self._condition_set))]
