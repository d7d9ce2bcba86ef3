"""The fence in the real process: who may have lost the lease writes nothing, and who leads does so on what is true now.

Each test fails if the part is taken out that it is about. The verdict is the audit log's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.audit_checker import AuditedRequest
from tests.live.fault_proxy import Fault, FaultProxy
from tests.live.hooked_process import PIPE_BYTES, HookedProcess, UnreadProcess
from tests.live.trimtab_process import LEASE, SCHEDULER, bound, is_ready, page, wait_for
from tools.controlplane.client import ApiError
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]
DURATION, DEADLINE = 7.0, 5.0
ELECTION = {
    "leaderElect": True,
    "leaseDuration": f"{DURATION:.0f}s",
    "renewDeadline": f"{DEADLINE:.0f}s",
    "retryPeriod": "1s",
}
ONE_A_SECOND = {"qps": 1, "burst": 1}
ENDS_WITHIN = 3.0
SLACK = 1.5  # a busy machine


@pytest.fixture(scope="module", autouse=True)
def cluster(rig: Rig) -> None:
    """Ten nodes, and our account."""
    trimtab_process.install(rig)
    rig.admin.create_many(node(f"node-{number}") for number in range(10))


@pytest.fixture(autouse=True)
def no_lease(rig: Rig) -> None:
    """Every test begins without a lease."""
    trimtab_process.delete_lease(rig)


@contextmanager
def started(rig: Rig, name: str, proxy: FaultProxy | None = None, **settings: Any) -> Iterator[HookedProcess]:
    """A process that is ready; killed at the end."""
    config = trimtab_process.write_config(rig, name, leaderElection=ELECTION, **settings)
    process = HookedProcess(rig, config, name, proxy)
    try:
        wait_for(lambda: is_ready(process), 40, f"{name} is ready", process)
        yield process
    finally:
        process.kill()


def create_pods(rig: Rig, namespace: str, count: int) -> None:
    rig.ensure_namespace(namespace)
    rig.admin.create_many(pod(f"pod-{number}", namespace, cpu="10m", scheduler=SCHEDULER) for number in range(count))


def binds(rig: Rig, namespace: str) -> list[AuditedRequest]:
    """All requests to bind a pod of this namespace that have arrived."""
    requests = map(AuditedRequest, rig.audit_events())
    return [each for each in requests if each.is_bind and each.event["objectRef"]["namespace"] == namespace]


def lease(rig: Rig) -> tuple[str, int]:
    """Who holds it, and how often it has changed hands."""
    spec = rig.admin.get(LEASE)["spec"]
    return spec.get("holderIdentity") or "", spec["leaseTransitions"]


def leads(rig: Rig, name: str) -> bool:
    try:
        return lease(rig)[0].startswith(name)
    except ApiError:
        return False


def seconds_until_exit(process: Process, limit: float) -> float:
    before = time.monotonic()
    wait_for(lambda: not process.running(), limit, "the process ends", process)
    return time.monotonic() - before


def test_a_leader_that_wakes_up_too_late_sends_nothing(rig: Rig) -> None:
    """Paused beyond its lease with binds in its queue, it sends none of them when it wakes up, and ends within 3 s.

    Until then its renewals did not wait behind the binds, of which it may send one a second.
    """
    with started(rig, "sleeper", clientConnection=ONE_A_SECOND) as process:
        create_pods(rig, "fenced", 60)
        wait_for(lambda: bound(rig, "fenced"), 20, "the first bind", process)
        time.sleep(DURATION + 2.0)
        assert process.running(), process.log_tail()
        assert ("sleeper", 0) == (lease(rig)[0].partition("_")[0], lease(rig)[1])
        process.pause()
        time.sleep(DURATION)
        woken = datetime.now(UTC)
        process.resume()
        took = seconds_until_exit(process, 10)
    before, after = (
        [each for each in binds(rig, "fenced") if (each.arrived >= woken) is late] for late in (False, True)
    )
    assert [] == after
    assert (True, 1) == (took < ENDS_WITHIN + SLACK, process.exit_code())
    assert 5 < len(before) < 50, "the pause came in the middle"
    with started(rig, "successor"):
        wait_for(lambda: len(bound(rig, "fenced")) == 60, 40, "the successor binds the rest")
    assert () == trimtab_process.check_audit_log(rig).violations


def test_a_new_leader_lists_before_it_decides(rig: Rig) -> None:
    """A standby with a silent watch of pods becomes the leader: it knows what happened meanwhile, and fills no full node."""
    rig.ensure_namespace("fresh")
    where: dict[str, Any] = {"nodeSelector": {"zone": "b"}}
    with FaultProxy(rig) as proxy, started(rig, "first") as first:
        wait_for(lambda: leads(rig, "first"), 20, "the first leads", first)
        rig.admin.create(pod("large", "fresh", cpu="900m", scheduler=SCHEDULER, **where))
        proxy.inject(Fault("silent watch", r"GET /api/v1/pods\?.*watch=", silent=True))
        with started(rig, "second", proxy) as second:
            first.kill()
            rig.admin.create(node("node-b", cpu="1", labels={"zone": "b"}))
            rig.admin.create(pod("theirs", "fresh", cpu="900m", scheduler="somebody", nodeName="node-b"))
            rig.admin.create(pod("small", "fresh", cpu="10m", scheduler=SCHEDULER, **where))
            wait_for(lambda: {"large", "small"} & {*bound(rig, "fresh")}, 40, "it decides", second)
            assert leads(rig, "second")
        assert proxy.hits["silent watch"] >= 1
    assert {"theirs", "small"} == {*bound(rig, "fresh")}
    assert () == trimtab_process.check_audit_log(rig).violations


def test_a_step_of_the_wall_clock_costs_no_lease(rig: Rig) -> None:
    """An hour ahead, and then an hour back: it keeps leading and binding, for longer than a lease lasts."""
    with started(rig, "clocked") as process:
        wait_for(lambda: leads(rig, "clocked"), 20, "it leads", process)
        for namespace, seconds in (("ahead", 3600.0), ("back", -3600.0)):
            process.step_wall_clock(seconds)
            time.sleep(DEADLINE + 1.0)
            create_pods(rig, namespace, 3)
            wait_for(lambda: len(bound(rig, namespace)) == 3, 20, "it binds", process)  # noqa: B023
        assert process.running()
        assert 0 == lease(rig)[1]
        assert "wall clock stepped" in process.log.read_text(), "the step was seen"


def test_a_clock_set_back_does_not_prolong_the_lease(rig: Rig) -> None:
    """Paused beyond its lease, with a wall clock that says that no time has passed: it sends nothing, and ends."""
    with started(rig, "rewound", clientConnection=ONE_A_SECOND) as process:
        create_pods(rig, "rewound", 30)
        wait_for(lambda: bound(rig, "rewound"), 20, "the first bind", process)
        process.pause()
        time.sleep(DURATION)
        process.step_wall_clock(-DURATION)
        woken = datetime.now(UTC)
        process.resume()
        assert seconds_until_exit(process, 10) < ENDS_WITHIN + SLACK
    assert [] == [each for each in binds(rig, "rewound") if each.arrived >= woken]


def test_a_blocked_loop_is_noticed_and_keeps_its_lease(rig: Rig) -> None:
    """Blocked for three leases: /livez is answered, and fails after 20 s, the stack is logged, and nobody takes over."""
    with started(rig, "blocked") as process:
        wait_for(lambda: leads(rig, "blocked"), 20, "it leads", process)
        process.block(24.0)
        time.sleep(2.0)
        create_pods(rig, "later", 5)
        assert 200 == page(process, "/livez")[0], "blocked for two seconds only"
        wait_for(lambda: page(process, "/livez")[0] == 500, 22, "/livez fails", process)
        assert 500 == page(process, "/readyz")[0]
        wait_for(lambda: page(process, "/livez")[0] == 200, 15, "/livez passes again", process)
        wait_for(lambda: len(bound(rig, "later")) == 5, 20, "it binds", process)
        log = process.log.read_text()
        assert (1, True) == (log.count("event loop blocked"), "block_the_event_loop" in log)
        assert ("blocked", 0) == (lease(rig)[0].partition("_")[0], lease(rig)[1])


def test_a_lost_lease_ends_a_process_whose_loop_is_blocked(rig: Rig) -> None:
    """Cut off, it ends three seconds after its renew deadline, though its loop would be blocked for much longer."""
    with FaultProxy(rig) as proxy, started(rig, "hung", proxy) as process:
        wait_for(lambda: leads(rig, "hung"), 20, "it leads", process)
        process.block(60.0)
        time.sleep(1.0)
        proxy.cut()
        assert DEADLINE - 2.0 < seconds_until_exit(process, 20) < DEADLINE + ENDS_WITHIN + SLACK
        assert 1 == process.exit_code()
        assert "ending the process at once" in process.log.read_text()


@pytest.mark.soak
def test_a_stuck_loop_ends_the_process(rig: Rig) -> None:
    """Blocked for a minute, it ends, though it could renew its lease: who decides nothing must not lead for ever."""
    with started(rig, "stuck") as process:
        wait_for(lambda: leads(rig, "stuck"), 20, "it leads", process)
        process.block(100.0)
        assert 55.0 < seconds_until_exit(process, 90) < 80.0
        assert 1 == process.exit_code()
        assert "the event loop was blocked for 60 s" in process.log.read_text()


def test_a_bind_that_arrives_late_is_waited_for(rig: Rig) -> None:
    """The connection breaks, and the bind reaches the server two seconds later: it is not sent once more meanwhile."""
    with FaultProxy(rig) as proxy, started(rig, "doubtful", proxy) as process:
        proxy.inject(Fault("late", "POST .*/binding", late=2.0, times=3))
        create_pods(rig, "late", 3)
        wait_for(lambda: len(bound(rig, "late")) == 3, 30, "bound by the late requests", process)
        time.sleep(6.0)  # beyond the second read
        assert 3 == proxy.hits["late"]
    found = binds(rig, "late")
    assert [201] * 3 == [each.code for each in found]
    assert 3 == len({each.uid for each in found})


def test_every_connection_has_keep_alive(rig: Rig) -> None:
    """The kernel probes each connection to the API server, of reads, writes and the lease: a dead peer is noticed."""
    with started(rig, "kept") as process:
        wait_for(lambda: leads(rig, "kept"), 20, "it leads", process)
        create_pods(rig, "kept", 3)
        wait_for(lambda: len(bound(rig, "kept")) == 3, 20, "it binds", process)
        time.sleep(1.0)  # nothing is on its way, so the only timer left is that of keep-alive
        timers = process.connection_timers(rig.apiserver.url)
    assert len(timers) >= 3
    assert {"02"} == {*timers}


def test_a_log_that_nobody_reads_stops_nothing(rig: Rig) -> None:
    """All pods are bound while stderr is a full pipe, with every line of level debug; read later, the lines are there."""
    config = trimtab_process.write_config(rig, "unread", leaderElection=ELECTION)
    with UnreadProcess(rig, config) as process:
        create_pods(rig, "unread", 200)
        wait_for(lambda: len(bound(rig, "unread")) == 200, 60, "all are bound")
        lines = process.terminate_and_read()
    assert sum(map(len, lines)) > PIPE_BYTES, "more than fits into the pipe"
    assert 200 == sum(" scheduled: pod=unread/" in line for line in lines)
