"""At most one elector may write at any time, whatever happens to clocks, responses and the lease."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, json_response
from tests.kube.lease_server import CONFLICT, SINK_EPOCH, Contender, LeaseServer, lease_spec
from trimtab.config.configuration import LeaderElection
from trimtab.core.model.events import LeaseAcquired, LeaseLost
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_first_one_creates_the_lease() -> None:
    """Without a lease, it is created with our name and 15 s, and we lead with term 0."""
    server = LeaseServer()
    me = Contender(server)
    assert 0 == await me.elector.acquire()
    assert me.elector.may_write()
    assert server.spec is not None
    assert ("me", 15, 0) == tuple(
        server.spec[k] for k in ("holderIdentity", "leaseDurationSeconds", "leaseTransitions")
    )
    assert server.spec["renewTime"] == "2001-09-09T01:46:40.000000Z"


async def test_a_fraction_of_a_second_is_rounded_up() -> None:
    """The lease is in whole seconds; one that says less than we rely on could be taken while we still write."""
    server = LeaseServer()
    await Contender(server, settings=LeaderElection(lease_duration=2.5, renew_deadline=2.2)).elector.acquire()
    assert server.spec is not None
    assert 3 == server.spec["leaseDurationSeconds"]


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_rejected_write_is_logged_once(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """A namespace or right that is missing shows in the log, once and not at each try."""
    server = LeaseServer(lease_spec("") if method == "PUT" else None)
    said = json_response({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "leases is forbidden"}, 403)
    server.override = lambda request: said if request.method == method else None
    task = Contender(server).start()
    await asyncio.sleep(30.0)
    assert 1 == caplog.text.count("leases is forbidden")
    assert "status 403" in caplog.text
    await ended(task)


@pytest.mark.parametrize(
    ("namespace", "name", "remedy"),
    [
        ("trimtab", "trimtab", "; apply deploy/rbac.yaml"),
        ("kube-system", "rescheduler", "to ACCOUNT, as a Role in deploy/ does, or remove leaderElection.resourceName"),
        ("scheduling", "trimtab-labeller", "to ACCOUNT, as a Role in deploy/ does, or leave --lease-namespace out"),
    ],
)
async def test_a_missing_right_names_the_lease_and_what_grants_it(
    namespace: str, name: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The files in deploy/ grant their own leases alone: for another one they would not help."""
    account = "system:serviceaccount:trimtab:trimtab"
    text = f'leases is forbidden: User "{account}" cannot get resource "leases"'
    server = LeaseServer(override=lambda _: json_response({"kind": "Status", "code": 403, "message": text}, 403))
    task = Contender(server, settings=LeaderElection(name=name, namespace=namespace)).start()
    await asyncio.sleep(3.0)
    assert remedy.replace("ACCOUNT", account) in caplog.text
    assert f"lease={namespace}/{name}" in caplog.text
    await ended(task)


async def test_a_lost_race_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A conflict is how leases work: nothing is logged."""
    server = LeaseServer(lease_spec(""), override=lambda request: CONFLICT if request.method == "PUT" else None)
    task = Contender(server).start()
    await asyncio.sleep(10.0)
    assert "" == caplog.text
    await ended(task)


async def test_a_lease_is_renewed_every_two_seconds() -> None:
    """Renewals keep holder, term and acquire time; only the renew time moves."""
    server = LeaseServer()
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(7.0)
    assert [0.0, 2.0, 4.0, 6.0] == [at for at, _ in server.history]
    assert server.spec is not None
    assert ("2001-09-09T01:46:40.000000Z", 0) == (server.spec["acquireTime"], server.spec["leaseTransitions"])
    await ended(task)


async def test_a_held_lease_is_waited_out_by_our_own_clock() -> None:
    """A lease that does not change is taken 15 s after we first saw it, however old its times say it is."""
    server = LeaseServer(lease_spec("other", renewTime="1999-01-01T00:00:00.000000Z"))
    me = Contender(server)
    assert 4 == await me.elector.acquire()
    assert 15.0 <= server.history[0][0] <= 17.1


async def test_a_renewed_lease_is_left_alone() -> None:
    """As long as the other one renews, we follow; clocks an hour and more apart do not matter."""
    server = LeaseServer()
    first, second = Contender(server, "first"), Contender(server, "second", skew=-3600.0)
    tasks = [first.start(), second.start()]
    await asyncio.sleep(120.0)
    assert {"first"} == {holder for _, holder in server.history}
    assert [] == second.events
    assert not second.elector.may_write()
    await ended(*tasks)


@pytest.mark.parametrize("spec", [lease_spec(""), lease_spec("me"), lease_spec("other", seconds=0), {}])
async def test_a_free_lease_is_taken_at_once(spec: dict[str, Any]) -> None:
    """A lease without a holder, or still ours, needs no waiting; one without a duration a second at most."""
    server = LeaseServer(spec)
    me = Contender(server)
    await me.elector.acquire()
    assert server.history[0][0] <= 2.0


async def test_the_term_rises_with_each_holder() -> None:
    """The term counts changes of hands; our own lease keeps its term."""
    for holder, term in (("", 4), ("other", 4), ("me", 3)):
        assert term == await Contender(LeaseServer(lease_spec(holder))).elector.acquire()


async def test_writing_stops_ten_seconds_after_the_last_renewal_was_sent() -> None:
    """Cut off from the server, we stop by our own clock, 10 s after sending the last good renewal, and say so."""
    server = LeaseServer()
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(4.5)
    me.cut = True
    await asyncio.sleep(9.4)
    assert me.elector.may_write()
    await asyncio.sleep(0.2)
    assert not me.elector.may_write()
    await asyncio.wait_for(task, 1.0)
    assert [
        LeaseAcquired(0, pytest.approx(SINK_EPOCH)),
        LeaseLost(pytest.approx(SINK_EPOCH + 14.1, abs=0.5)),
    ] == me.events


async def test_a_slow_renewal_counts_from_when_it_was_sent() -> None:
    """An answer that takes 4 s gives only 6 s more to write: the server counted from when it arrived, not from us."""
    server = LeaseServer()
    me = Contender(server)

    async def slowly() -> FakeResponse:
        await asyncio.sleep(4.0)
        return server.handle(me.transport.sent[-1][1])

    await me.elector.acquire()
    server.override = lambda request: slowly()  # type: ignore[assignment, return-value]
    holding = asyncio.create_task(me.elector.renew())
    await asyncio.sleep(6.1)
    me.cut = True
    await asyncio.sleep(5.8)
    assert me.elector.may_write()
    await asyncio.sleep(0.2)
    assert not me.elector.may_write()
    await ended(holding)


async def test_a_paused_leader_does_not_write_after_it_wakes() -> None:
    """Time that passes while the process is stopped counts: the first question after it is answered with no."""
    server = LeaseServer()
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(1.0)
    me.skew = 6.0  # the elector's clock jumps 30 s, while the loop has slept
    assert not me.elector.may_write()
    await asyncio.wait_for(task, 3.0)
    assert isinstance(me.events[-1], LeaseLost)


async def test_take_over_after_a_crash() -> None:
    """When the leader crashes, the other leads within the lease duration and 5 s, never while the first may still write."""
    server = LeaseServer()
    first, second = Contender(server, "first"), Contender(server, "second")
    tasks = [first.start(), second.start()]
    await asyncio.sleep(10.0)
    first.cut = True
    leader = first if first.events else second
    other = second if leader is first else first
    for _ in range(250):
        await asyncio.sleep(0.1)
        assert not (first.elector.may_write() and second.elector.may_write())
    assert isinstance(other.events[0], LeaseAcquired)
    assert other.events[0].at <= 1e9 + 10.0 + 15.0 + 5.0
    assert isinstance(leader.events[-1], LeaseLost)
    await ended(*tasks)


async def test_a_released_lease_is_taken_within_two_seconds() -> None:
    """A clean exit clears the holder; the next one leads at once, with the next term."""
    server = LeaseServer()
    first, second = Contender(server, "first"), Contender(server, "second")
    task = first.start()
    await asyncio.sleep(0.5)
    follower = second.start()
    await asyncio.sleep(4.5)
    await ended(task)
    await first.elector.release()
    assert not first.elector.may_write()
    assert server.spec is not None
    assert ("", 1) == (server.spec["holderIdentity"], server.spec["leaseDurationSeconds"])
    await asyncio.sleep(2.1)
    assert [LeaseAcquired(1, pytest.approx(SINK_EPOCH + 6.0, abs=1.1))] == second.events
    await ended(follower)


async def test_release_after_a_renewal_that_was_cut_short() -> None:
    """A renewal may have arrived though we never heard of it: the release reads again and still succeeds."""
    server = LeaseServer()
    me = Contender(server)
    await me.elector.acquire()
    assert server.spec is not None
    server.store(dict(server.spec))
    await me.elector.release()
    assert "" == server.spec["holderIdentity"]


async def test_a_late_renewal_does_not_undo_a_release() -> None:
    """A renewal under way while we release may win the race; the release is done after it, and writing stays over."""
    server = LeaseServer()
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(1.0)

    async def slowly(request: Request) -> FakeResponse:
        await asyncio.sleep(0.5)
        return server.handle(request)

    server.override = lambda request: slowly(request)  # type: ignore[assignment, return-value]
    await asyncio.sleep(1.2)
    await me.elector.release()
    assert not me.elector.may_write()
    await asyncio.sleep(5.0)
    assert not me.elector.may_write()
    assert server.spec is not None
    assert "" == server.spec["holderIdentity"]
    await asyncio.wait_for(task, 1.0)


@pytest.mark.parametrize("spec", [None, lease_spec("")])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_follower_that_exits_does_not_keep_the_lease(spec: dict[str, Any] | None, cancelled: bool) -> None:
    """The update that takes it is under way, or was cut short after it had arrived: the holder is cleared again."""
    server = LeaseServer(spec)
    me = Contender(server)

    async def slowly(request: Request) -> FakeResponse:
        response = server.handle(request)
        await asyncio.sleep(0.5 if request.method != "GET" else 0.0)
        return response

    server.override = lambda request: slowly(request)  # type: ignore[assignment, return-value]
    task = me.start()
    await asyncio.sleep(0.2)
    assert server.spec is not None and ("me", False) == (server.spec["holderIdentity"], me.elector.may_write())
    if cancelled:
        await ended(task)
    await me.elector.release()
    assert "" == server.spec["holderIdentity"]
    if not cancelled:
        await asyncio.wait_for(task, 1.0)
    assert LeaseAcquired not in map(type, me.events)


async def test_a_follower_that_exits_seeks_the_lease_no_more() -> None:
    """After its release nothing is sent, although the lease becomes free."""
    server = LeaseServer(lease_spec("other"))
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(5.0)
    await me.elector.release()
    server.store(lease_spec(""))
    await asyncio.wait_for(task, 5.0)
    assert [(5.0, "")] == server.history


async def test_a_release_has_an_end(caplog: pytest.LogCaptureFixture) -> None:
    """With a server that takes 4 s for everything, the release gives up after 5 s and says so; the lease will expire."""
    server = LeaseServer()
    me = Contender(server)
    await me.elector.acquire()

    async def slowly(request: Request) -> FakeResponse:
        await asyncio.sleep(4.0)
        return server.current() if request.method == "GET" else CONFLICT

    server.override = lambda request: slowly(request)  # type: ignore[assignment, return-value]
    await me.elector.release()
    assert 5.0 == pytest.approx(asyncio.get_running_loop().time(), abs=0.1)
    assert "failed to release lease, it will expire" in caplog.text


async def test_release_leaves_another_holder_alone() -> None:
    """A replica that lost the lease does not clear its holder."""
    server = LeaseServer()
    me = Contender(server)
    await me.elector.acquire()
    server.store(lease_spec("other"))
    await me.elector.release()
    assert server.spec is not None
    assert "other" == server.spec["holderIdentity"]


async def test_a_renewal_whose_answer_was_lost() -> None:
    """It arrived: the next one conflicts, the lease is read, found to be ours, and leadership goes on."""
    server = LeaseServer()
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(1.0)

    def lose_one(request: Request) -> FakeResponse | None:
        server.handle(request)
        server.override = lambda request: None
        return Unreachable("cut", sent=True)

    server.override = lose_one
    await asyncio.sleep(20.0)
    assert me.elector.may_write()
    assert [LeaseAcquired(0, pytest.approx(SINK_EPOCH))] == me.events
    await ended(task)


@pytest.mark.parametrize("spec", [lease_spec("other"), None])
async def test_a_lease_taken_or_deleted_by_force_is_lost_at_the_next_renewal(spec: dict[str, Any] | None) -> None:
    """Another's name in the lease, or no lease at all, ends leadership without waiting for the deadline."""
    server = LeaseServer()
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(1.0)
    server.spec, server.version = spec, 50
    await asyncio.wait_for(task, 2.0)
    assert not me.elector.may_write()
    assert isinstance(me.events[-1], LeaseLost)


@pytest.mark.parametrize(
    "answer",
    [
        Unreachable("down", sent=False),
        json_response(b"<html>", 200),
        json_response(b"busy", 429, **{"Retry-After": "1"}),
        json_response(b"", 500),
        json_response(b"not here", 404),
        json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, 403),
    ],
)
async def test_nonsense_is_no_lease(answer: FakeResponse) -> None:
    """Nobody leads by an unusable answer; with valid answers again, somebody does."""
    server = LeaseServer(override=lambda request: answer)
    me = Contender(server)
    task = me.start()
    await asyncio.sleep(10.0)
    assert [] == me.events
    server.override = lambda request: None
    await asyncio.sleep(2.1)
    assert [LeaseAcquired] == [type(event) for event in me.events]
    server.override = lambda request: answer
    await asyncio.sleep(7.5)
    assert not isinstance(me.events[-1], LeaseLost)
    await asyncio.wait_for(task, 5.0)
    assert isinstance(me.events[-1], LeaseLost)


async def test_lease_acquired_is_sent_after_the_preparation() -> None:
    """LeaseAcquired comes only when the stores are fresh, and never for a lease that was lost meanwhile."""
    for cut in (False, True):
        server = LeaseServer()
        me = Contender(server)

        async def prepare() -> None:
            await asyncio.sleep(30.0)

        me.prepare = prepare  # type: ignore[method-assign]
        task = me.start()
        await asyncio.sleep(1.0)
        assert [] == me.events
        me.cut = cut
        await asyncio.sleep(30.0)
        assert [LeaseLost if cut else LeaseAcquired] == [type(event) for event in me.events]
        await ended(task)
