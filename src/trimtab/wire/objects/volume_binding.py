"""Decides how volumes and nodes are promised to claims, and what the answer means for the pod that waits; sends nothing.

Each patch carries the version that the promise was made on: if anything has changed since, the server refuses it.
"""

from __future__ import annotations

from trimtab.core.model.events import StageAnswered
from trimtab.core.model.instructions import BindVolume, SelectNode
from trimtab.wire.requests import MERGE_PATCH, Request, json_request, quote
from trimtab.wire.status import read_status

OK = 200
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def bind_volume_request(instruction: BindVolume | SelectNode) -> Request:
    return _volume_request(instruction) if isinstance(instruction, BindVolume) else _node_request(instruction)


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
        **({"annotations": {BOUND_BY_CONTROLLER: "yes"}} if bind.bound_by_controller else {}),
    }
    path = f"/api/v1/persistentvolumes/{quote(bind.volume)}"
    return json_request("PATCH", path, {"metadata": metadata, "spec": {"claimRef": claim}}, MERGE_PATCH)


def _node_request(select: SelectNode) -> Request:
    metadata = {"resourceVersion": str(select.version), "annotations": {SELECTED_NODE: select.node}}
    path = f"/api/v1/namespaces/{quote(select.claim_namespace)}/persistentvolumeclaims/{quote(select.claim)}"
    return json_request("PATCH", path, {"metadata": metadata}, MERGE_PATCH)


def bind_volume_outcome(
    instruction: BindVolume | SelectNode, status: int | None, body: bytes, now: float
) -> StageAnswered:
    """Whether the server has taken it. If nobody knows, the pod tries again, and finds what was done as done."""
    if status == OK:
        return StageAnswered(instruction.uid, now)
    what = (
        f"volume {instruction.volume}"
        if isinstance(instruction, BindVolume)
        else f"claim {instruction.claim_namespace}/{instruction.claim}"
    )
    said = (read_status(body).message or f"HTTP status {status}") if status is not None else "no answer"
    return StageAnswered(instruction.uid, now, f"{what} could not be prepared: {said}")
