"""Decides how marks are put on a node and what the answer means; sends nothing.

Labels alone go as a merge patch that names only our keys. Taints are one list that everybody shares: a list of changes,
good for the version that was seen alone, adds ours at the end or takes it from its place, so that nobody else's is ever
written. Both carry the UID: for a node made anew under the old name they are refused (422), and it is looked at again.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.events import LabelDone, LabelFailed
from trimtab.core.model.instructions import LabelNode
from trimtab.wire.decode_errors import decode_part
from trimtab.wire.outcomes import FORBIDDEN
from trimtab.wire.requests import MERGE_PATCH, NODES, Request, json_request, quote
from trimtab.wire.status import read_status

OK = 200
JSON_PATCH = "application/json-patch+json"
Step = dict[str, Any]


class _Meta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Written(Struct, frozen=True):
    metadata: _Meta = _Meta()


def label_request(label: LabelNode) -> Request:
    path = f"{NODES}/{quote(label.node)}"
    if label.add_taints or label.remove_taints:
        return json_request("PATCH", path, _json_patch(label), JSON_PATCH)
    return json_request("PATCH", path, {"metadata": {"uid": label.uid, "labels": dict(label.labels)}}, MERGE_PATCH)


def dry_run_label_request(label: LabelNode) -> Request:
    """The same, judged by the API server as if it were meant, and written nowhere."""
    request = label_request(label)
    return replace(request, path=f"{request.path}?dryRun=All")


def label_outcome(label: LabelNode, status: int | None, body: bytes, now: float) -> LabelDone | LabelFailed:
    """Where nobody knows, it counts as failed: what was done all the same will be seen, and is then left as it is."""
    if status == OK:
        return LabelDone(label.node, now, _version(body))
    said = (read_status(body).message or f"HTTP status {status}") if status is not None else "no answer"
    return LabelFailed(label.node, said, now, forbidden=status == FORBIDDEN)


def _version(body: bytes) -> int:
    """Which version the patch made of the node, 0 where the answer does not say."""
    found = decode_part(body, _Written, "", [])
    text = found.metadata.resource_version if found is not None else ""
    return int(text) if text.isdecimal() and text.isascii() else 0


def format_label_change(label: LabelNode) -> str:
    """The change in one line, for people."""
    labels = [f"-{key}" if value is None else f"+{key}={value}" for key, value in label.labels]
    taints = [f"+taint {taint.key}:{taint.effect}" for taint in label.add_taints]
    return ", ".join([*labels, *taints, *(f"-taint {key}" for _, key in label.remove_taints)])


def _json_patch(label: LabelNode) -> list[Step]:
    """Taints go from the last place to the first: each step moves what stands behind."""
    steps: list[Step] = [
        {"op": "replace", "path": "/metadata/uid", "value": label.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": str(label.version)},
    ]
    steps += [_label_operation(key, value) for key, value in label.labels]
    for place, key in sorted(label.remove_taints, reverse=True):
        steps.append({"op": "test", "path": f"/spec/taints/{place}/key", "value": key})
        steps.append({"op": "remove", "path": f"/spec/taints/{place}"})
    taints = [{"key": taint.key, "effect": taint.effect} for taint in label.add_taints]
    if taints and label.has_no_taints:
        return [*steps, {"op": "add", "path": "/spec/taints", "value": taints}]
    return steps + [{"op": "add", "path": "/spec/taints/-", "value": taint} for taint in taints]


def _label_operation(key: str, value: str | None) -> Step:
    path = f"/metadata/labels/{key.replace('~', '~0').replace('/', '~1')}"
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
