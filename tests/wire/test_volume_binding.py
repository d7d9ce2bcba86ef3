"""Volume binding patches hold for one version only, and answers become events for the waiting pod."""

from __future__ import annotations

import json

import pytest

from trimtab.core.model.events import StageAnswered
from trimtab.core.model.instructions import BindVolume, SelectNode
from trimtab.wire.outcomes import Reply, bind_volume_outcome, select_node_outcome
from trimtab.wire.requests import MERGE_PATCH, bind_volume_request, select_node_request

BIND = BindVolume("u", "disk/1", 7, "shop", "data", "c-1")
SELECT = SelectNode("u", "shop", "data", 8, "node-1")


def test_a_volume_patch_holds_for_one_version() -> None:
    """The patch names the claim by UID, and marks the volume as bound by the controller."""
    request = bind_volume_request(BIND)
    assert ("PATCH", "/api/v1/persistentvolumes/disk%2F1", MERGE_PATCH) == (
        request.method,
        request.path,
        request.content_type,
    )
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "c-1"}
    assert {
        "metadata": {"resourceVersion": "7", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"claimRef": claim},
    } == json.loads(request.body)
    kept = bind_volume_request(BindVolume("u", "disk", 7, "shop", "data", "c-1", bound_by_controller=False))
    assert {"metadata": {"resourceVersion": "7"}, "spec": {"claimRef": claim}} == json.loads(kept.body)


def test_a_claim_patch_holds_for_one_version() -> None:
    """The provisioner goes by the annotation."""
    request = select_node_request(SELECT)
    assert ("PATCH", "/api/v1/namespaces/shop/persistentvolumeclaims/data") == (request.method, request.path)
    annotations = {"volume.kubernetes.io/selected-node": "node-1"}
    assert {"metadata": {"resourceVersion": "8", "annotations": annotations}} == json.loads(request.body)


REFUSED = b'{"kind":"Status","status":"Failure","message":"the object has been modified","code":409}'


@pytest.mark.parametrize(
    ("instruction", "status", "body", "error"),
    [
        (BIND, 200, b"{}", ""),
        (SELECT, 200, b"{}", ""),
        (BIND, 409, REFUSED, "volume disk/1 could not be prepared: the object has been modified"),
        (SELECT, 409, REFUSED, "claim shop/data could not be prepared: the object has been modified"),
        (SELECT, 502, b"", "claim shop/data could not be prepared: HTTP status 502"),
        (BIND, 0, b"", "volume disk/1 could not be prepared: no answer"),
    ],
)
def test_outcomes(instruction: BindVolume | SelectNode, status: int, body: bytes, error: str) -> None:
    """Only a clear yes lets the pod wait on."""
    reply = Reply(status, body)
    if isinstance(instruction, BindVolume):
        outcome = bind_volume_outcome(instruction, reply, 9.0)
    else:
        outcome = select_node_outcome(instruction, reply, 9.0)
    assert StageAnswered("u", 9.0, error) == outcome
