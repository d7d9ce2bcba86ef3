"""Instructions performed on a real API server, and their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.reflector_harness import run_blocking
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.core.model.events import BindDone, BindFailed, BindFailure, Event, GetPodDone
from trimtab.core.model.instructions import Bind, EmitEvent, GetPod, Instruction, SetUnschedulable
from trimtab.kube.api_calls import ApiCalls
from trimtab.kube.credentials import find_credentials
from trimtab.kube.transport import PooledTransport
from trimtab.wire.pod import PodReader

pytestmark = pytest.mark.live
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def kubeconfig(rig: Rig) -> Path:
    """A bearer token of the shipped service account."""
    trimtab_process.install(rig)
    rig.admin.create_many([node("node-1"), node("node-2")])
    return rig.service_account_kubeconfig("trimtab", "trimtab")


@dataclass
class LiveHarness:
    """ApiCalls on the control plane, and the events it sent back."""

    api_calls: ApiCalls
    events: list[Event] = field(default_factory=list)

    async def do(self, *instructions: Instruction) -> list[Event]:
        """Carry these out; what they led to."""
        self.events.clear()
        for each in instructions:
            self.api_calls.submit(each)
        assert await self.api_calls.drain(30.0)
        return list(self.events)


@asynccontextmanager
async def running(kubeconfig: Path) -> AsyncIterator[LiveHarness]:
    events: list[Event] = []
    async with PooledTransport(find_credentials(str(kubeconfig))) as transport:
        api_calls = ApiCalls(transport, events.append, lambda: True, time.time, Random(1), PodReader(), "host-1")
        task = asyncio.create_task(api_calls.run())
        try:
            yield LiveHarness(api_calls, events)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def made(rig: Rig, name: str, **spec: Any) -> str:
    """A new pod; its UID."""
    uid: str = rig.admin.create(pod(name, **spec))["metadata"]["uid"]
    return uid


async def test_what_becomes_of_binds(rig: Rig, kubeconfig: Path) -> None:
    """A bind is done once; a second one, one of another UID and one of a gated pod conflict; one of no pod is gone."""
    uid = await run_blocking(made, rig, "bound")
    gated = await run_blocking(lambda: made(rig, "gated", schedulingGates=[{"name": "example.com/wait"}]))
    async with running(kubeconfig) as harness:
        (done,) = await harness.do(Bind(uid, "default", "bound", "node-1"))
        assert isinstance(done, BindDone)
        assert "node-1" == (await run_blocking(rig.admin.get, f"{PODS}/bound"))["spec"]["nodeName"]
        for uid_, name, fault in (
            (uid, "bound", BindFailure.CONFLICT),
            ("another", "bound", BindFailure.CONFLICT),
            (gated, "gated", BindFailure.CONFLICT),
            (uid, "nowhere", BindFailure.GONE),
        ):
            (failed,) = await harness.do(Bind(uid_, "default", name, "node-2"))
            assert isinstance(failed, BindFailed)
            assert fault == failed.reason


async def test_what_a_reread_finds(rig: Rig, kubeconfig: Path) -> None:
    """The pod with its node; nothing for a UID that the name no longer belongs to; nothing for no pod."""
    uid = await run_blocking(lambda: made(rig, "reread", nodeName="node-2"))
    async with running(kubeconfig) as harness:
        (found,) = await harness.do(GetPod(uid, "default", "reread"))
        assert isinstance(found, GetPodDone)
        assert found.pod is not None
        assert (uid, "node-2") == (found.pod.uid, found.pod.node)
        for instruction in (GetPod("another", "default", "reread"), GetPod(uid, "default", "nowhere")):
            (gone,) = await harness.do(instruction)
            assert isinstance(gone, GetPodDone)
            assert gone.pod is None


async def test_a_condition_is_set_and_changed(rig: Rig, kubeconfig: Path) -> None:
    """The condition is as the cluster autoscaler reads it; a new message keeps the time of the first."""
    uid = await run_blocking(made, rig, "unschedulable")
    async with running(kubeconfig) as harness:
        await harness.do(SetUnschedulable(uid, "default", "unschedulable", "Unschedulable", "first"))
        first = await run_blocking(condition, rig)
        await asyncio.sleep(1.1)
        await harness.do(SetUnschedulable(uid, "default", "unschedulable", "Unschedulable", "second"))
        second = await run_blocking(condition, rig)
    assert ("False", "Unschedulable", "first") == (first["status"], first["reason"], first["message"])
    assert {**first, "message": "second"} == second
    assert first["lastTransitionTime"]


def condition(rig: Rig) -> dict[str, Any]:
    """The PodScheduled condition, of which there is exactly one."""
    (found,) = [
        each
        for each in rig.admin.get(f"{PODS}/unschedulable")["status"]["conditions"]
        if each["type"] == "PodScheduled"
    ]
    return dict(found)


async def test_a_mark_for_a_recreated_pod_misses_it(rig: Rig, kubeconfig: Path) -> None:
    """The UID in the patch keeps it from a pod that has taken the name since."""
    await run_blocking(made, rig, "recreated")
    async with running(kubeconfig) as harness:
        await harness.do(SetUnschedulable("old-uid", "default", "recreated", "Unschedulable", "wrong"))
        assert 1 == harness.api_calls.patches_failed
    status = (await run_blocking(rig.admin.get, f"{PODS}/recreated"))["status"]
    assert "wrong" not in str(status)


async def test_events_are_readable_with_kubectl(rig: Rig, kubeconfig: Path) -> None:
    """An Event and its repeats are one line of `kubectl describe`, with reason, count and note."""
    uid = await run_blocking(made, rig, "told")
    failed = EmitEvent(
        uid, "default", "told", "FailedScheduling", "0/2 nodes are available: 2 Too many pods.", warning=True
    )
    long = EmitEvent(uid, "default", "told", "Scheduled", "ä" * 2_000, action="Binding")
    async with running(kubeconfig) as harness:
        await harness.do(failed)
        await harness.do(failed, failed, long)
        assert (3, 0, 0) == (
            harness.api_calls.event_recorder.written,
            harness.api_calls.event_recorder.failed,
            harness.api_calls.event_recorder.dropped,
        )
    described = await run_blocking(rig.kubectl, "describe", "pod", "told")
    lines = [line for line in described.splitlines() if "FailedScheduling" in line]
    assert 1 == len(lines)
    assert "Warning" in lines[0]
    assert "(x3 over" in lines[0]
    assert "0/2 nodes are available: 2 Too many pods." in lines[0]
    assert "ä" * 512 in described
