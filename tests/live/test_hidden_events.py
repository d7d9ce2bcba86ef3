"""A proxy hides lines of watches, or all of them: Trimtab finds out, and its view becomes the cluster's again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.reflector_harness import ReflectorHarness, run_blocking, running_reflectors, wait_until
from tests.live.watch_proxy import Hides, WatchProxy, everything, nothing
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.kube import cache_comparison, watch_probe
from trimtab.kube.reflector import Reflector

pytestmark = pytest.mark.live
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


@pytest.fixture(scope="module")
def proxy(rig: Rig) -> Iterator[WatchProxy]:
    trimtab_process.install(rig)
    with WatchProxy(rig) as proxy:
        yield proxy


@pytest.fixture
def kubeconfig(rig: Rig, proxy: WatchProxy) -> Iterator[Path]:
    """The shipped account by way of the proxy: comparing must be within its rights."""
    yield proxy.kubeconfig(rig.service_account_kubeconfig("trimtab", "trimtab"))
    proxy.hides = nothing


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes every second instead of every 12 to 15."""
    monkeypatch.setattr(watch_probe, "PROBE_SECONDS", (1.0, 1.2))
    monkeypatch.setattr(cache_comparison, "SETTLE_SECONDS", 1.0)


def hiding(kind: str, prefix: str) -> Hides:
    """Hides events of this type whose object's name starts so."""

    def hides(path: str, event: Document) -> bool:
        return bool(event["type"] == kind and event["object"]["metadata"]["name"].startswith(prefix))

    return hides


def change(rig: Rig, path: str) -> None:
    rig.admin.patch(path, {"metadata": {"labels": {"changed": str(time.monotonic_ns())}}})


@pytest.mark.usefixtures("often")
async def test_one_hidden_line_of_each_type(rig: Rig, proxy: WatchProxy, kubeconfig: Path) -> None:
    """A deletion and an addition are found by the number of objects, while further events go on arriving."""
    rig.admin.create_many([node("lost-node"), node("kept-node"), pod("kept-pod")])
    async with running_reflectors(rig, kubeconfig) as scene:
        await scene.wait_agrees()
        proxy.hides = hiding("DELETED", "lost-node")
        await run_blocking(rig.admin.delete, f"{NODES}/lost-node")
        proxy_saw = proxy.hidden[NODES]
        await run_blocking(change, rig, f"{NODES}/kept-node")
        await scene.wait_agrees(10.0)
        proxy.hides = hiding("ADDED", "lost-pod")
        await run_blocking(rig.admin.create, pod("lost-pod"))
        await run_blocking(change, rig, f"{PODS}/kept-pod")
        await scene.wait_agrees(10.0)
        assert proxy_saw + proxy.hidden["/api/v1/pods"] >= 1
        assert (1, 1, 2) == (scene.total("leftover"), scene.total("missing"), scene.total("lists"))


@pytest.mark.usefixtures("often")
async def test_a_hidden_change(rig: Rig, proxy: WatchProxy, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of objects is the same, so only the regular comparison of all versions finds it."""
    monkeypatch.setattr(cache_comparison, "INTERVAL", 4.0)
    rig.admin.create_many([node("quiet-node"), node("busy-node")])
    async with running_reflectors(rig, kubeconfig) as scene:
        await scene.wait_agrees()
        proxy.hides = hiding("MODIFIED", "quiet-node")
        await run_blocking(change, rig, f"{NODES}/quiet-node")
        await run_blocking(change, rig, f"{NODES}/busy-node")
        await scene.wait_agrees(15.0)
        assert 1 == scene.total("outdated")


@pytest.mark.usefixtures("often")
async def test_every_watch_is_mute(rig: Rig, proxy: WatchProxy, kubeconfig: Path) -> None:
    """Accepted, and then silent, bookmarks included: what happens is known all the same, again and again."""
    rig.admin.create_many([node("mute-a"), node("mute-b"), node("mute-c")])
    async with running_reflectors(rig, kubeconfig) as scene:
        await scene.wait_agrees()
        proxy.hides = everything
        await run_blocking(rig.admin.delete, f"{NODES}/mute-a")
        await agrees_in_time(scene)
        await run_blocking(rig.admin.create, pod("mute-pod"))
        await agrees_in_time(scene)
        await run_blocking(change, rig, f"{NODES}/mute-b")
        await agrees_in_time(scene)
        assert scene.total("stalls") >= 3


async def agrees_in_time(scene: ReflectorHarness) -> None:
    await scene.wait_agrees(20.0)


@pytest.mark.usefixtures("often")
async def test_no_number_is_suspected_where_nothing_is_hidden(
    rig: Rig, proxy: WatchProxy, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under churn, with probes every second, the number of objects at each probe's version is right each time.

    On a busy machine the watch itself may be more than a second late, which is a reason to compare, too.
    """
    suspected: list[str] = []
    monkeypatch.setattr(Reflector, "suspect", lambda _, reason: suspected.append(reason))
    async with running_reflectors(rig, kubeconfig) as scene:
        for wave in range(4):
            names = [f"churn-{wave}-{number}" for number in range(40)]
            await run_blocking(rig.admin.create_many, [*map(pod, names)])
            await run_blocking(rig.admin.delete_many, [f"{PODS}/{name}" for name in names], 0)
        await wait_until(lambda: False, 3.0)
        await scene.wait_agrees()
        found = [scene.total(name) for name in ("missing", "outdated", "leftover", "stalls")]
        assert [0, 0, 0, 0] == found
        assert [] == [reason for reason in suspected if "objects at version" in reason]
