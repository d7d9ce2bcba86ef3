"""Pods that a check creates and removes again: what they look like, and when each was bound.

They run nothing: without an image of its own a pod names one that is never pulled. A pod counts once it is bound to a node;
whether its container starts is not the scheduler's concern.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Object, ObjectRef, refusal
from trimtab.apps.deploy.plan import check_namespace
from trimtab.apps.deploy.release import MANAGED_BY
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request, json_request, quote

RUN_LABEL = "deploy.trimtab.dev/check"
MANAGER = "trimtab-deploy-test"
CONCURRENCY = 16
RETRY_SECONDS = 1.0
DELETE_ROUNDS, DELETE_SECONDS = 20, 0.2
ENDING_POLLS, ENDING_POLL_SECONDS = 60, 1.0
ACCOUNT_POLLS, ACCOUNT_POLL_SECONDS = 100, 0.1
WATCH_SECONDS = 300
UNUSED_IMAGE = "trimtab-check"
SMALL = {"cpu": "1m", "memory": "1Mi"}  # a load test of thousands fits any cluster
LIMITS = {"cpu": "200m", "memory": "128Mi"}


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Where the pods go, who schedules them, and the image that they run, if any."""

    namespace: str
    scheduler: str
    run_id: str
    image: str = ""


def probe_pod(
    options: ProbeOptions,
    name: str,
    requests: Mapping[str, str] = SMALL,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod that any namespace admits, also one that enforces the `restricted` standard."""
    container = {
        "name": "pause",
        "image": options.image or UNUSED_IMAGE,
        "imagePullPolicy": "IfNotPresent" if options.image else "Never",
        "resources": {"requests": dict(requests), "limits": LIMITS},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{options.run_id}",
            "namespace": options.namespace,
            "labels": {RUN_LABEL: options.run_id, MANAGED_BY: MANAGER, **(labels or {})},
        },
        "spec": {
            "schedulerName": options.scheduler,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            **spec,
        },
    }


@dataclass
class Bindings:
    """When each pod was created and bound, by the loop's clock, and to which node."""

    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: BaseException | None = None  # why pods are no longer observed

    def fail(self, watching: asyncio.Task[None]) -> None:
        """Take in the end of the task that observes the pods: whoever waits for one gets its error."""
        if not watching.cancelled():
            self.failure = watching.exception()
            self.changed.set()

    def observe(self, pod: Object, now: float) -> None:
        """Take in a pod that was listed or watched."""
        name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName", "")
        if node and name not in self.bound:
            self.bound[name], self.nodes[name] = now, node
            self.changed.set()

    def pods_per_node(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for node in self.nodes.values():
            counts[node] = counts.get(node, 0) + 1
        return dict(sorted(counts.items()))

    async def wait_for(self, names: Sequence[str], timeout: float) -> list[str]:
        """Wait until these pods are bound; those that are not after so many seconds. Raises why they are not observed."""
        deadline = asyncio.get_running_loop().time() + timeout
        while missing := [name for name in names if name not in self.bound]:
            if self.failure is not None:
                raise self.failure
            self.changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self.changed.wait()
            except TimeoutError:
                return missing
        return []


async def create_pods(
    client: ApiClient, pods: Sequence[Object], bindings: Bindings, done: Callable[[], None] = lambda: None
) -> list[str]:
    """Create them, several at a time; their names. A pod's time counts from before it is sent."""
    slots = asyncio.Semaphore(CONCURRENCY)
    loop = asyncio.get_running_loop()

    async def create(pod: Object) -> str:
        async with slots:
            name: str = pod["metadata"]["name"]
            bindings.created[name] = loop.time()
            answer = await client.send(json_request("POST", _pods_path(pod["metadata"]["namespace"]), pod))
            if answer.status != 201:
                raise refusal(answer, f"create pod {name}")
            done()
            return name

    return list(await asyncio.gather(*map(create, pods)))


async def watch_bindings(client: ApiClient, options: ProbeOptions, bindings: Bindings) -> None:
    """Observe the run's pods until it is cancelled: list, watch, and again a moment after any end.

    Where watching is refused and listing is not, that is a list every second. Raises DeployError if listing is refused.
    """
    loop = asyncio.get_running_loop()
    while True:
        with suppress(Unreachable):
            version = await _list(client, options, bindings, loop.time)
            await _watch(client, options, bindings, version, loop.time)
        await asyncio.sleep(RETRY_SECONDS)


async def _list(client: ApiClient, options: ProbeOptions, bindings: Bindings, now: Callable[[], float]) -> str:
    path = f"{_pods_path(options.namespace)}?labelSelector={quote(f'{RUN_LABEL}={options.run_id}')}"
    answer = await client.send(Request("GET", path))
    if answer.status >= 500:
        raise Unreachable(f"listing pods failed with status {answer.status}", sent=True)
    if answer.status != 200:
        raise refusal(answer, f"list pods in {options.namespace}")
    found = msgspec.json.decode(answer.body)
    for pod in found.get("items") or ():
        bindings.observe(pod, now())
    return str(found["metadata"]["resourceVersion"])


async def _watch(
    client: ApiClient, options: ProbeOptions, bindings: Bindings, version: str, now: Callable[[], float]
) -> None:
    selector = quote(f"{RUN_LABEL}={options.run_id}")
    query = f"watch=1&labelSelector={selector}&resourceVersion={quote(version)}&timeoutSeconds={WATCH_SECONDS}"
    request = Request("GET", f"{_pods_path(options.namespace)}?{query}")
    async with client.transport.stream(request, 2.0 * WATCH_SECONDS) as stream:
        if stream.status != 200:
            return
        async for lines in stream.lines():
            for line in lines:
                event = msgspec.json.decode(line)
                if event.get("type") in ("ADDED", "MODIFIED"):
                    bindings.observe(event["object"], now())


async def delete_pods(client: ApiClient, options: ProbeOptions) -> None:
    """Delete all pods of the run until none is left: a creation that was interrupted may still arrive."""
    for _ in range(DELETE_ROUNDS):
        await _delete_all(client, options)
        await asyncio.sleep(DELETE_SECONDS)
        if not await client.list_kind("v1", "Pod", options.namespace, labels=f"{RUN_LABEL}={options.run_id}"):
            return


async def _delete_all(client: ApiClient, options: ProbeOptions) -> None:
    """All of them in one request, without waiting for their containers."""
    selector = quote(f"{RUN_LABEL}={options.run_id}")
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    path = f"{_pods_path(options.namespace)}?labelSelector={selector}"
    answer = await client.send(json_request("DELETE", path, body))
    if answer.status not in (200, 202, 404):
        raise refusal(answer, f"delete the pods with label {RUN_LABEL}={options.run_id}")


def _pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/pods"


@asynccontextmanager
async def probe_namespace(client: ApiClient, options: ProbeOptions) -> AsyncIterator[Bindings]:
    """The namespace, created if it does not exist, and its bindings; what was created is removed, also after Ctrl-C."""
    made = await _ensure_namespace(client, options.namespace)
    bindings = Bindings()
    watching = asyncio.create_task(watch_bindings(client, options, bindings))
    watching.add_done_callback(bindings.fail)
    try:
        yield bindings
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await asyncio.shield(_clean_up(client, options, made))


async def _ensure_namespace(client: ApiClient, namespace: str) -> bool:
    """Whether it is ours to delete: made now, or left by an earlier run that was killed."""
    await _wait_for_earlier_run(client, namespace)
    found = await check_namespace(client, namespace)
    if found is not None:
        return _is_probe_namespace(found)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {MANAGED_BY: MANAGER}}}
    answer = await client.send(json_request("POST", "/api/v1/namespaces", body))
    if answer.status != 201:
        raise refusal(answer, f"create namespace {namespace}")
    await _wait_for_account(client, namespace)
    return True


def _is_probe_namespace(namespace: Object) -> bool:
    return bool((namespace["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER)


async def _wait_for_earlier_run(client: ApiClient, namespace: str) -> None:
    """An earlier run has just deleted its namespace: it takes some seconds until that is gone."""
    ref = ObjectRef("v1", "Namespace", namespace)
    for _ in range(ENDING_POLLS):
        found = await client.read(ref)
        if found is None or not _is_probe_namespace(found) or not found["metadata"].get("deletionTimestamp"):
            return
        await asyncio.sleep(ENDING_POLL_SECONDS)


async def _wait_for_account(client: ApiClient, namespace: str) -> None:
    """No pod is admitted before the controller has made the namespace's service account."""
    account = ObjectRef("v1", "ServiceAccount", "default", namespace)
    for _ in range(ACCOUNT_POLLS):
        if await client.read(account) is not None:
            return
        await asyncio.sleep(ACCOUNT_POLL_SECONDS)
    await client.delete(ObjectRef("v1", "Namespace", namespace))
    raise DeployError(f"namespace {namespace} got no service account: check that kube-controller-manager runs")


async def _clean_up(client: ApiClient, options: ProbeOptions, made: bool) -> None:
    await delete_pods(client, options)
    if made:
        await client.delete(ObjectRef("v1", "Namespace", options.namespace))
