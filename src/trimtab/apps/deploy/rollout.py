"""Waits until Deployments have rolled out, as `kubectl rollout status` does, and says what keeps them from it; or until
their pods are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Object, ObjectRef, Say, join_first
from trimtab.apps.deploy.release import TRIMTAB

POLL_SECONDS = 0.5


def rollout_state(deployment: Object) -> str:
    """What the rollout waits for; empty once every replica is of the newest template and available."""
    spec, status = deployment["spec"], deployment.get("status") or {}
    wanted = spec.get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return "waiting for the deployment controller"
    if updated < wanted:
        return f"{updated} of {wanted} replicas updated"
    if total > updated:
        return f"{total - updated} old replicas left"
    return f"{available} of {wanted} replicas available" if available < wanted else ""


async def wait_for_rollout(client: ApiClient, refs: Sequence[ObjectRef], timeout: float, say: Say) -> None:
    """Report progress until all are available; DeployError with the reasons after so many seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    said: dict[ObjectRef, str] = {}
    while states := await _unfinished(client, refs):
        for ref, state in states.items():
            if said.get(ref) != state:
                say(f"{ref}: {state}")
        said |= states
        if loop.time() >= deadline:
            raise DeployError(await _timeout_message(client, states, timeout))
        await asyncio.sleep(POLL_SECONDS)


async def wait_for_pods(client: ApiClient, namespace: str, labels: str, timeout: float, leaving: bool = False) -> None:
    """Wait until no pod has these labels, or none that is being deleted: a process that still runs would write again
    what is removed after it."""
    deadline = asyncio.get_running_loop().time() + timeout
    while pods := [
        each
        for each in await client.list_kind("v1", "Pod", namespace, labels=labels)
        if not leaving or each["metadata"].get("deletionTimestamp")
    ]:
        if asyncio.get_running_loop().time() >= deadline:
            left = join_first(each["metadata"]["name"] for each in pods)
            raise DeployError(f"pods are not gone after {timeout:g} s: {left}; check their nodes, then run it again")
        await asyncio.sleep(POLL_SECONDS)


async def _unfinished(client: ApiClient, refs: Sequence[ObjectRef]) -> dict[ObjectRef, str]:
    found = await asyncio.gather(*map(client.read, refs))
    states = ("does not exist" if item is None else rollout_state(item) for item in found)
    return {ref: state for ref, state in zip(refs, states, strict=True) if state}


async def _timeout_message(client: ApiClient, states: dict[ObjectRef, str], timeout: float) -> str:
    namespace = next(iter(states)).namespace
    reasons = await waiting_reasons(client, namespace)
    listed = join_first((f"{ref}: {state}" for ref, state in states.items()), 3)
    why = f" ({join_first(reasons, 3)})" if reasons else ""
    return (
        f"not available after {timeout:g} s: {listed}{why}; nothing was rolled back: see trimtab deploy status and logs "
        f"-n {namespace}"
    )


async def waiting_reasons(client: ApiClient, namespace: str) -> list[str]:
    """Why pods of Trimtab are not ready, one reason per pod."""
    pods = await client.list_kind("v1", "Pod", namespace, labels=TRIMTAB)
    reasons = ((pod["metadata"]["name"], _waiting_reason(pod)) for pod in pods)
    return [f"{name}: {reason}" for name, reason in reasons if reason]


def _waiting_reason(pod: Object) -> str:
    status: dict[str, Any] = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        held = state.get("waiting") or state.get("terminated")
        if held:
            return ": ".join(text for text in (held.get("reason", ""), held.get("message", "")) if text)
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason", "not scheduled"))
    return (
        ""
        if conditions.get("Ready", {}).get("status") == "True"
        else f"not ready, phase {status.get('phase', 'unknown')}"
    )
