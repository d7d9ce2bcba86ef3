"""Follows the leases of other schedulers, so that no pod is moved whose scheduler would not place its replacement.

    not read yet ──▶ not renewed yet ──renewed──▶ at work ◀──renewed── not renewed for its whole duration
         │                                           └──────────────────────▶┘
         └─(it does not exist, or may not be read)──▶ unknown: nothing is refused

As in leader election, a lease counts as renewed when it is seen to change, by our own clock: times of other clocks are never
compared with ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from math import inf

from trimtab.core.model.events import Event, SchedulerChecked
from trimtab.kube.lease import boot_time
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.decoding import read_status
from trimtab.wire.lease import Lease, get_lease_request, read_lease
from trimtab.wire.outcomes import FORBIDDEN, NOT_FOUND, OK

log = logging.getLogger(__name__)
INTERVAL, TIMEOUT = 2.0, 5.0  # schedulers renew their leases every 2 s unless set
NOT_READ, NOT_YET = "has not been read yet", "has not been seen to be renewed yet"
NOT_HELD = "is held by nobody: is it running?"
NOT_RENEWED = "is not renewed any more: is it running? If it runs without leader election, delete the lease"


class ObservedLease:
    """One lease as it was seen by our clock; `problem` is why its scheduler may not be at work."""

    def __init__(self, clock: Callable[[], float] = boot_time) -> None:
        self._clock = clock
        self.problem = NOT_READ
        self._renew_time, self._duration = "", 0.0
        self._read_at = self._renewed_at = -inf  # first, and last

    def read(self, lease: Lease) -> None:
        now = self._clock()
        if self._read_at == -inf:
            self._read_at = now
        elif lease.renew_time != self._renew_time:
            self._renewed_at = now
        self._renew_time, self._duration = lease.renew_time, float(max(lease.duration_seconds, 1))
        self.problem = NOT_YET if lease.holder else NOT_HELD
        self.grow_older()

    def grow_older(self) -> None:
        """Also without an answer: the last renewal counts for as long as it does for other replicas of the scheduler."""
        if self._read_at > -inf and self.problem != NOT_HELD:
            is_old = self._clock() > max(self._renewed_at, self._read_at) + self._duration + INTERVAL
            self.problem = NOT_RENEWED if is_old else "" if self._renewed_at > -inf else NOT_YET

    def cannot_be_read(self) -> None:
        self.problem = ""
        self._read_at = self._renewed_at = -inf


class SchedulerLeases:
    """`names` are the leases by the names of their schedulers; the sink gets a SchedulerChecked for each change."""

    def __init__(
        self,
        transport: Transport,
        names: Callable[[], Mapping[str, str]],
        sink: Callable[[Event], None],
        now: Callable[[], float],
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._transport, self._names, self._sink, self._now, self._clock = transport, names, sink, now, clock
        self._observed: dict[str, ObservedLease] = {}  # by the lease
        self._told: dict[str, str] = {}
        self._unreadable: dict[str, str] = {}

    @property
    def not_known_yet(self) -> str:
        """Of a lease that was not read, or not read twice, in words."""
        return next((each for each in self._told.values() if each.endswith((NOT_READ, NOT_YET))), "")

    async def run(self) -> None:
        while True:
            names = self._names()
            for scheduler, lease in names.items():
                self._tell(scheduler, lease)
            for lease in dict.fromkeys(names.values()):
                await self.check(lease)
            for scheduler in [each for each in self._told if each not in names]:
                self._say(scheduler, "")
            await asyncio.sleep(INTERVAL)

    async def check(self, lease: str) -> None:
        """Read a lease, and tell what follows for its schedulers."""
        namespace, _, name = lease.partition("/")
        try:
            response = await self._transport.send(get_lease_request(namespace, name), TIMEOUT)
        except Unreachable:
            self._of(lease).grow_older()
        else:
            self._take(lease, response)
        for scheduler, its_lease in self._names().items():
            if its_lease == lease:
                self._tell(scheduler, lease)

    def _of(self, lease: str) -> ObservedLease:
        return self._observed.setdefault(lease, ObservedLease(self._clock))

    def _take(self, lease: str, response: Response) -> None:
        found, observed = read_lease(response.body) if response.status == OK else None, self._of(lease)
        if isinstance(found, Lease):
            self._unreadable.pop(lease, None)
            observed.read(found)
            return
        status = read_status(response.body)
        if response.status == FORBIDDEN or (response.status == NOT_FOUND and status.reason == "NotFound"):
            observed.cannot_be_read()
            self._log_unreadable(lease, status.message)
        else:
            observed.grow_older()

    def _log_unreadable(self, lease: str, message: str) -> None:
        """Once for each reason."""
        if self._unreadable.get(lease) != message:
            self._unreadable[lease] = message
            log.info(
                "lease of a scheduler cannot be read, so one pod is moved at a time until a replacement got a node: "
                "lease=%s error=%s",
                lease,
                message,
            )

    def _tell(self, scheduler: str, lease: str) -> None:
        problem = self._of(lease).problem
        self._say(scheduler, f"lease {lease} of scheduler {scheduler} {problem}" if problem else "")

    def _say(self, scheduler: str, problem: str) -> None:
        if self._told.get(scheduler) != problem:
            if problem.endswith((NOT_HELD, NOT_RENEWED)):
                log.warning("pods of a scheduler are not moved: scheduler=%s reason=%s", scheduler, problem)
            self._told[scheduler] = problem
            self._sink(SchedulerChecked(scheduler, problem, self._now()))
