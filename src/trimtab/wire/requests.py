"""The HTTP request for each instruction, and for lists and watches, as plain values; `kube` sends them.

There is no clock here: callers pass times, formatted by `rfc3339` or `rfc3339_micro`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from trimtab.core.model.instructions import (
    Bind,
    BindVolume,
    EmitEvent,
    Evict,
    GetPod,
    LabelNode,
    Nominate,
    Preempt,
    SelectNode,
    SetUnschedulable,
)

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
EVENTS = "/apis/events.k8s.io/v1"

REPORTING_CONTROLLER = "trimtab"
PREEMPTED = "PreemptionByScheduler"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MAX_NOTE_BYTES = 1024
MAX_FIELD_BYTES = 128
MAX_NAME_BYTES = 253

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ALL_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]*")

Operation = dict[str, Any]


class Request(Struct, frozen=True):
    """One HTTP request, without server and credentials."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = ""
    accept: str = JSON


def rfc3339(seconds: float) -> str:
    """Kubernetes' Time, as in a condition."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Kubernetes' MicroTime, as in a Lease or an Event."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def quote(text: str) -> str:
    """Percent-encode the text as one path segment or one query value."""
    if _ALL_UNRESERVED.fullmatch(text):  # true of every Kubernetes name, and each bind quotes several
        return text
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode(errors="replace"))


def truncate(text: str, size: int) -> str:
    """Cut the text to so many bytes, never inside a character."""
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def json_request(method: str, path: str, body: Any, content_type: str = JSON) -> Request:
    """A request with a JSON body."""
    return Request(method, path, msgspec.json.encode(body), content_type)


def list_request(
    path: str, *, limit: int = 0, continue_token: str = "", version: str = "", fields: str = "", accept: str = JSON
) -> Request:
    """One page of a list; without a version it is a consistent read from etcd."""
    page = {"limit": str(limit or ""), "continue": continue_token}
    query = _query({**page, "resourceVersion": version, "fieldSelector": fields})
    return Request("GET", path + query, accept=accept)


def find_request(path: str, namespace: str, name: str) -> Request:
    """A list of the one object of this name: unlike a GET, it needs no right beyond that to list."""
    fields = f"metadata.name={name}" + (f",metadata.namespace={namespace}" if namespace else "")
    return list_request(path, fields=fields)


def watch_request(path: str, version: int, timeout_seconds: int, *, fields: str = "") -> Request:
    """All changes after the version, with bookmarks, until the server ends the watch after the given time."""
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": str(version),
        "timeoutSeconds": str(timeout_seconds),
        "fieldSelector": fields,
    }
    return Request("GET", path + _query(query))


def bind_request(bind: Bind) -> Request:
    """With the UID, so that the server rejects it when the name now belongs to another pod."""
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


def get_pod_request(get: GetPod) -> Request:
    """A consistent read from etcd, not from a cache that may not know the bind yet."""
    return Request("GET", _pod(get.namespace, get.name))


def pod_status_request(unschedulable: SetUnschedulable | None, nominate: Nominate | None, since: str = "") -> Request:
    """Set PodScheduled to False, the nominated node, or both in one patch; at least one must be given.

    Pass `since` only when the condition was not False before: it becomes lastTransitionTime.
    """
    pod = unschedulable or nominate
    assert pod is not None
    status: dict[str, Any] = {}
    if unschedulable is not None:
        condition = _condition("PodScheduled", "False", unschedulable.reason, unschedulable.message, since)
        status["conditions"] = [condition]
    if nominate is not None:
        status["nominatedNodeName"] = nominate.node or None  # null removes the field
    return _status_patch(pod.namespace, pod.name, pod.uid, status)


def disruption_target_request(preempt: Preempt, since: str) -> Request:
    """Set the victim's DisruptionTarget condition, which says why it is about to be deleted."""
    message = f"{preempt.scheduler_name}: preempting to accommodate a higher priority pod"
    condition = _condition("DisruptionTarget", "True", PREEMPTED, message, since)
    return _status_patch(preempt.namespace, preempt.name, preempt.uid, {"conditions": [condition]})


def delete_pod_request(preempt: Preempt) -> Request:
    """With the pod's own grace period; the UID precondition spares a newer pod of the same name."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": preempt.uid}}
    return json_request("DELETE", _pod(preempt.namespace, preempt.name), options)


def evict_request(evict: Evict) -> Request:
    """After a 409 for the UID the server has charged the budget all the same."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": evict.uid}}
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": evict.name, "namespace": evict.namespace},
        "deleteOptions": options | ({"gracePeriodSeconds": evict.grace} if evict.grace else {}),
    }
    return json_request("POST", _pod(evict.namespace, evict.name) + "/eviction", eviction)


def _condition(kind: str, status: str, reason: str, message: str, since: str) -> dict[str, str]:
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    return condition | {"lastTransitionTime": since} if since else condition


def _status_patch(namespace: str, name: str, uid: str, status: dict[str, Any]) -> Request:
    """With the UID, so that the server rejects it when the name now belongs to another pod."""
    patch = {"metadata": {"uid": uid}, "status": status}
    return json_request("PATCH", _pod(namespace, name) + "/status", patch, STRATEGIC_PATCH)


def bind_volume_request(bind: BindVolume) -> Request:
    """Set the volume's claimRef; rejected if the volume has changed since `version`.

    The annotation allows the volume controller to remove the claimRef when the claim is deleted.
    """
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": bind.claim_namespace,
        "name": bind.claim,
        "uid": bind.claim_uid,
    }
    metadata = {
        "resourceVersion": str(bind.version),
        **({"annotations": {BOUND_BY_CONTROLLER: "yes"}} if bind.bound_by_controller else {}),
    }
    path = f"/api/v1/persistentvolumes/{quote(bind.volume)}"
    return json_request("PATCH", path, {"metadata": metadata, "spec": {"claimRef": claim}}, MERGE_PATCH)


def select_node_request(select: SelectNode) -> Request:
    """Set the claim's selected-node annotation; rejected if the claim has changed since `version`."""
    metadata = {"resourceVersion": str(select.version), "annotations": {SELECTED_NODE: select.node}}
    path = f"/api/v1/namespaces/{quote(select.claim_namespace)}/persistentvolumeclaims/{quote(select.claim)}"
    return json_request("PATCH", path, {"metadata": metadata}, MERGE_PATCH)


def label_request(label: LabelNode) -> Request:
    """Labels alone are a merge patch of our own keys. Taints are one shared list, so they need a JSON patch.

    The JSON patch holds for one resourceVersion and names only our taints, so nobody else's are ever written. Both carry
    the UID: the server rejects them (422) for a node recreated under the same name.
    """
    path = f"{NODES}/{quote(label.node)}"
    if label.add_taints or label.remove_taints:
        return json_request("PATCH", path, _json_patch(label), JSON_PATCH)
    return json_request("PATCH", path, {"metadata": {"uid": label.uid, "labels": dict(label.labels)}}, MERGE_PATCH)


def dry_run_label_request(label: LabelNode) -> Request:
    """The same as a server-side dry run."""
    request = label_request(label)
    return msgspec.structs.replace(request, path=f"{request.path}?dryRun=All")


def format_label_change(label: LabelNode) -> str:
    """The change in one line, for logs."""
    labels = [f"-{key}" if value is None else f"+{key}={value}" for key, value in label.labels]
    taints = [f"+taint {taint.key}:{taint.effect}" for taint in label.add_taints]
    return ", ".join([*labels, *taints, *(f"-taint {key}" for _, key in label.remove_taints)])


def _json_patch(label: LabelNode) -> list[Operation]:
    """Taints are removed from the last index to the first, because each removal shifts those behind it."""
    operations: list[Operation] = [
        {"op": "replace", "path": "/metadata/uid", "value": label.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": str(label.version)},
    ]
    operations += [_label_operation(key, value) for key, value in label.labels]
    for index, key in sorted(label.remove_taints, reverse=True):
        operations.append({"op": "test", "path": f"/spec/taints/{index}/key", "value": key})
        operations.append({"op": "remove", "path": f"/spec/taints/{index}"})
    taints = [{"key": taint.key, "effect": taint.effect} for taint in label.add_taints]
    if taints and label.has_no_taints:
        return [*operations, {"op": "add", "path": "/spec/taints", "value": taints}]
    return operations + [{"op": "add", "path": "/spec/taints/-", "value": taint} for taint in taints]


def _label_operation(key: str, value: str | None) -> Operation:
    path = f"/metadata/labels/{key.replace('~', '~0').replace('/', '~1')}"
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}


def event_name(event: EmitEvent, suffix: int) -> str:
    """A name that no other Event of the pod has, as long as no two share a suffix."""
    tail = f".{suffix:016x}"
    return truncate(event.name, MAX_NAME_BYTES - len(tail)) + tail


def event_request(event: EmitEvent, now: str, name: str, instance: str) -> Request:
    """A new Event about the pod; every text is cut to the length that the server accepts."""
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
                "kind": event.kind,
                **({"namespace": event.namespace} if event.kind == "Pod" else {}),
                "name": event.name,
                "uid": event.uid,
            },
            "note": truncate(event.note, MAX_NOTE_BYTES),
            "type": "Warning" if event.warning else "Normal",
        },
    )


def series_request(namespace: str, name: str, count: int, now: str) -> Request:
    """Update the series of an existing Event."""
    series = {"count": count, "lastObservedTime": now}
    return json_request("PATCH", f"{_events(namespace)}/{quote(name)}", {"series": series}, MERGE_PATCH)


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"


def _events(namespace: str) -> str:
    return f"{EVENTS}/namespaces/{quote(namespace)}/events"


def _query(values: dict[str, str]) -> str:
    given = "&".join(f"{name}={quote(value)}" for name, value in values.items() if value)
    return f"?{given}" if given else ""
