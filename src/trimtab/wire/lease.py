"""Decodes a Lease, and the requests to create and update it.

An update starts from the object that was read: fields of other tools stay, and its resourceVersion makes the server refuse
when another replica was faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from trimtab.wire.decoding import UNREADABLE, Malformed, decode_part, read_status
from trimtab.wire.pod_json import Name
from trimtab.wire.requests import MERGE_PATCH, Request, json_request, quote

LEASES = "/apis/coordination.k8s.io/v1"
PAUSED = "trimtab.dev/paused"  # the kill switch: an annotation whose value is the reason; "false" counts as unset


class Lease(Struct, frozen=True):
    """Who holds the lease, for how many seconds after each renewal, and how often it changed hands."""

    namespace: str
    name: str
    holder: str = ""
    duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0
    raw: bytes = b""
    paused: str = ""  # why all moves are paused; empty if they are not


class _LeaseMeta(Struct, frozen=True, rename="camel"):
    name: Name
    namespace: Name
    resource_version: Name
    annotations: dict[str, str] | None = None


class _LeaseSpec(Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _LeaseShape(Struct, frozen=True):
    metadata: _LeaseMeta
    spec: _LeaseSpec | None = None


def read_lease(data: bytes) -> Lease | Malformed:
    """The lease in these bytes."""
    errors: list[str] = []
    shape = decode_part(data, _LeaseShape, "lease", errors)
    if shape is None:
        return Malformed("Lease", "", "", read_status(data).message or "".join(errors))
    spec = shape.spec or _LeaseSpec()
    return Lease(
        namespace=shape.metadata.namespace,
        name=shape.metadata.name,
        holder=spec.holder_identity or "",
        duration_seconds=spec.lease_duration_seconds or 0,
        acquire_time=spec.acquire_time or "",
        renew_time=spec.renew_time or "",
        transitions=spec.lease_transitions or 0,
        raw=data,
        paused=_pause(shape.metadata.annotations or {}),
    )


def _pause(annotations: Mapping[str, str]) -> str:
    value = annotations.get(PAUSED, "false").strip()
    return "" if value == "false" else value or "no reason is given"


def pause_lease_request(namespace: str, name: str, reason: str | None) -> Request:
    """Set the kill switch, or with None remove it."""
    body = {"metadata": {"annotations": {PAUSED: reason}}}
    return json_request("PATCH", f"{_leases(namespace)}/{quote(name)}", body, MERGE_PATCH)


def seconds_since_renewal(lease: Lease, now: float) -> float | None:
    """By the holder's clock, so that it may be negative; None without a renew time."""
    return seconds_since(lease.renew_time, now)


def seconds_since(stamp: str, now: float) -> float | None:
    """From an RFC 3339 time of another clock until now; None if it is none."""
    try:
        return now - datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None


def get_lease_request(namespace: str, name: str) -> Request:
    return Request("GET", f"{_leases(namespace)}/{quote(name)}")


def create_lease_request(lease: Lease) -> Request:
    """Fails with a conflict if it exists."""
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": lease.namespace, "name": lease.name},
        "spec": _spec(lease),
    }
    return json_request("POST", _leases(lease.namespace), body)


def update_lease_request(lease: Lease) -> Request:
    """Fails with a conflict if it was written since `lease` was read; only for one that was read."""
    body = _object(lease.raw)
    if not body:
        raise ValueError(f"lease {lease.namespace}/{lease.name} was not read from the server")
    body["spec"] = {**(body.get("spec") or {}), **_spec(lease)}
    return json_request("PUT", f"{_leases(lease.namespace)}/{quote(lease.name)}", body)


def _object(source: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(source, type=dict[str, Any])
    except UNREADABLE:
        return {}


def _spec(lease: Lease) -> dict[str, Any]:
    return {
        "holderIdentity": lease.holder,
        "leaseDurationSeconds": lease.duration_seconds,
        "acquireTime": lease.acquire_time or None,
        "renewTime": lease.renew_time or None,
        "leaseTransitions": lease.transitions,
    }


def _leases(namespace: str) -> str:
    return f"{LEASES}/namespaces/{quote(namespace)}/leases"
