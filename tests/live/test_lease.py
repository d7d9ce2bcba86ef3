"""Leader election and tokens on a real API server, with only the permissions of the shipped service account."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.live import trimtab_process
from tests.live.reflector_harness import run_blocking, wait_until
from tests.live.trimtab_process import LEASE
from tools.controlplane.rig import Rig
from trimtab.config.configuration import LeaderElection
from trimtab.core.model.events import Event, LeaseAcquired, LeaseLost
from trimtab.kube.credentials import Credentials, find_credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.kube.lease import LeaderElector, lead
from trimtab.kube.preflight import PreflightError, check_access
from trimtab.kube.transport import PooledTransport
from trimtab.wire.requests import NODES, PODS, Request, list_request

pytestmark = pytest.mark.live
QUICK = LeaderElection(lease_duration=3.0, renew_deadline=2.0, retry_period=0.5)


@pytest.fixture(scope="module")
def kubeconfig(rig: Rig) -> Path:
    """A bearer token of the shipped service account."""
    trimtab_process.install(rig)
    return rig.service_account_kubeconfig("trimtab", "trimtab")


@pytest.fixture(autouse=True)
def no_lease(rig: Rig) -> None:
    """Every test begins without a lease."""
    trimtab_process.delete_lease(rig)


@dataclass
class Replica:
    """An elector with its own connections, and what it said."""

    name: str
    kubeconfig: Path
    said: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.transport = PooledTransport(find_credentials(str(self.kubeconfig)), connections=2)
        self.elector = LeaderElector(self.transport, QUICK, self.name, time.time, Random(self.name))
        self.task: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        pass

    def start(self) -> None:
        self.task = asyncio.create_task(lead(self.elector, self.said.append, self.prepare, time.time))

    async def crash(self) -> None:
        """Stop without a word to anybody."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    @property
    def leads(self) -> bool:
        return bool(self.said) and isinstance(self.said[-1], LeaseAcquired) and self.elector.may_write()


@asynccontextmanager
async def replicas(kubeconfig: Path) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two of them, the first one leading, the second one aware of it."""
    first, second = Replica("first", kubeconfig), Replica("second", kubeconfig)
    try:
        first.start()
        await wait_until(lambda: first.leads, 10.0)
        second.start()
        await wait_until(lambda: second.elector.holder == "first", 10.0)
        yield first, second
    finally:
        for each in (first, second):
            await each.crash()
            await each.transport.close()


async def test_one_leads_and_the_other_waits(rig: Rig, kubeconfig: Path) -> None:
    """The lease names the first, is renewed, and stays with it for longer than its duration."""
    async with replicas(kubeconfig) as (first, second):
        before = (await run_blocking(rig.admin.get, LEASE))["spec"]
        await asyncio.sleep(5.0)
        after = (await run_blocking(rig.admin.get, LEASE))["spec"]
        assert ("first", 3, 0) == (after["holderIdentity"], after["leaseDurationSeconds"], after["leaseTransitions"])
        assert before["renewTime"] < after["renewTime"]
        assert before["acquireTime"] == after["acquireTime"]
        assert (True, []) == (first.leads, second.said)


async def test_take_over_from_a_crashed_leader(rig: Rig, kubeconfig: Path) -> None:
    """Without a release the lease runs out first; then the second leads, with the next term, and never both at once."""
    async with replicas(kubeconfig) as (first, second):
        await first.crash()
        crashed = time.monotonic()
        await wait_until(lambda: second.leads or (first.elector.may_write() and second.elector.may_write()), 10.0)
        assert second.leads
        assert not first.elector.may_write()
        assert time.monotonic() - crashed > QUICK.lease_duration - QUICK.retry_period - 0.5
        assert [1] == [fact.term for fact in second.said if isinstance(fact, LeaseAcquired)]
        assert 1 == (await run_blocking(rig.admin.get, LEASE))["spec"]["leaseTransitions"]


async def test_take_over_after_a_clean_end(rig: Rig, kubeconfig: Path) -> None:
    """A released lease names nobody, and the second leads at its next look."""
    async with replicas(kubeconfig) as (first, second):
        await first.crash()
        await first.elector.release()
        released = time.monotonic()
        await wait_until(lambda: second.leads, 10.0)
        assert second.leads
        assert time.monotonic() - released < QUICK.lease_duration - QUICK.retry_period


async def test_a_hanging_server_ends_leadership_by_our_own_clock(rig: Rig, kubeconfig: Path) -> None:
    """With the API server stopped, the leader stops writing within its renew deadline and says so."""
    async with replicas(kubeconfig) as (first, _):
        rig.apiserver.pause()
        try:
            stopped = time.monotonic()
            await wait_until(lambda: not first.elector.may_write(), 5.0)
            assert time.monotonic() - stopped <= QUICK.renew_deadline + 0.2
            await wait_until(lambda: len(first.said) == 2, 3.0)
        finally:
            rig.apiserver.resume()
        assert [LeaseAcquired, LeaseLost] == [type(fact) for fact in first.said]
        await asyncio.sleep(0.5)  # connections given up on end with an answer of the server, now that it answers


async def test_a_lease_edited_by_hand_is_lost(rig: Rig, kubeconfig: Path) -> None:
    """Another name in the lease ends leadership at the next renewal."""
    async with replicas(kubeconfig) as (first, _):
        change = {"spec": {"holderIdentity": "somebody"}}
        await run_blocking(rig.admin.patch, LEASE, change)
        await wait_until(lambda: isinstance(first.said[-1], LeaseLost), 2.0)
        assert isinstance(first.said[-1], LeaseLost)
        assert not first.elector.may_write()


def rotating(rig: Rig, name: str, path: Path) -> None:
    """The account made anew, which ends all its old tokens, with the rights to list, and a new token in the file."""
    rig.apply([account(name), binding(name)])
    path.write_text(rig.service_account_token("trimtab", name))


def account(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "trimtab"}}


def binding(name: str) -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "trimtab-scheduler"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "trimtab"}],
    }


async def test_a_rotated_token_file_is_used_without_a_restart(rig: Rig, kubeconfig: Path, tmp_path: Path) -> None:
    """When the server no longer knows the token (401) and the file holds a new one, the next request succeeds with it."""
    path = tmp_path / "token"
    await run_blocking(rotating, rig, "rotating", path)
    cluster = ClusterConfig(server=rig.url, certificate_authority=str(rig.credentials.ca_file))
    async with PooledTransport(Credentials(cluster, UserConfig(token_file=str(path)), "test")) as transport:
        assert 200 == (await transport.send(list_request(PODS, limit=1), 10.0)).status
        await run_blocking(rig.admin.delete, "/api/v1/namespaces/trimtab/serviceaccounts/rotating")
        await refused(transport)
        await run_blocking(rotating, rig, "rotating", path)
        await until_status(transport, 200, 60.0)


async def refused(transport: PooledTransport) -> None:
    """The server remembers a good token for some seconds."""
    await until_status(transport, 401, 60.0)


async def until_status(transport: PooledTransport, expected: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (status := (await transport.send(list_request(PODS, limit=1), 10.0)).status) != expected:
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.5)


async def test_the_shipped_rights_are_enough_and_no_more(rig: Rig, kubeconfig: Path) -> None:
    """The account's token lists pods and nodes, and is refused elsewhere."""
    credentials = find_credentials(str(kubeconfig))
    async with PooledTransport(credentials) as transport:
        await check_access(transport, credentials)
        for path in (PODS, NODES):
            assert 200 == (await transport.send(list_request(path), 10.0)).status
        assert 403 == (await transport.send(Request("GET", "/api/v1/secrets"), 10.0)).status


@pytest.mark.parametrize(
    ("who", "sentence"), [("stranger", "forbids listing /api/v1/pods"), ("anonymous", "forbids listing /api/v1/pods")]
)
async def test_who_may_nothing_is_told_so(rig: Rig, who: str, sentence: str) -> None:
    """An account without rights, and nobody at all, get a sentence and not a traceback."""
    path = rig.anonymous_kubeconfig() if who == "anonymous" else rig.client_kubeconfig(who)
    credentials = find_credentials(str(path))
    async with PooledTransport(credentials) as transport:
        with pytest.raises(PreflightError, match=sentence):
            await check_access(transport, credentials)
