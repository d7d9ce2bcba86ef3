"""`trimtab pause` and `resume`: set and remove the annotation on leases that stops all moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trimtab.kube.lease import OUR_LEASE, RESCHEDULER_LEASE
from trimtab.kube.transport import Response, Transport
from trimtab.wire.decoding import read_status
from trimtab.wire.lease import PAUSED, Lease, get_lease_request, pause_lease_request, read_lease
from trimtab.wire.outcomes import FORBIDDEN, NOT_FOUND
from trimtab.wire.requests import Request

TIMEOUT = 10.0


class LeaseName(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


USUAL = (LeaseName("trimtab", RESCHEDULER_LEASE), LeaseName(*OUR_LEASE.split("/")))
NO_LEASE = "there is no lease {}: nothing moves pods, or it has another lease: name that with --lease NAMESPACE/NAME"
GRANT = "grant the verbs get and patch on leases.coordination.k8s.io in namespace {}"


class SwitchFailed(Exception):
    """Why the switch may not hold, and what to do."""


async def switch(transport: Transport, leases: Sequence[LeaseName], reason: str | None) -> list[str]:
    """Pause moves for this reason, or resume them with None; what was done, in words.

    Of several leases those that do not exist are left out, but one must. Raises SwitchFailed and Unreachable.
    """
    lines = []
    for lease in leases:
        found = await _read(transport, lease)
        if found is not None:
            lines.append(await _switch(transport, lease, found, reason))
    if not lines:
        raise SwitchFailed(NO_LEASE.format(" or ".join(map(str, leases))))
    return lines


async def _read(transport: Transport, lease: LeaseName) -> Lease | None:
    answer = await transport.send(get_lease_request(*lease), TIMEOUT)
    if answer.status == NOT_FOUND and read_status(answer.body).reason == "NotFound":
        return None
    found = read_lease(answer.body) if answer.status == 200 else None
    if not isinstance(found, Lease):
        raise SwitchFailed(f"lease {lease} cannot be read: {_words(answer, lease)}")
    return found


async def _switch(transport: Transport, lease: LeaseName, found: Lease, reason: str | None) -> str:
    if reason is None and not found.paused:
        return f"lease {lease}: moves were not paused"
    await _write(transport, lease, pause_lease_request(*lease, reason))
    holder = f"held by {found.holder}" if found.holder else "held by nobody"
    if reason is None:
        return f"lease {lease} ({holder}): moves are resumed; they were paused: {found.paused}"
    before = f"; they were paused already: {found.paused}" if found.paused else ""
    return f"lease {lease} ({holder}): moves are paused: {reason}{before}"


async def _write(transport: Transport, lease: LeaseName, request: Request) -> None:
    answer = await transport.send(request, TIMEOUT)
    if answer.status != 200:
        raise SwitchFailed(f"annotation {PAUSED} of lease {lease} was not written: {_words(answer, lease)}")


def _words(answer: Response, lease: LeaseName) -> str:
    message = read_status(answer.body).message or f"HTTP status {answer.status}"
    return f"{message}: {GRANT.format(lease.namespace)}" if answer.status == FORBIDDEN else message
