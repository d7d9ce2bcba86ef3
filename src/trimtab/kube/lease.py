"""Leader election by a Lease and our own monotonic clock, as in client-go.

    FOLLOWING ──(free; released; or unchanged for its whole duration by our clock)──▶ LEADING, term = leaseTransitions
    LEADING ──(renewed every 2 s)──▶ LEADING
    LEADING ──(10 s since the last good renewal was *sent*; or another holder in it; or it is deleted)──▶ LOST, for good
    LEADING ──(release)──▶ RELEASED: no holder in it, so that the next leader need not wait
    FOLLOWING ──(release)──▶ RELEASED: nothing more is sent, and a lease that an update under way made ours is cleared

Times in the Lease are for people: other clocks are never compared with ours. `may_write` turns false by itself as time
passes, also while this process is paused or its event loop is stuck.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from math import ceil
from random import Random
from typing import Protocol

import msgspec

from trimtab.config.configuration import LeaderElection
from trimtab.core.model.events import Event, LeaseAcquired, LeaseLost
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.forbidden import KUBE_SCHEDULER, KUBE_SCHEDULER_FILE, grant_remedy, refused_account
from trimtab.wire.lease import Lease, create_lease_request, get_lease_request, read_lease, update_lease_request
from trimtab.wire.requests import Request, rfc3339_micro

log = logging.getLogger(__name__)
RELEASE_TIMEOUT = 5.0
STANDBY_JITTER = 1.0
NEVER = float("-inf")
NOT_FOUND, CONFLICT = 404, 409
WRITTEN = (200, 201)
OUR_LEASE, LABELLER_LEASE, STOCK_LEASE = "trimtab/trimtab", "trimtab-labeller", "kube-scheduler"
RESCHEDULER_LEASE = "trimtab-rescheduler"
USE_STOCK_LEASE = (
    f"set leaderElection.resourceName to {STOCK_LEASE} and resourceNamespace to kube-system, the one lease it may use"
)
ROLE_FILES = {  # in deploy/, by the lease
    OUR_LEASE: "rbac.yaml",
    f"kube-system/{STOCK_LEASE}": "components/default-scheduler/rbac-default-scheduler.yaml",
    f"trimtab/{LABELLER_LEASE}": "components/labeller/labeller.yaml",
    f"trimtab/{RESCHEDULER_LEASE}": "components/rescheduler/rescheduler.yaml",
}
USE_OUR_LEASE = f"remove leaderElection.resourceName and resourceNamespace, so that it is {OUR_LEASE}"
USE_LABELLER_LEASE = f"leave --lease-namespace out, so that it is trimtab/{LABELLER_LEASE}"


def boot_time() -> float:
    """A monotonic clock that also runs while the machine is suspended, where the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class HoldsLease(Protocol):
    """Whoever acquires and renews a lease: a LeaderElector, here or on another thread."""

    def may_write(self) -> bool: ...

    async def hold(self, acquired: Callable[[int], None]) -> None: ...


async def lead(
    lease: HoldsLease, sink: Callable[[Event], None], prepare: Callable[[], Awaitable[None]], now: Callable[[], float]
) -> None:
    """Hold the lease: when it is acquired run `prepare` and send LeaseAcquired, and LeaseLost when it is lost.

    now: the sink's clock.
    """
    acquired: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    holding = asyncio.ensure_future(lease.hold(acquired.set_result))
    try:
        await asyncio.wait((acquired, holding), return_when=asyncio.FIRST_COMPLETED)
        if acquired.done():
            await _first_of(asyncio.ensure_future(prepare()), holding)
            if lease.may_write():
                sink(LeaseAcquired(acquired.result(), now()))
        await holding
    finally:
        holding.cancel()
        sink(LeaseLost(now()))


async def _first_of(preparation: asyncio.Future[None], holding: asyncio.Future[None]) -> None:
    """Wait for the preparation, but not longer than the lease lasts."""
    try:
        await asyncio.wait({preparation, holding}, return_when=asyncio.FIRST_COMPLETED)
        if preparation.done():
            preparation.result()
    finally:
        preparation.cancel()


class LeaderElector:
    """Acquires one Lease, renews it and releases it, on one event loop; `may_write` may be called from any thread."""

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
        self.lost = False
        self._ended = False  # lost or released
        self._taking, self._take_sent = (
            asyncio.Lock(),
            False,
        )  # the lock is held while an update that takes it is under way
        self._observed, self._observed_at = b"", NEVER
        # Why the lease could not be acquired or renewed at the last attempt, other than that another replica holds it.
        self.last_error = ""
        self.paused = ""
        self.on_pause: Callable[[str], None] = lambda reason: None

    def may_write(self) -> bool:
        """Whether no other replica can be the leader yet."""
        return not self._ended and self._clock() < self._renewed_at + self._settings.renew_deadline

    async def hold(self, acquired: Callable[[int], None]) -> None:
        """Acquire the lease, call `acquired` with its term, and renew until it is lost or released."""
        term = await self.acquire()
        if term is not None:
            acquired(term)
            await self.renew()

    async def delay_standby(self) -> None:
        """Sleep up to a second if another replica holds the lease, so that replicas started together do not list at once.

        No take-over is late for it: the lease of a replica that died expires from this read on.
        """
        try:
            found = await self._read()
        except Unreachable:
            return  # logged where it is acquired
        if found is not None and not self._is_free(found):
            await asyncio.sleep(self._random.uniform(0.0, STANDBY_JITTER))

    async def pause_reason(self) -> str:
        """Why no pod may be moved now, by the lease as the API server has it: paused, not ours, or unreadable."""
        try:
            found = await self._read()
        except Unreachable as error:
            return f"the kill switch on lease {self._name} cannot be read: {error}"
        if found is None or found.holder != self._identity:
            return f"lease {self._name} is not held by this process"
        self._announce_pause(found)
        return f"moves are paused: {found.paused}" if found.paused else ""

    def _announce_pause(self, found: Lease) -> None:
        if found.paused != self.paused:
            self.paused = found.paused
            log.warning("moves paused: reason=%s" if found.paused else "moves resumed: %s", found.paused or self._name)
            self.on_pause(found.paused)

    async def acquire(self) -> int | None:
        """Wait until the lease is ours; its term, None if it was released before."""
        await self._try_acquire()
        while not self.may_write() and not self._ended:
            await asyncio.sleep(self._settings.retry_period * self._random.uniform(0.75, 1.0))
            await self._try_acquire()
        if self._ended:
            return None
        log.info("successfully acquired lease: lease=%s term=%d identity=%s", self._name, self.term, self._identity)
        return self.term

    async def renew(self) -> None:
        """Renew until leadership is lost."""
        while self.may_write():
            await asyncio.sleep(min(self._settings.retry_period, max(self._seconds_left, 0.0)))
            if self.may_write() and not await self._try_renew():
                break
        if self._ended:
            return
        self._ended = self.lost = True
        log.warning("lost lease: lease=%s term=%d holder=%s", self._name, self.term, self.holder)

    async def release(self) -> None:
        """Stop writing at once, then clear the holder if it is still us; 5 s at most."""
        was_leader, self._ended = self.may_write(), True
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT), self._taking:
                held = was_leader or (self._take_sent and await self._still_held())
                # A second time, because a renewal that was cancelled may have arrived.
                if held and await self._release() == CONFLICT and await self._still_held():
                    await self._release()
        except (Unreachable, TimeoutError) as error:
            log.warning(
                "failed to release lease, it will expire: lease=%s error=%s", self._name, str(error) or "no answer"
            )

    async def _release(self) -> int:
        if self._lease is None:
            return 0
        released = msgspec.structs.replace(self._stamped(self._lease), holder="", duration_seconds=1)
        response = await self._transport.send(update_lease_request(released), RELEASE_TIMEOUT)
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
        """Short enough for a second attempt before the deadline."""
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
        """A conflict means that another replica was faster; any other error needs an administrator."""
        async with self._taking:
            if self._ended:
                return
            self._take_sent = True
            response = await self._write(request, self._request_timeout)
        if response.status not in (*WRITTEN, CONFLICT):
            raise _error(response)

    def _log_error(self, error: str) -> None:
        """Log each error once, not at every attempt."""
        if error != self.last_error:
            self.last_error = error
            log.warning("failed to acquire lease: lease=%s error=%s", self._name, error + self._remedy(error))

    def _remedy(self, error: str) -> str:
        """How to get the permission, if that is what is missing."""
        account = refused_account(error)
        if not account:
            return ""
        if account == KUBE_SCHEDULER and self._name == OUR_LEASE:
            return f"; apply deploy/{KUBE_SCHEDULER_FILE}, or {USE_STOCK_LEASE}"
        if (file := ROLE_FILES.get(self._name)) is not None:
            return f"; {grant_remedy(error, file, 'get, create and update of this lease')}"
        grant = f"grant get, create and update of the lease {self._name} to {account}"
        labels = self._settings.name == LABELLER_LEASE
        return f"; {grant}, as a Role in deploy/ does, or {USE_LABELLER_LEASE if labels else USE_OUR_LEASE}"

    async def _try_renew(self) -> bool:
        """False only when the lease is certainly not ours any more; else the deadline decides."""
        if self._lease is None:
            return False
        try:
            timeout = max(min(self._request_timeout, self._seconds_left), 0.1)
            response = await self._write(update_lease_request(self._stamped(self._lease)), timeout)
            if response.status not in (200, CONFLICT, NOT_FOUND):
                raise _error(response)
            held = response.status == 200 or await self._still_held()
            self.last_error = ""
            return held
        except Unreachable as error:
            self.last_error = str(error)
            log.warning(
                "failed to renew lease: lease=%s seconds_left=%.1f error=%s", self._name, self._seconds_left, error
            )
            return True

    async def _still_held(self) -> bool:
        """After a conflict: it may have been our own renewal, whose response was lost."""
        found = await self._read()
        if found is None or found.holder != self._identity:
            return False
        self._lease = found
        return True

    async def _write(self, request: Request, timeout: float) -> Response:
        """When this makes the lease ours, the deadline counts from before the request was sent."""
        sent = self._clock()
        response = await self._transport.send(request, timeout)
        written = read_lease(response.body) if response.status in WRITTEN else None
        if isinstance(written, Lease) and written.holder == self._identity:
            self._lease, self._renewed_at = written, sent
            self.term, self.holder = written.transitions, written.holder
            self._announce_pause(written)
        return response

    async def _read(self) -> Lease | None:
        """The current lease, None when there is none."""
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
        """A lease that has changed since the last read counts as renewed now, by our clock."""
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
        duration = max(ceil(self._settings.lease_duration), 1)  # whole seconds, rounded up
        return msgspec.structs.replace(lease, duration_seconds=duration, renew_time=rfc3339_micro(self._wall()))


def _error(response: Response, error: str = "") -> Unreachable:
    return Unreachable(f"status {response.status}: {error or read_status(response.body).message}", sent=True)
