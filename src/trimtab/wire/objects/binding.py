"""Decides how volumes and nodes are promised to claims, and what the answer means for the pod that waits; sends nothing.

Each patch carries the version that the promise was made on: if anything has changed since, the server refuses it.
"""

from __future__ import annotations

from trimtab.core.model.event import StageAnswered
from trimtab.core.model.instruction import BindVolume, SelectNode
from trimtab.wire.request import MERGE_PATCH, Request, quoted, sent
from trimtab.wire.status import read_status

OK = 200
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def promise_request(wish: BindVolume | SelectNode) -> Request:
    return _volume_request(wish) if isinstance(wish, BindVolume) else _node_request(wish)


def _volume_request(bind: BindVolume) -> Request:
    """The annotation tells the volume controller that it may take the promise back when the claim goes."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": bind.claim_namespace,
        "name": bind.claim,
        "uid": bind.claim_uid,
    }
    metadata = {
        "resourceVersion": str(bind.version),
        **({"annotations": {BY_CONTROLLER: "yes"}} if bind.by_us else {}),
    }
    path = f"/api/v1/persistentvolumes/{quoted(bind.volume)}"
    return sent("PATCH", path, {"metadata": metadata, "spec": {"claimRef": claim}}, MERGE_PATCH)


def _node_request(select: SelectNode) -> Request:
    metadata = {"resourceVersion": str(select.version), "annotations": {SELECTED_NODE: select.node}}
    path = f"/api/v1/namespaces/{quoted(select.claim_namespace)}/persistentvolumeclaims/{quoted(select.claim)}"
    return sent("PATCH", path, {"metadata": metadata}, MERGE_PATCH)


def promise_outcome(wish: BindVolume | SelectNode, status: int | None, body: bytes, at: float) -> StageAnswered:
    """Whether the server has taken it. If nobody knows, the pod tries again, and finds what was done as done."""
    if status == OK:
        return StageAnswered(wish.uid, at)
    what = f"volume {wish.volume}" if isinstance(wish, BindVolume) else f"claim {wish.claim_namespace}/{wish.claim}"
    said = (read_status(body).message or f"HTTP status {status}") if status is not None else "no answer"
    return StageAnswered(wish.uid, at, f"{what} could not be prepared: {said}")
