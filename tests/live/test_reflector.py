"""Reflectors on a real API server that crashes, hangs and compacts: afterwards they agree with the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.reflector_harness import ReflectorHarness, run_blocking, running_reflectors, wait_until
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.kube import reflector, watch_probe
from trimtab.wire.requests import Request

pytestmark = pytest.mark.live
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def kubeconfig(rig: Rig) -> Path:
    """A bearer token of the shipped service account: what we need must be within its rights."""
    trimtab_process.install(rig)
    return rig.service_account_kubeconfig("trimtab", "trimtab")


def fresh(rig: Rig, prefix: str, count: int) -> list[str]:
    """So many nodes and pods of that prefix; the names."""
    names = [f"{prefix}-{number}" for number in range(count)]
    rig.admin.create_many([*map(node, names), *map(pod, names)])
    return names


def label(rig: Rig, names: Iterable[str], value: str) -> None:
    """Change every one of these pods and nodes."""
    change: Document = {"metadata": {"labels": {"changed": value}}}
    paths = [f"{folder}/{name}" for name in names for folder in (PODS, "/api/v1/nodes")]
    rig.admin.map_concurrently(lambda path: rig.admin.patch(path, change), paths)


def remove(rig: Rig, names: Iterable[str]) -> None:
    """Delete the pods and nodes of these names, at once."""
    rig.admin.delete_many([f"{folder}/{name}" for name in names for folder in (PODS, "/api/v1/nodes")], 0)


def restart(rig: Rig) -> None:
    """Crash the API server and start it again."""
    rig.kill_apiserver()
    rig.start_apiserver()


async def test_facts_add_up_to_the_cluster(rig: Rig, kubeconfig: Path) -> None:
    """What was there is listed, what changes is watched: additions, changes and deletions."""
    await run_blocking(fresh, rig, "before", 20)
    async with running_reflectors(rig, kubeconfig) as scene:
        await scene.wait_agrees()
        names = await run_blocking(fresh, rig, "during", 50)
        await run_blocking(label, rig, names, "yes")
        await run_blocking(remove, rig, names[:25])
        await scene.wait_agrees()
        assert 2 == scene.total("lists")
        assert 50 == len(scene.deletions)


async def test_a_crash_of_the_api_server(rig: Rig, kubeconfig: Path) -> None:
    """Killed in the middle of a watch and restarted, the reflectors catch up within 30 s and miss nothing."""
    async with running_reflectors(rig, kubeconfig) as scene:
        names = await run_blocking(fresh, rig, "crash", 30)
        await run_blocking(restart, rig)
        await run_blocking(remove, rig, names[:10])
        await run_blocking(label, rig, names[10:], "after")
        await scene.wait_agrees(30.0)
        assert scene.total("setbacks") >= 2


async def test_a_gap_that_was_compacted_away(rig: Rig, kubeconfig: Path) -> None:
    """Out of touch over 1,000 writes, a compaction and a restart: an ERROR line of 410, a list, and facts for all that
    went on meanwhile, deletions first of all."""
    async with running_reflectors(rig, kubeconfig) as scene:
        doomed = await run_blocking(fresh, rig, "doomed", 100)
        await scene.wait_agrees()
        known, before = len(scene.deletions), scene.total("lists")
        scene.transport.gate.clear()
        await run_blocking(restart, rig)
        await run_blocking(a_thousand_writes, rig, doomed)
        await run_blocking(rig.compact_etcd)
        await run_blocking(restart, rig)
        assert 0 == scene.total("expired_lines")
        scene.transport.gate.set()
        await wait_until(lambda: scene.total("lists") == before + 2, 30.0)
        await scene.wait_agrees()
        assert 2 == scene.total("expired_lines")
        assert 200 == len(scene.deletions) - known


def a_thousand_writes(rig: Rig, doomed: list[str]) -> None:
    """Deletions of what is known, and a thousand writes of what is not."""
    remove(rig, doomed)
    names = fresh(rig, "unseen", 200)
    for value in "ab":
        label(rig, names, value)
    remove(rig, names[:100])


async def test_the_servers_own_http_410(rig: Rig, kubeconfig: Path) -> None:
    """The other shape, as the same server sends it for an exact list of a compacted version: a list follows as well."""
    async with running_reflectors(rig, kubeconfig) as scene:
        old = scene.reflectors[1].store.version
        await run_blocking(fresh, rig, "later", 20)
        await scene.wait_agrees()
        scene.transport.rewrite = lambda request: exact_list(request, old)
        scene.transport.gate.clear()
        await run_blocking(restart, rig)
        await run_blocking(rig.compact_etcd)
        await run_blocking(restart, rig)
        scene.transport.gate.set()
        await wait_until(lambda: scene.total("expired_answers") >= 2, 30.0)
        scene.transport.rewrite = lambda request: request
        await run_blocking(fresh, rig, "last", 5)
        await scene.wait_agrees()
        assert scene.total("expired_answers") >= 2
        assert scene.total("lists") >= 4


def exact_list(request: Request, version: int) -> Request:
    """The watch turned into a question that the server can only answer with 410."""
    path = request.path.partition("?")[0]
    return Request("GET", f"{path}?resourceVersion={version}&resourceVersionMatch=Exact")


async def test_a_server_that_hangs(rig: Rig, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped server keeps its connections open and says nothing: noticed, and caught up with after it goes on."""
    monkeypatch.setattr(reflector, "IDLE_TIMEOUT", 2.0)
    async with running_reflectors(rig, kubeconfig) as scene:
        rig.apiserver.pause()
        try:
            await wait_until(lambda: scene.total("silences") >= 2, 10.0)
        finally:
            rig.apiserver.resume()
        assert scene.total("silences") >= 2
        names = await run_blocking(fresh, rig, "hang", 10)
        await run_blocking(remove, rig, names[:5])
        await scene.wait_agrees()


async def test_a_quiet_watch_keeps_up(rig: Rig, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing happens to a kind, a probe finds the watch behind; short watches end with a bookmark that moves the
    version on, so that the next probes find nothing wrong."""
    monkeypatch.setattr(reflector, "IDLE_WATCH_SECONDS", 3)
    monkeypatch.setattr(watch_probe, "PROBE_SECONDS", (4.0, 5.0))
    async with running_reflectors(rig, kubeconfig) as scene:
        quiet = scene.reflectors[1]
        written = await run_blocking(write_something_else, rig)
        assert quiet.store.version < written
        await asyncio.sleep(19.0)
        assert quiet.store.version >= written
        assert (0, 2, 0) == (scene.total("comparisons"), scene.total("lists"), scene.total("stalls"))


def write_something_else(rig: Rig) -> int:
    """A write to something that nobody follows here; its version."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "quiet-", "namespace": "default"}}
    return int(rig.admin.create(document)["metadata"]["resourceVersion"])


async def test_refresh_sees_every_write_before_it(rig: Rig, kubeconfig: Path) -> None:
    """After refresh nothing that was written before it is missing, without waiting for the watch."""
    async with running_reflectors(rig, kubeconfig) as scene:
        names = await run_blocking(fresh, rig, "refresh", 10)
        await asyncio.gather(*(each.refresh() for each in scene.reflectors))
        assert set(names) <= names_of(scene)
        assert 4 == scene.total("lists")


def names_of(scene: ReflectorHarness) -> set[str]:
    return {item.name for item in scene.reflectors[1].store.objects().values()}
