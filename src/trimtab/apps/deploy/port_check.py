"""Whether the secure port of every replica answers, asked through the API server's proxy to pods.

Only health checks are open to anybody, and the proxy passes on no credentials: an answer to /readyz proves that network,
certificate and process are fine. Who may read /metrics is decided behind it.
"""

from __future__ import annotations

import asyncio

from trimtab.apps.deploy.api_client import ApiClient, Object, join_first
from trimtab.apps.deploy.release import TRIMTAB
from trimtab.kube.transport import Response, Unreachable
from trimtab.wire.decoding import read_status
from trimtab.wire.requests import Request, quote

PORT_NAME = "https"
TIMEOUT = 3.0
CANNOT_REACH = (403, 502, 503, 504)  # we may not use the proxy, or the API server has no way to the pods


async def check_port(client: ApiClient, namespace: str) -> tuple[bool | None, str]:
    """Whether all answer (None if that cannot be found out), and what was seen."""
    pods = [each for each in await client.list_kind("v1", "Pod", namespace, labels=TRIMTAB) if _port(each)]
    if not pods:
        return None, f"no replica in namespace {namespace}"
    answers = await asyncio.gather(*(_ask(client, each) for each in pods))
    wrong = [(pod, answer) for pod, answer in zip(pods, answers, strict=True) if answer.status != 200]
    if not wrong:
        return True, f"{len(pods)} of {len(pods)} replicas answer /readyz"
    listed = join_first((f"{pod['metadata']['name']}: {_reason(answer)}" for pod, answer in wrong), 3)
    if all(answer.status in CANNOT_REACH and not _is_dead(pod, answer) for pod, answer in wrong):
        return None, f"cannot be asked through the API server: {listed}"
    return False, listed


async def _ask(client: ApiClient, pod: Object) -> Response:
    metadata = pod["metadata"]
    place = f"/api/v1/namespaces/{quote(metadata['namespace'])}/pods/https:{quote(metadata['name'])}:{_port(pod)}"
    try:
        return await client.transport.send(Request("GET", f"{place}/proxy/readyz"), TIMEOUT)
    except Unreachable as error:
        return Response(CANNOT_REACH[-1], {}, str(error).encode())


def _is_dead(pod: Object, answer: Response) -> bool:
    """Whether the pod itself, which is ready, refused the connection; not a tunnel on the way to it."""
    status = pod.get("status") or {}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    message, address = read_status(answer.body).message, status.get("podIP", "")
    place = f"[{address}]:{_port(pod)}" if ":" in address else f"{address}:{_port(pod)}"
    return ready and bool(address) and f" {place}: " in message and "connection refused" in message


def _port(pod: Object) -> int:
    """The number of the port that serves; 0 for a pod that serves nothing, such as one of a CronJob."""
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == PORT_NAME), 0)


def _reason(answer: Response) -> str:
    return f"{answer.status} {read_status(answer.body).message[:200]}"
