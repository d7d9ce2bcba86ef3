"""Raises the CPU request of a running pod in place, through its subresource `resize`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from trimtab.core.model.events import ResizeDone
from trimtab.core.model.instructions import ResizePod
from trimtab.kube.surge import Send
from trimtab.wire.decoding import UNREADABLE
from trimtab.wire.outcomes import OK
from trimtab.wire.quantity import QuantityError, nanos
from trimtab.wire.requests import STRATEGIC_PATCH, Request, json_request, quote

MILLI = 1_000_000  # nanos


class _Resources(Struct, frozen=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(Struct, frozen=True):
    name: str
    resources: _Resources = _Resources()


class _Meta(Struct, frozen=True):
    uid: str = ""


class _Spec(Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Pod(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


async def resize_pod(resize: ResizePod, send: Send, now: Callable[[], float]) -> ResizeDone:
    """The container with the largest request gets what is missing, up to its limit."""
    path = f"/api/v1/namespaces/{quote(resize.namespace)}/pods/{quote(resize.name)}"
    reply = await send(Request("GET", path))
    try:
        pod = msgspec.json.decode(reply.body, type=_Pod) if reply.status == OK else None
        if pod is None or pod.metadata.uid != resize.uid:
            return ResizeDone(resize.uid, now(), reply.message if pod is None else "it is gone")
        container, cpu = _larger(pod, resize.cpu)
    except (*UNREADABLE, QuantityError, ValueError) as error:
        return ResizeDone(resize.uid, now(), str(error))
    changed = {"name": container, "resources": {"requests": {"cpu": f"{cpu}m"}}}
    body = {"metadata": {"uid": resize.uid}, "spec": {"containers": [changed]}}
    done = await send(json_request("PATCH", path + "/resize", body, STRATEGIC_PATCH))
    return ResizeDone(resize.uid, now(), "" if done.status == OK else done.message)


def _larger(pod: _Pod, wanted: int) -> tuple[str, int]:
    """The container and its new request in millicores; raises ValueError if its limit leaves no room."""
    requests = {each.name: _cpu(each.resources.requests) for each in pod.spec.containers}
    largest = max(pod.spec.containers, key=lambda each: requests[each.name])
    grown = requests[largest.name] + wanted - sum(requests.values())
    limit = _cpu(largest.resources.limits)
    grown = min(grown, limit) if limit else grown
    if grown <= requests[largest.name]:
        raise ValueError(f"container {largest.name} has its limit of {limit}m as request already")
    return largest.name, grown


def _cpu(amounts: dict[str, str | int | float] | None) -> int:
    return nanos((amounts or {}).get("cpu")) // MILLI
