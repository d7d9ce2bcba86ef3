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
from trimtab.core.model.events import Event, LeaseAcquired, LeaseLost
from trimtab.kube.timestamps import rfc3339_micro
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.decode_errors import Malformed
from trimtab.wire.lease import Lease, create_lease_request, get_lease_request, read_lease, update_lease_request
from trimtab.wire.requests import Request
from trimtab.wire.status import read_status

log = logging.getLogger(__name__)
RELEASE_TIMEOUT = 5.0
NEVER = float("-inf")
NOT_FOUND, CONFLICT = 404, 409
WRITTEN = (200, 201)


def boot_time() -> float:
    """Seconds that also pass while the machine sleeps, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class LeaderElector:
    """Strives for one Lease, holds it and gives it back."""

    def __init__(
        self,
        transport: Transport,
        settings: LeaderElection,
        identity: str,
        wall: Callable[[], float],
        random: Random,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self.term = 0
        self.holder = ""
        self._transport, self._settings, self._identity = transport, settings, identity
        self._wall, self._random, self._clock = wall, random, clock
        self._lease: Lease | None = None
        self._renewed_at = NEVER
        self._lost = False
        self._observed, self._observed_at = b"", NEVER
        self.last_error = ""  # what keeps us from taking it, if not another one who holds it

    def may_write(self) -> bool:
        """Whether nobody else can lead yet, whatever happened to us meanwhile."""
        return not self._lost and self._clock() < self._renewed_at + self._settings.renew_deadline

    async def run(
        self, sink: Callable[[Event], None], prepare: Callable[[], Awaitable[None]], now: Callable[[], float]
    ) -> None:
        """Follow until we lead, prepare, say Leading, and return after Following when leadership is lost.

        now: the time of whoever is told.
        """
        term = await self.acquire()
        holding = asyncio.create_task(self.renew())
        try:
            await self._run_prepare(prepare, holding)
            if self.may_write():
                sink(LeaseAcquired(term, now()))
            await holding
        finally:
            holding.cancel()
            sink(LeaseLost(now()))

    async def _run_prepare(self, prepare: Callable[[], Awaitable[None]], holding: asyncio.Task[None]) -> None:
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
        await self._try_acquire()
        while not self.may_write():
            await asyncio.sleep(self._settings.retry_period * self._random.uniform(0.75, 1.0))
            await self._try_acquire()
        log.info("leading: lease=%s term=%d identity=%s", self._name, self.term, self._identity)
        return self.term

    async def renew(self) -> None:
        """Renew again and again; returns when leadership is lost."""
        while self.may_write():
            await asyncio.sleep(min(self._settings.retry_period, max(self._seconds_left, 0.0)))
            if self.may_write() and not await self._try_renew():
                break
        if self._lost:
            return
        self._lost = True
        log.warning("leadership lost: lease=%s term=%d holder=%s", self._name, self.term, self.holder)

    async def release(self) -> None:
        """Stop writing at once, then take our name out of the lease, if it is still there; 5 s at most."""
        held, self._lost = self.may_write(), True
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                # A second time, because a renewal that was cut short may have arrived all the same.
                if held and await self._release() == CONFLICT and await self._still_held():
                    await self._release()
        except (Unreachable, TimeoutError) as error:
            log.warning(
                "lease not released, it will expire: lease=%s problem=%s", self._name, str(error) or "no answer"
            )

    async def _release(self) -> int:
        if self._lease is None:
            return 0
        given_up = msgspec.structs.replace(self._stamped(self._lease), holder="", duration_seconds=1)
        response = await self._transport.send(update_lease_request(given_up), RELEASE_TIMEOUT)
        if response.status not in (200, CONFLICT, NOT_FOUND):
            raise _error(response)
        return response.status

    @property
    def _name(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"

    @property
    def _seconds_left(self) -> float:
        return self._renewed_at + self._settings.renew_deadline - self._clock()

    @property
    def _request_timeout(self) -> float:
        """Short enough for a second try before the deadline."""
        return self._settings.renew_deadline / 2

    async def _try_acquire(self) -> None:
        try:
            found = await self._read()
            if found is None:
                await self._take(create_lease_request(self._new_lease()))
            elif self._is_free(found):
                await self._take(update_lease_request(self._taken_over(found)))
        except Unreachable as error:
            self._log_error(str(error))
        else:
            self.last_error = ""

    async def _take(self, request: Request) -> None:
        """Somebody else may be faster; any other refusal is for people to mend."""
        response = await self._write(request, self._request_timeout)
        if response.status not in (*WRITTEN, CONFLICT):
            raise _error(response)

    def _log_error(self, problem: str) -> None:
        """Once for each problem, not at each try."""
        if problem != self.last_error:
            self.last_error = problem
            log.warning("lease not taken: lease=%s problem=%s", self._name, problem)

    async def _try_renew(self) -> bool:
        """False only where the lease is certainly not ours any more; else the deadline decides."""
        if self._lease is None:
            return False
        try:
            patience = max(min(self._request_timeout, self._seconds_left), 0.1)
            response = await self._write(update_lease_request(self._stamped(self._lease)), patience)
            if response.status not in (200, CONFLICT, NOT_FOUND):
                raise _error(response)
            return response.status == 200 or await self._still_held()
        except Unreachable as error:
            log.warning(
                "lease not renewed: lease=%s seconds_left=%.1f problem=%s", self._name, self._seconds_left, error
            )
            return True

    async def _still_held(self) -> bool:
        """Somebody has written it, perhaps ourselves in a renewal whose answer was lost."""
        found = await self._read()
        if found is None or found.holder != self._identity:
            return False
        self._lease = found
        return True

    async def _write(self, request: Request, timeout: float) -> Response:
        """Where the lease is ours by this, the deadline counts from before it was sent."""
        sent = self._clock()
        response = await self._transport.send(request, timeout)
        written = read_lease(response.body) if response.status in WRITTEN else None
        if isinstance(written, Lease) and written.holder == self._identity:
            self._lease, self._renewed_at = written, sent
            self.term, self.holder = written.transitions, written.holder
        return response

    async def _read(self) -> Lease | None:
        """The lease as it is, None when there is none."""
        response = await self._transport.send(
            get_lease_request(self._settings.namespace, self._settings.name), self._request_timeout
        )
        found = read_lease(response.body) if response.status == 200 else None
        if isinstance(found, Lease):
            self._observe(found)
            return found
        if response.status == 404 and read_status(response.body).reason == "NotFound":
            return None
        raise _error(response, found.error if isinstance(found, Malformed) else "")

    def _observe(self, found: Lease) -> None:
        """A lease that has changed since we looked last is as good as new, by our clock."""
        self.holder = found.holder
        if found.raw != self._observed:
            self._observed, self._observed_at = found.raw, self._clock()

    def _is_free(self, found: Lease) -> bool:
        return found.holder in ("", self._identity) or self._clock() >= self._observed_at + max(
            found.duration_seconds, 1
        )

    def _new_lease(self) -> Lease:
        empty = Lease(self._settings.namespace, self._settings.name, self._identity)
        return self._stamped(msgspec.structs.replace(empty, acquire_time=rfc3339_micro(self._wall())))

    def _taken_over(self, found: Lease) -> Lease:
        if found.holder == self._identity:
            return self._stamped(found)
        return self._stamped(
            msgspec.structs.replace(
                found,
                holder=self._identity,
                acquire_time=rfc3339_micro(self._wall()),
                transitions=found.transitions + 1,
            )
        )

    def _stamped(self, lease: Lease) -> Lease:
        duration = max(ceil(self._settings.lease_duration), 1)  # whole seconds, and never fewer than we rely on
        return msgspec.structs.replace(lease, duration_seconds=duration, renew_time=rfc3339_micro(self._wall()))


def _error(response: Response, problem: str = "") -> Unreachable:
    return Unreachable(f"status {response.status}: {problem or read_status(response.body).message}", sent=True)
