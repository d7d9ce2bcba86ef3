"""A replica that finds the lease held lists a little later than others, and takes the lease over no later."""

from __future__ import annotations

import asyncio

import pytest

from tests.kube.lease_server import Contender, LeaseServer, lease_spec

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(("holder", "waits"), [(None, False), ("", False), ("me", False), ("other", True)])
async def test_who_waits(holder: str | None, waits: bool) -> None:
    """A standby, up to a second and at random; who may be the leader at once does not."""
    me = Contender(LeaseServer(lease_spec(holder) if holder is not None else None))
    waited = list[float]()
    for _ in range(20):
        started = now()
        await me.elector.delay_standby()
        waited.append(now() - started)
    assert max(waited) <= 1.0 and [] == me.server.history
    assert (min(waited) < 0.4 and max(waited) > 0.6) if waits else {0.0} == {*waited}


async def test_an_unknown_holder_is_not_waited_for() -> None:
    """The API server does not answer: lists have a back-off of their own."""
    me = Contender(LeaseServer(lease_spec("other")), cut=True)
    await me.elector.delay_standby()
    assert 0.0 == now()


async def test_the_lease_of_a_dead_replica_expires_from_the_first_read_on() -> None:
    """The lists between that read and the election prolong nothing, and shorten nothing."""
    me = Contender(LeaseServer(lease_spec("dead")))
    await me.elector.delay_standby()
    await asyncio.sleep(12.0)
    await me.elector.acquire()
    assert 15.0 <= now() <= 15.0 + me.settings.retry_period
