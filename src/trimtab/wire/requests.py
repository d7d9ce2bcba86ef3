"""Decides how each wish is put to the API server, as a plain value; leaves sending it, and when, to `kube`.

Times are texts that the caller gives, because there is no clock here.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from trimtab.core.model.instructions import Bind, EmitEvent, GetPod, Nominate, Preempt, SetUnschedulable

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
EVENTS = "/apis/events.k8s.io/v1"

REPORTING_CONTROLLER = "trimtab"
PREEMPTED = "PreemptionByScheduler"
MAX_NOTE_BYTES = 1024
MAX_FIELD_BYTES = 128
MAX_NAME_BYTES = 253

# The characters that mean themselves anywhere in a URL.
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ALL_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]*")


class Request(Struct, frozen=True):
    """One HTTP request, apart from where it goes and who sends it."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = ""


def quote(text: str) -> str:
    """The text as one segment of a path or one value of a query."""
    if _ALL_UNRESERVED.fullmatch(text):  # as every name in Kubernetes is, and several are quoted for each bind
        return text
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode(errors="replace"))


def truncate(text: str, size: int) -> str:
    """The text within so many bytes, never ending inside a character."""
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def json_request(method: str, path: str, body: Any, content_type: str = JSON) -> Request:
    """A request with a JSON body."""
    return Request(method, path, msgspec.json.encode(body), content_type)


def list_request(
    path: str, *, limit: int = 0, continue_token: str = "", version: str = "", fields: str = ""
) -> Request:
    """One page of a list; without a version it is read from etcd, so that it is as new as can be."""
    page = {"limit": str(limit or ""), "continue": continue_token}
    return Request("GET", path + _query({**page, "resourceVersion": version, "fieldSelector": fields}))


def watch_request(path: str, version: int, timeout_seconds: int, *, fields: str = "") -> Request:
    """All changes after the version, with bookmarks, until the server ends it after the given time."""
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": str(version),
        "timeoutSeconds": str(timeout_seconds),
        "fieldSelector": fields,
    }
    return Request("GET", path + _query(query))


def bind_request(bind: Bind) -> Request:
    """The UID makes the server refuse when the name belongs to another pod by now."""
    return json_request(
        "POST",
        _pod(bind.namespace, bind.name) + "/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": bind.namespace, "name": bind.name, "uid": bind.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        },
    )


def get_pod_request(get_pod: GetPod) -> Request:
    """Read from etcd, not from a cache that may not know the bind yet."""
    return Request("GET", _pod(get_pod.namespace, get_pod.name))


def pod_status_request(unschedulable: SetUnschedulable | None, nominate: Nominate | None, since: str = "") -> Request:
    """Set PodScheduled to False, or the nominated node, or both in one; one of them must be given.

    `since` only when the condition was not False before, for it is the time of that change.
    """
    pod = unschedulable or nominate
    assert pod is not None
    status: dict[str, Any] = {}
    if unschedulable is not None:
        status["conditions"] = [_condition("PodScheduled", "False", unschedulable.reason, unschedulable.message, since)]
    if nominate is not None:
        status["nominatedNodeName"] = nominate.node or None  # in a patch, null is what removes a field
    return _status_patch(pod.namespace, pod.name, pod.uid, status)


def disruption_target_request(preempt: Preempt, since: str) -> Request:
    """Say in the status of a pod why it is about to be deleted."""
    words = f"{preempt.scheduler_name}: preempting to accommodate a higher priority pod"
    condition = _condition("DisruptionTarget", "True", PREEMPTED, words, since)
    return _status_patch(preempt.namespace, preempt.name, preempt.uid, {"conditions": [condition]})


def delete_pod_request(preempt: Preempt) -> Request:
    """With the grace that the pod asks for itself; the UID spares a newer pod of the same name."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": preempt.uid}}
    return json_request("DELETE", _pod(preempt.namespace, preempt.name), options)


def _condition(kind: str, status: str, reason: str, message: str, since: str) -> dict[str, str]:
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    return condition | {"lastTransitionTime": since} if since else condition


def _status_patch(namespace: str, name: str, uid: str, status: dict[str, Any]) -> Request:
    """The UID makes the server refuse when the name belongs to another pod by now."""
    patch = {"metadata": {"uid": uid}, "status": status}
    return json_request("PATCH", _pod(namespace, name) + "/status", patch, STRATEGIC_PATCH)


def event_name(event: EmitEvent, suffix: int) -> str:
    """A name that no other event of the pod has, as long as no two share a stamp."""
    tail = f".{suffix:016x}"
    return truncate(event.name, MAX_NAME_BYTES - len(tail)) + tail


def event_request(event: EmitEvent, now: str, name: str, instance: str) -> Request:
    """A new Event about the pod; every text is cut to what the server accepts."""
    controller = event.scheduler_name or REPORTING_CONTROLLER
    return json_request(
        "POST",
        _events(event.namespace),
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": event.namespace, "name": name},
            "eventTime": now,
            "reportingController": truncate(controller, MAX_FIELD_BYTES),
            "reportingInstance": truncate(instance, MAX_FIELD_BYTES),
            "action": truncate(event.action, MAX_FIELD_BYTES),
            "reason": truncate(event.reason, MAX_FIELD_BYTES),
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": event.namespace,
                "name": event.name,
                "uid": event.uid,
            },
            "note": truncate(event.note, MAX_NOTE_BYTES),
            "type": "Warning" if event.warning else "Normal",
        },
    )


def series_request(namespace: str, name: str, count: int, now: str) -> Request:
    """The same thing happened again: count it on the Event that is there."""
    series = {"count": count, "lastObservedTime": now}
    return json_request("PATCH", f"{_events(namespace)}/{quote(name)}", {"series": series}, MERGE_PATCH)


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"


def _events(namespace: str) -> str:
    return f"{EVENTS}/namespaces/{quote(namespace)}/events"


def _query(values: dict[str, str]) -> str:
    given = "&".join(f"{name}={quote(value)}" for name, value in values.items() if value)
    return f"?{given}" if given else ""
