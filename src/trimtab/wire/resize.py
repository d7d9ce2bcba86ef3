"""Decodes what resizing a pod in place needs to know of it, and the requests: read it, and patch its subresource `resize`."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from trimtab.core.model.instructions import ResizePod
from trimtab.wire.decoding import UNREADABLE
from trimtab.wire.quantity import QuantityError, nanos
from trimtab.wire.requests import STRATEGIC_PATCH, Request, json_request, quote

MILLI = 1_000_000  # nanos


class CannotResize(Exception):
    """Why, in words."""


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


def read_request(resize: ResizePod) -> Request:
    return Request("GET", _path(resize))


def resize_request(resize: ResizePod, body: bytes) -> Request:
    """For the pod in these bytes: the container with the largest request gets what is missing, up to its limit.

    Raises CannotResize.
    """
    try:
        pod = msgspec.json.decode(body, type=_Pod)
        if pod.metadata.uid != resize.uid:
            raise CannotResize("it is gone")
        container, cpu = _larger(pod, resize.cpu)
    except (*UNREADABLE, QuantityError, ValueError) as error:
        raise CannotResize(str(error)) from None
    changed = {"name": container, "resources": {"requests": {"cpu": f"{cpu}m"}}}
    patch = {"metadata": {"uid": resize.uid}, "spec": {"containers": [changed]}}
    return json_request("PATCH", f"{_path(resize)}/resize", patch, STRATEGIC_PATCH)


def _path(resize: ResizePod) -> str:
    return f"/api/v1/namespaces/{quote(resize.namespace)}/pods/{quote(resize.name)}"


def _larger(pod: _Pod, wanted: int) -> tuple[str, int]:
    """The container and its new request in millicores."""
    requests = {each.name: _cpu(each.resources.requests) for each in pod.spec.containers}
    largest = max(pod.spec.containers, key=lambda each: requests[each.name])
    grown = requests[largest.name] + wanted - sum(requests.values())
    limit = _cpu(largest.resources.limits)
    grown = min(grown, limit) if limit else grown
    if grown <= requests[largest.name]:
        raise CannotResize(f"container {largest.name} has its limit of {limit}m as request already")
    return largest.name, grown


def _cpu(amounts: dict[str, str | int | float] | None) -> int:
    return nanos((amounts or {}).get("cpu")) // MILLI
