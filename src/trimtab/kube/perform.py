"""Decides how and in which order instructions are carried out; leaves what to wish, and what an outcome means, to the core.

Bind, Reread, Preempt, BindVolume, SelectNode, LabelNode ──▶ one queue, `in_flight` at a time ──▶ an event with the outcome
Preempt ──▶ the victim's condition is patched ──(200)──▶ the victim is deleted
MarkUnscheduled, Nominate ──▶ the newest of each for a pod, in one patch, in a lull between binds
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

from trimtab.core.model.event import (
    BindDone,
    BindFailed,
    Event,
    Fault,
    LabelDone,
    LabelFailed,
    PreemptDone,
    PreemptFailed,
    RereadDone,
    RereadFailed,
    StageAnswered,
)
from trimtab.core.model.instruction import (
    Bind,
    BindVolume,
    Instruction,
    LabelNode,
    MarkUnscheduled,
    Nominate,
    Preempt,
    Reread,
    SelectNode,
    Tell,
)
from trimtab.kube.lull import Lull
from trimtab.kube.posting import Posting
from trimtab.kube.stamps import to_the_second
from trimtab.kube.transport import Transport, Unreachable
from trimtab.kube.writing import Writer
from trimtab.wire.objects.binding import promise_outcome, promise_request
from trimtab.wire.objects.marking import described, label_outcome, label_request
from trimtab.wire.outcome import bind_outcome, preempt_outcome, reread_outcome
from trimtab.wire.pod import PodReader
from trimtab.wire.request import bind_request, delete_request, reread_request, status_request, victim_request
from trimtab.wire.status import read_status

log = logging.getLogger(__name__)
IN_FLIGHT = 20
PATCHERS = 2
# The server itself gives up on a write after 34 s. To wait longer than that turns most unknown outcomes into known ones.
BIND_PATIENCE = 40.0
READ_PATIENCE = 10.0
PATCH_PATIENCE = 10.0
OK = 200
REMEMBERED_AT_MOST = 100_000

Wish = Bind | Reread | Preempt | BindVolume | SelectNode | LabelNode
PodStatus = tuple[MarkUnscheduled | None, Nominate | None]


class Performer:
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
        in_flight: int = IN_FLIGHT,
        wall: Callable[[], float] | None = None,  # what is written is stamped by it; by the clock if there is none
    ) -> None:
        self.patches_failed = 0
        self._transport, self._sink, self._clock, self._reader = transport, sink, clock, reader
        self._in_flight, self._wall = in_flight, wall or clock
        self._lull = Lull(in_flight // 2)
        self._writer = Writer(transport, may_write, random)
        self.posting = Posting(self._writer, self._wall, self._lull, instance)
        self._wishes: asyncio.Queue[Wish] = asyncio.Queue()
        self._statuses: dict[str, PodStatus] = {}
        self._to_patch: asyncio.Queue[str] = asyncio.Queue()
        self._patching: dict[str, asyncio.Event] = {}
        self._called_unscheduled: dict[str, None] = {}

    @property
    def under_way(self) -> int:
        """Wishes that are queued or sent: all but statuses and Events, which wait for a lull."""
        return self._lull.under_way

    @property
    def settled(self) -> bool:
        """Whether all that was sent has been answered, but for Events, and no wish waits."""
        return not self.under_way and not self._patching

    def perform(self, instruction: Instruction) -> None:
        """Take an instruction in; never waits."""
        match instruction:
            case LabelNode(observe=True):
                log.info(
                    "would mark: node=%s change=%s why=%s", instruction.node, described(instruction), instruction.why
                )
            case Bind() | Reread() | Preempt() | BindVolume() | SelectNode() | LabelNode():
                if isinstance(instruction, Bind):  # a pod that gets a node is not called unschedulable afterwards
                    self._statuses.pop(instruction.uid, None)
                self._lull.begin()
                self._wishes.put_nowait(instruction)
            case MarkUnscheduled() | Nominate():
                self._note(instruction)
            case Tell():
                self.posting.tell(instruction)

    def _note(self, news: MarkUnscheduled | Nominate) -> None:
        if news.uid not in self._statuses:
            self._to_patch.put_nowait(news.uid)
        mark, nominate = self._statuses.get(news.uid, (None, None))
        self._statuses[news.uid] = (news, nominate) if isinstance(news, MarkUnscheduled) else (mark, news)

    async def run(self) -> None:
        """Perform for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._in_flight):
                group.create_task(self._fulfil())
            for _ in range(PATCHERS):
                group.create_task(self._patch_statuses())
            group.create_task(self.posting.run())

    async def drain_binds(self, seconds: float) -> None:
        """Wait for binds and whatever else stands in their queue, but not longer; nothing is cancelled by this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wishes.join()

    async def drain(self, seconds: float) -> bool:
        """Whether all that was asked for is done within so many seconds; nothing is cancelled by this."""
        try:
            async with asyncio.timeout(seconds):
                await self._wishes.join()
                await self._to_patch.join()
                await self.posting.drained()
        except TimeoutError:
            return False
        return True

    async def _fulfil(self) -> None:
        while True:
            wish = await self._wishes.get()
            with self._lull.ending():
                outcome = await self._outcome(wish)
            self._sink(outcome)
            self._wishes.task_done()

    async def _outcome(self, wish: Wish) -> Event:
        match wish:
            case Bind():
                return await self._bind(wish)
            case Reread():
                return await self._reread(wish)
            case Preempt():
                return await self._preempt(wish)
            case LabelNode():
                return await self._label(wish)
        return await self._promise(wish)

    async def _label(self, wish: LabelNode) -> LabelDone | LabelFailed:
        try:
            response = await self._writer.send(label_request(wish), BIND_PATIENCE)
        except Unreachable as error:
            outcome: LabelDone | LabelFailed = LabelFailed(wish.node, str(error), self._clock())
        else:
            outcome = label_outcome(wish, response.status, response.body, self._clock())
        if isinstance(outcome, LabelDone):
            log.info("marked: node=%s change=%s why=%s", wish.node, described(wish), wish.why)
        else:
            log.warning("not marked: node=%s change=%s problem=%s", wish.node, described(wish), outcome.message)
        return outcome

    async def _promise(self, wish: BindVolume | SelectNode) -> StageAnswered:
        try:
            response = await self._writer.send(promise_request(wish), BIND_PATIENCE)
        except Unreachable as error:
            return StageAnswered(wish.uid, self._clock(), str(error))
        return promise_outcome(wish, response.status, response.body, self._clock())

    async def _preempt(self, preempt: Preempt) -> PreemptDone | PreemptFailed:
        try:
            request = victim_request(preempt, to_the_second(self._wall()))
            response = await self._writer.send(request, BIND_PATIENCE)
            if response.status == OK:
                response = await self._writer.send(delete_request(preempt), BIND_PATIENCE)
        except Unreachable as error:
            return PreemptFailed(preempt.uid, preempt.preemptor, str(error), self._clock())
        return preempt_outcome(preempt, response.status, response.body, self._clock())

    async def _bind(self, bind: Bind) -> BindDone | BindFailed:
        await self._answered(bind.uid)
        try:
            response = await self._writer.send(bind_request(bind), BIND_PATIENCE)
        except Unreachable as error:
            fault = Fault.UNKNOWN if error.sent else Fault.NOT_SENT
            return BindFailed(bind.uid, bind.node, fault, str(error), self._clock())
        return bind_outcome(bind.uid, bind.node, response.status, response.body, self._clock())

    async def _reread(self, reread: Reread) -> RereadDone | RereadFailed:
        try:
            response = await self._transport.send(reread_request(reread), READ_PATIENCE)
        except Unreachable:
            return RereadFailed(reread.uid, self._clock())
        return reread_outcome(reread.uid, response.status, response.body, self._clock(), self._reader)

    async def _patch_statuses(self) -> None:
        while True:
            uid = await self._to_patch.get()
            await self._lull.wait()
            await self._answered(uid)
            if (status := self._statuses.pop(uid, None)) is not None:
                with self._under_way(uid):
                    await self._patch(*status)
            self._to_patch.task_done()

    @contextmanager
    def _under_way(self, uid: str) -> Iterator[None]:
        answered = self._patching[uid] = asyncio.Event()
        try:
            yield
        finally:
            del self._patching[uid]
            answered.set()

    async def _answered(self, uid: str) -> None:
        """Until no patch of this pod is under way: what is sent next must also arrive next."""
        while (answered := self._patching.get(uid)) is not None:
            await answered.wait()

    async def _patch(self, mark: MarkUnscheduled | None, nominate: Nominate | None) -> None:
        pod = mark or nominate
        assert pod is not None
        since = "" if pod.uid in self._called_unscheduled else to_the_second(self._wall())
        try:
            response = await self._writer.send(status_request(mark, nominate, since), PATCH_PATIENCE)
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
        self._called_unscheduled[uid] = None
        if len(self._called_unscheduled) > REMEMBERED_AT_MOST:
            del self._called_unscheduled[next(iter(self._called_unscheduled))]
