"""The lease thread: renewed while the other loop is blocked, and what it says arrives on that loop."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from tests.kube.lease_server import LeaseServer
from trimtab.apps.lease_thread import LeaseThread
from trimtab.config.configuration import LeaderElection
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.kube.transport import Unreachable
from trimtab.wire.lease import PAUSED
from trimtab.wire.requests import Request

QUICK = LeaderElection(lease_duration=1.5, renew_deadline=1.0, retry_period=0.2)
NOBODY = Credentials(ClusterConfig(server="http://127.0.0.1:1"), UserConfig(), "test")


class Held:
    """A lease thread on a fake server."""

    def __init__(self) -> None:
        self.server, self.cut = LeaseServer(), False
        self.lost_on: list[str] = []
        self.lease = LeaseThread(NOBODY, QUICK, "me", time.time, lambda: self.lost_on.append(_thread()))
        self.lease._elector._transport = FakeTransport(self.answer)
        self.acquired: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    def answer(self, request: Request) -> FakeResponse:
        return Unreachable("cut", sent=True) if self.cut else self.server.answer(request)

    async def hold(self) -> None:
        await self.lease.hold(lambda term: self.acquired.set_result((term, _thread())))


def block(seconds: float) -> None:
    """Block the loop that this runs on."""
    time.sleep(seconds)


def _fail(request: Request) -> FakeResponse:
    raise ZeroDivisionError


def _thread() -> str:
    return threading.current_thread().name


async def test_a_blocked_loop_does_not_lose_the_lease() -> None:
    """The decision loop sleeps for three leases; the lease was renewed all the time, and nobody else could have it."""
    held = Held()
    holding = asyncio.create_task(held.hold())
    try:
        assert (0, "MainThread") == await asyncio.wait_for(held.acquired, 5.0)
        renewals = len(held.server.history)
        block(3 * QUICK.lease_duration)
        assert held.lease.may_write()
        assert len(held.server.history) - renewals > 10
        assert [] == held.lost_on
    finally:
        holding.cancel()
        await held.lease.close()


async def test_the_loss_is_known_on_the_lease_thread() -> None:
    """Cut off and with this loop blocked, writing ends by passing time, and `on_lost` is called without this loop."""
    held = Held()
    holding = asyncio.create_task(held.hold())
    await asyncio.wait_for(held.acquired, 5.0)
    assert held.lease.problem() is None
    held.cut = True
    block(2 * QUICK.renew_deadline)
    assert not held.lease.may_write()
    assert ["trimtab-lease"] == held.lost_on
    assert "cut" == held.lease.problem()
    await asyncio.wait_for(holding, 5.0)
    await held.lease.close()


async def test_a_release_is_no_loss() -> None:
    """Nobody holds the lease afterwards, nothing is written, and the process is not ended."""
    held = Held()
    holding = asyncio.create_task(held.hold())
    await asyncio.wait_for(held.acquired, 5.0)
    await held.lease.release()
    await asyncio.wait_for(holding, 5.0)
    assert held.server.spec is not None
    assert ("", []) == (held.server.spec["holderIdentity"], held.lost_on)
    assert not held.lease.may_write()
    await held.lease.close()


async def test_a_process_that_ends_before_it_sought_the_lease() -> None:
    """A signal during the first lists: there is nothing to release, and nothing may be moved."""
    held = Held()
    await held.lease.release()
    assert "does not hold its lease yet" in await held.lease.pause_reason()
    await held.lease.close()
    assert [] == held.server.history


async def test_the_kill_switch_is_told_on_this_loop() -> None:
    """The annotation is seen at the next renewal, and its reason is answered when asked for."""
    held, told = Held(), asyncio.get_running_loop().create_future()
    held.lease.on_pause = lambda reason: told.set_result((reason, _thread()))
    holding = asyncio.create_task(held.hold())
    await asyncio.wait_for(held.acquired, 5.0)
    held.server.override = lambda request: _paused(held.server.handle(request))
    assert ("maintenance", "MainThread") == await asyncio.wait_for(told, 5.0)
    assert "moves are paused: maintenance" == await held.lease.pause_reason()
    holding.cancel()
    await held.lease.close()


def _paused(response: FakeResponse) -> FakeResponse:
    body: dict[str, Any] = json.loads(response.body)  # type: ignore[union-attr]
    body["metadata"]["annotations"] = {PAUSED: "maintenance"}
    return json_response(body, response.status)  # type: ignore[union-attr]


async def test_a_cancelled_holder_stops_renewing(caplog: pytest.LogCaptureFixture) -> None:
    """Cancelling the task on this loop cancels the one of the lease thread."""
    held = Held()
    holding = asyncio.create_task(held.hold())
    await asyncio.wait_for(held.acquired, 5.0)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await asyncio.sleep(0.3)
    renewals = len(held.server.history)
    await asyncio.sleep(0.6)
    assert (renewals, []) == (len(held.server.history), held.lost_on)
    await held.lease.close()
    assert "Traceback" not in caplog.text


async def test_an_error_on_the_lease_thread_is_a_loss() -> None:
    """Whatever ends the renewals ends the process, too: it would otherwise lead until its deadline and decide for ever."""
    held = Held()
    holding = asyncio.create_task(held.hold())
    await asyncio.wait_for(held.acquired, 5.0)
    held.lease._elector._transport = FakeTransport(_fail)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(holding, 5.0)
    assert ["trimtab-lease"] == held.lost_on
    await held.lease.close()


async def test_a_kill_switch_that_cannot_be_read_stops_moves() -> None:
    """Nor may a process move pods whose lease another one holds."""
    held = Held()
    holding = asyncio.create_task(held.hold())
    await asyncio.wait_for(held.acquired, 5.0)
    assert "" == await held.lease.pause_reason()
    held.cut = True
    assert "cannot be read: cut" in await held.lease.pause_reason()
    held.cut = False
    held.server.spec, held.server.version = {**(held.server.spec or {}), "holderIdentity": "other"}, 50
    assert "is not held by this process" in await held.lease.pause_reason()
    await asyncio.wait_for(holding, 5.0)
    await held.lease.close()
