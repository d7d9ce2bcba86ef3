"""Decides whether this process leads, by a Lease and its own monotonic clock; leaves what leading means to the program.

    FOLLOWING ──(free; given up; or unchanged for its whole duration by our clock)──▶ LEADING, term = leaseTransitions
    LEADING ──(renewed every 2 s)──▶ LEADING
    LEADING ──(10 s since the last good renewal was *sent*; or another's name in it; or it is gone)──▶ LOST, for good
    LEADING ──(release)──▶ RELEASED: nobody's name in it, so that the next one need not wait

Times in the Lease are for people: other clocks are never compared with ours. `may_write` turns false by itself as time
passes, also while this process was paused or its loop was stuck.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from math import ceil
from random import Random

import msgspec

from trimtab.config.configuration import LeaderElection
from trimtab.core.model.event import Event, Following, Leading
from trimtab.kube.stamps import to_the_microsecond
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.fault import Malformed
from trimtab.wire.lease import Lease, lease_create, lease_get, lease_update, read_lease
from trimtab.wire.request import Request
from trimtab.wire.status import read_status

log = logging.getLogger(__name__)
RELEASE_PATIENCE = 5.0
NEVER = float("-inf")
NOT_FOUND, CONFLICT = 404, 409
WRITTEN = (200, 201)


def passing_time() -> float:
    """Seconds that also pass while the machine sleeps, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Elector:
    """Strives for one Lease, holds it and gives it back."""

    def __init__(
        self,
        transport: Transport,
        settings: LeaderElection,
        identity: str,
        wall: Callable[[], float],
        random: Random,
        clock: Callable[[], float] = passing_time,
    ) -> None:
        self.term = 0
        self.holder = ""
        self._transport, self._settings, self._identity = transport, settings, identity
        self._wall, self._random, self._clock = wall, random, clock
        self._lease: Lease | None = None
        self._renewed = NEVER
        self._over = False
        self._observed, self._observed_at = b"", NEVER
        self.problem = ""  # what keeps us from taking it, if not another one who holds it

    def may_write(self) -> bool:
        """Whether nobody else can lead yet, whatever happened to us meanwhile."""
        return not self._over and self._clock() < self._renewed + self._settings.renew_deadline

    async def run(
        self, sink: Callable[[Event], None], prepare: Callable[[], Awaitable[None]], now: Callable[[], float]
    ) -> None:
        """Follow until we lead, prepare, say Leading, and return after Following when leadership is lost.

        now: the time of whoever is told.
        """
        term = await self.acquire()
        holding = asyncio.create_task(self.hold())
        try:
            await self._prepared(prepare, holding)
            if self.may_write():
                sink(Leading(term, now()))
            await holding
        finally:
            holding.cancel()
            sink(Following(now()))

    async def _prepared(self, prepare: Callable[[], Awaitable[None]], holding: asyncio.Task[None]) -> None:
        """Wait for the preparation, but not longer than the lease lasts."""
        preparing = asyncio.ensure_future(prepare())
        try:
            await asyncio.wait({preparing, holding}, return_when=asyncio.FIRST_COMPLETED)
            if preparing.done():
                preparing.result()
        finally:
            preparing.cancel()

    async def acquire(self) -> int:
        """Wait until the lease is ours; its term."""
        await self._try_to_take()
        while not self.may_write():
            await asyncio.sleep(self._settings.retry_period * self._random.uniform(0.75, 1.0))
            await self._try_to_take()
        log.info("leading: lease=%s term=%d identity=%s", self._name, self.term, self._identity)
        return self.term

    async def hold(self) -> None:
        """Renew again and again; returns when leadership is lost."""
        while self.may_write():
            await asyncio.sleep(min(self._settings.retry_period, max(self._left, 0.0)))
            if self.may_write() and not await self._renew():
                break
        if self._over:
            return
        self._over = True
        log.warning("leadership lost: lease=%s term=%d holder=%s", self._name, self.term, self.holder)

    async def release(self) -> None:
        """Stop writing at once, then take our name out of the lease, if it is still there; 5 s at most."""
        held, self._over = self.may_write(), True
        try:
            async with asyncio.timeout(RELEASE_PATIENCE):
                # A second time, because a renewal that was cut short may have arrived all the same.
                if held and await self._give_up() == CONFLICT and await self._is_still_ours():
                    await self._give_up()
        except (Unreachable, TimeoutError) as error:
            log.warning(
                "lease not released, it will expire: lease=%s problem=%s", self._name, str(error) or "no answer"
            )

    async def _give_up(self) -> int:
        if self._lease is None:
            return 0
        given_up = msgspec.structs.replace(self._stamped(self._lease), holder="", seconds=1)
        response = await self._transport.send(lease_update(given_up), RELEASE_PATIENCE)
        if response.status not in (200, CONFLICT, NOT_FOUND):
            raise _refusal(response)
        return response.status

    @property
    def _name(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"

    @property
    def _left(self) -> float:
        return self._renewed + self._settings.renew_deadline - self._clock()

    @property
    def _patience(self) -> float:
        """Short enough for a second try before the deadline."""
        return self._settings.renew_deadline / 2

    async def _try_to_take(self) -> None:
        try:
            found = await self._read()
            if found is None:
                await self._take(lease_create(self._first()))
            elif self._is_free(found):
                await self._take(lease_update(self._taken(found)))
        except Unreachable as error:
            self._tell(str(error))
        else:
            self.problem = ""

    async def _take(self, request: Request) -> None:
        """Somebody else may be faster; any other refusal is for people to mend."""
        response = await self._write(request, self._patience)
        if response.status not in (*WRITTEN, CONFLICT):
            raise _refusal(response)

    def _tell(self, problem: str) -> None:
        """Once for each problem, not at each try."""
        if problem != self.problem:
            self.problem = problem
            log.warning("lease not taken: lease=%s problem=%s", self._name, problem)

    async def _renew(self) -> bool:
        """False only where the lease is certainly not ours any more; else the deadline decides."""
        if self._lease is None:
            return False
        try:
            patience = max(min(self._patience, self._left), 0.1)
            response = await self._write(lease_update(self._stamped(self._lease)), patience)
            if response.status not in (200, CONFLICT, NOT_FOUND):
                raise _refusal(response)
            return response.status == 200 or await self._is_still_ours()
        except Unreachable as error:
            log.warning("lease not renewed: lease=%s seconds_left=%.1f problem=%s", self._name, self._left, error)
            return True

    async def _is_still_ours(self) -> bool:
        """Somebody has written it, perhaps ourselves in a renewal whose answer was lost."""
        found = await self._read()
        if found is None or found.holder != self._identity:
            return False
        self._lease = found
        return True

    async def _write(self, request: Request, patience: float) -> Response:
        """Where the lease is ours by this, the deadline counts from before it was sent."""
        sent = self._clock()
        response = await self._transport.send(request, patience)
        written = read_lease(response.body) if response.status in WRITTEN else None
        if isinstance(written, Lease) and written.holder == self._identity:
            self._lease, self._renewed = written, sent
            self.term, self.holder = written.transitions, written.holder
        return response

    async def _read(self) -> Lease | None:
        """The lease as it is, None when there is none."""
        response = await self._transport.send(lease_get(self._settings.namespace, self._settings.name), self._patience)
        found = read_lease(response.body) if response.status == 200 else None
        if isinstance(found, Lease):
            self._observe(found)
            return found
        if response.status == 404 and read_status(response.body).reason == "NotFound":
            return None
        raise _refusal(response, found.problem if isinstance(found, Malformed) else "")

    def _observe(self, found: Lease) -> None:
        """A lease that has changed since we looked last is as good as new, by our clock."""
        self.holder = found.holder
        if found.source != self._observed:
            self._observed, self._observed_at = found.source, self._clock()

    def _is_free(self, found: Lease) -> bool:
        return found.holder in ("", self._identity) or self._clock() >= self._observed_at + max(found.seconds, 1)

    def _first(self) -> Lease:
        empty = Lease(self._settings.namespace, self._settings.name, self._identity)
        return self._stamped(msgspec.structs.replace(empty, acquired=to_the_microsecond(self._wall())))

    def _taken(self, found: Lease) -> Lease:
        if found.holder == self._identity:
            return self._stamped(found)
        return self._stamped(
            msgspec.structs.replace(
                found,
                holder=self._identity,
                acquired=to_the_microsecond(self._wall()),
                transitions=found.transitions + 1,
            )
        )

    def _stamped(self, lease: Lease) -> Lease:
        duration = max(ceil(self._settings.lease_duration), 1)  # whole seconds, and never fewer than we rely on
        return msgspec.structs.replace(lease, seconds=duration, renewed=to_the_microsecond(self._wall()))


def _refusal(response: Response, problem: str = "") -> Unreachable:
    return Unreachable(f"status {response.status}: {problem or read_status(response.body).message}", sent=True)
