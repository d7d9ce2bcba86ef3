"""A process: it polls sources in time, releases its lease only when that is safe, and runs one or two controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.config_file import ConfigFile
from trimtab.apps.controller_configuration import configuration_for
from trimtab.apps.process import LABELLER, SCHEDULER, Options, Process
from trimtab.apps.serving import Ports
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.config.trimtab.settings import PrometheusSettings
from trimtab.core.labelling.controller import Labelling
from trimtab.core.model.events import Synced
from trimtab.core.model.instructions import Bind, SetUnschedulable
from trimtab.kube.api_calls import ApiCalls
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.kube.preflight import PreflightError
from trimtab.kube.store import ResourceVersionRegressed
from trimtab.serve.options import Address, AuthenticationOptions, SecureServing, Serving
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
BIND = Bind("u1", "ns", "web", "node-1")
MARK = SetUnschedulable("u2", "ns", "other", "Unschedulable", "0/1 nodes")
KILLED_AFTER = 30.0
OTHER_SERVER = Credentials(ClusterConfig(server="http://127.0.0.2:1"), UserConfig(), "test")


@dataclass
class SlowLease:
    """A lease that takes five seconds to release."""

    released: list[float] = field(default_factory=list)
    delay: float = 0.0
    requests: dict[tuple[str, str], int] = field(default_factory=dict)

    def may_write(self) -> bool:
        return True

    def problem(self) -> str | None:
        return None

    async def hold(self, acquired: Callable[[int], None]) -> None:
        await asyncio.Event().wait()

    async def delay_standby(self) -> None:
        await asyncio.sleep(self.delay)

    async def release(self) -> None:
        self.released.append(round(asyncio.get_running_loop().time(), 1))
        await asyncio.sleep(5.0)


def slow(seconds: float) -> Callable[[Request], Awaitable[FakeResponse]]:
    async def answer(request: Request) -> FakeResponse:
        await asyncio.sleep(seconds)
        return json_response({"kind": "Status", "status": "Success"}, 200 if request.method == "PATCH" else 201)

    return answer


@asynccontextmanager
async def leading(answer: Callable[[Request], Awaitable[FakeResponse]]) -> AsyncIterator[tuple[Process, SlowLease]]:
    """A scheduler whose writes go to a fake server."""
    credentials = Credentials(ClusterConfig(server="http://127.0.0.1:1"), UserConfig(), "test")
    scheduler, held = Process(default_configuration(), credentials, Options("me")), SlowLease()
    scheduler.lease = held  # type: ignore[assignment]
    scheduler.api_calls = ApiCalls(
        FakeTransport(answer), lambda event: None, lambda: True, lambda: 1e9, Random(1), PodReader(), "me"
    )
    performing = asyncio.create_task(scheduler.api_calls.run())
    try:
        yield scheduler, held
    finally:
        performing.cancel()
        await asyncio.gather(performing, return_exceptions=True)


@pytest.mark.parametrize(
    ("instruction", "seconds", "released"),
    [(BIND, 15.0, [15.0]), (BIND, 39.0, []), (MARK, 2.0, [2.0]), (MARK, 9.0, [])],
)
async def test_the_lease_is_given_back_when_all_is_answered(
    instruction: Bind | SetUnschedulable, seconds: float, released: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """With an unanswered write the lease is left to expire; either way the process ends before it is killed."""
    async with leading(slow(seconds)) as (scheduler, held):
        scheduler.api_calls.submit(instruction)
        await asyncio.sleep(0.0)
        await scheduler._shut_down()
        assert asyncio.get_running_loop().time() < KILLED_AFTER
    assert released == held.released
    assert ("lease not released" in caplog.text) is not bool(released)


async def test_who_winds_down_is_not_ready() -> None:
    """After SIGTERM /readyz fails, while /livez passes."""
    async with leading(slow(1.0)) as (scheduler, _):
        health = scheduler._pages().health
        assert health.page("readyz", verbose=True).text.count("[+]shutdown ok") == 1
        scheduler.runtime.run = scheduler.informers.run = asyncio.Event().wait  # type: ignore[method-assign, assignment]
        stop, seen = asyncio.Event(), list[tuple[bool, bool]]()
        scheduler.api_calls.submit(BIND)
        stop.set()
        ending = asyncio.create_task(scheduler._run_until(stop))
        await asyncio.sleep(0.5)
        seen.append((health.single("readyz", "shutdown").ok, health.page("livez").ok))  # type: ignore[union-attr]
        assert 0 == await ending
    assert [(False, True)] == seen


@dataclass
class LateLease(SlowLease):
    """A lease that is acquired after two seconds."""

    async def hold(self, acquired: Callable[[int], None]) -> None:
        await asyncio.sleep(2.0)
        acquired(7)
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("stop_at", "expected"),
    [(1.0, ["LeaseLost", "LeaseLost"]), (3.0, ["LeaseAcquired", "LeaseLost", "LeaseLost"])],
)
async def test_a_lease_acquired_during_the_shutdown_starts_nothing(stop_at: float, expected: list[str]) -> None:
    """A bind is still under way when the lease becomes ours: the engine must not decide once more."""
    async with leading(slow(10.0)) as (scheduler, _):
        told = list[str]()
        scheduler.lease = LateLease()  # type: ignore[assignment]
        scheduler.runtime.dispatch = lambda event: told.append(type(event).__name__)  # type: ignore[method-assign]
        scheduler.runtime.run = scheduler.informers.run = asyncio.Event().wait  # type: ignore[method-assign, assignment]
        scheduler.informers.wait_synced = scheduler.informers.refresh = _at_once  # type: ignore[method-assign]
        scheduler._poll = asyncio.Event().wait  # type: ignore[method-assign, assignment]
        scheduler.api_calls.submit(BIND)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(stop_at, stop.set)
        assert 0 == await scheduler._run_until(stop)
    assert expected == told


async def _at_once() -> None:
    pass


async def test_a_standby_lists_later() -> None:
    """As long as the lease says, and nothing is listed meanwhile."""
    async with leading(slow(1.0)) as (scheduler, held):
        listed = list[float]()

        async def run() -> None:
            listed.append(asyncio.get_running_loop().time())

        scheduler.informers.run, held.delay = run, 0.7  # type: ignore[method-assign]
        await scheduler._list_and_watch()
    assert [0.7] == [round(each, 3) for each in listed]


async def test_a_failed_task_ends_the_process_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An etcd that was set back ends the informers: exit 1, and the deadline runs, whatever holds up the rest."""
    deadlines = list[float]()
    monkeypatch.setattr("trimtab.apps.process.exit_within", lambda seconds, reason: deadlines.append(seconds))
    async with leading(slow(1.0)) as (scheduler, _):
        scheduler.runtime.run = asyncio.Event().wait  # type: ignore[method-assign, assignment]

        async def set_back() -> None:
            raise ResourceVersionRegressed("pods: 5 after 9")

        scheduler.informers.run = set_back  # type: ignore[method-assign]
        assert 1 == await scheduler._run_until(asyncio.Event())
    assert [3.0] == deadlines


async def test_reviews_count_as_requests() -> None:
    """Those of the secure port, next to our own, by the server that each was sent to."""
    secure = SecureServing(
        Address("127.0.0.1", 0, "--secure-port"), authentication=AuthenticationOptions(skip_lookup=True)
    )
    async with leading(slow(1.0)) as (scheduler, _):
        scheduler.read_transport.requests["GET", "200"] += 3
        with closing(Ports(Serving(secure=secure), OTHER_SERVER)) as scheduler.ports:
            async with scheduler.ports.serve(scheduler._pages()):
                sent = scheduler._requests_sent()
    assert {("200", "127.0.0.1:1", "GET"): 3, ("<error>", "127.0.0.2:1", "POST"): 2} == sent


async def test_sources_are_asked_when_nodes_are_known() -> None:
    """Series of nodes that are not listed yet would match none, and be reported as wrongly labelled."""
    async with leading(slow(1.0)) as (scheduler, _):
        begun = asyncio.Event()

        async def run() -> None:
            begun.set()

        scheduler.pollers.run = run  # type: ignore[method-assign]
        looking = asyncio.create_task(scheduler._poll())
        await asyncio.sleep(60.0)
        assert not begun.is_set()
        for kind, reflector in scheduler.informers._reflectors:
            reflector.counts.lists = 1
            scheduler.informers._handle(Synced(kind, 1.0))
        await looking
        assert begun.is_set()


BOTH = f"""{HEAD}profiles: [{{schedulerName: trimtab}}]
---
{TRIMTAB_HEAD}sources: [{{name: prom, prometheus: {{url: 'http://127.0.0.1:9', metrics: [podCPU]}}}}]
labels: {{mode: apply, rules: [{{name: cpu, metric: cpu, above: 80%}}, {{name: queue, query: up, above: 2}}]}}
"""


@pytest.mark.parametrize(
    ("controllers", "profiles", "rules", "lease"),
    [
        (("scheduler",), 1, 0, "trimtab"),
        (("labeller",), 0, 2, "trimtab-labeller"),
        (("scheduler", "labeller"), 1, 2, "trimtab"),
    ],
)
def test_each_controller_takes_its_part_of_the_file(
    controllers: tuple[str, ...], profiles: int, rules: int, lease: str
) -> None:
    """Two controllers in one process share the scheduler's lease; rules are ignored without the labeller."""
    configuration = configuration_for(controllers, parse(BOTH, "f.yaml"), "f.yaml")
    labels = configuration.settings.labels
    found = len(configuration.settings.profiles), len(labels.rules) if labels is not None else 0
    assert (profiles, rules, lease) == (*found, configuration.leader_election.name)


async def both(tmp_path: Path) -> Process:
    """A process with both controllers that was never run."""
    credentials = Credentials(ClusterConfig(server="http://127.0.0.1:1"), UserConfig(), "test")
    configuration = configuration_for(("scheduler", "labeller"), parse(BOTH, "f.yaml"), "f.yaml")
    file = ConfigFile(tmp_path / "f.yaml", lambda content: configuration)
    return Process(configuration, credentials, Options("me"), file, (SCHEDULER, LABELLER))


async def test_two_controllers_in_one_process(tmp_path: Path) -> None:
    """It watches what both need, its sources answer both, and it serves the pages of both."""
    process = await both(tmp_path)
    assert {"pods", "nodes", "persistentvolumes"} <= {*process.informers.counts()}
    (source,) = process.pollers.sources
    assert isinstance(source, PrometheusSettings)
    assert (["podCPU"], ["rule/queue"]) == (
        [each.value for each in source.metrics],
        [each.name for each in source.queries],
    )
    paths = {route.resource.canonical for route in process._pages().all().router.routes() if route.resource is not None}
    assert {"/livez", "/metrics", "/explain/node/{name}", "/status", "/nodes", "/pressure"} <= paths
    engine = process.engine
    assert engine.controller(Labelling).labeller is not None and engine.state.settings.profiles


@pytest.mark.parametrize(
    ("forbidden", "remedy"),
    [
        ("/api/v1/pods", "Apply deploy/rbac.yaml"),
        ("selfsubjectaccessreviews", "Apply deploy/components/labeller/labeller.yaml and deploy/rbac-labeller.yaml"),
    ],
)
async def test_both_role_files_are_checked_at_the_start(tmp_path: Path, forbidden: str, remedy: str) -> None:
    """Without the right to list pods, or to patch nodes, the process ends and names the files to apply."""
    process = await both(tmp_path)

    def answer(request: Request) -> FakeResponse:
        if request.path.endswith("accessreviews"):
            return json_response({"status": {"allowed": not request.path.endswith(forbidden)}}, 201)
        if request.path.startswith(forbidden):
            return json_response({"kind": "Status", "message": "no"}, 403)
        return json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})

    process.read_transport = FakeTransport(answer)  # type: ignore[assignment]
    with pytest.raises(PreflightError, match=remedy):
        await process._preflight()
