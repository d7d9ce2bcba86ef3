"""The request that resizes a pod in place: which container grows, and when there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trimtab.core.model.instructions import ResizePod
from trimtab.wire.resize import CannotResize, resize_request

RESIZE = ResizePod("u1", "shop", "web", 3000)


def pod(uid: str = "u1", **containers: dict[str, Any]) -> bytes:
    listed = [{"name": name, "resources": resources} for name, resources in containers.items()]
    return json.dumps({"metadata": {"uid": uid}, "spec": {"containers": listed}}).encode()


@pytest.mark.parametrize(
    ("main", "cpu"),
    [({"requests": {"cpu": "1"}}, "2500m"), ({"requests": {"cpu": 1}, "limits": {"cpu": "2"}}, "2000m")],
)
def test_the_largest_container_grows(main: dict[str, Any], cpu: str) -> None:
    """By what the pod uses beyond the other containers' requests, up to its limit."""
    found = resize_request(RESIZE, pod(main=main, sidecar={"requests": {"cpu": "500m"}}))
    assert ("PATCH", "/api/v1/namespaces/shop/pods/web/resize") == (found.method, found.path)
    changed = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    assert {"metadata": {"uid": "u1"}, "spec": {"containers": [changed]}} == json.loads(found.body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (pod("another", main={"requests": {"cpu": "1"}}), "it is gone"),
        (pod(main={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}), "container main has its limit of 2000m"),
        (pod(main={"requests": {"cpu": "many"}}), "many"),
        (b"<html>", "malformed"),
        (pod(), "empty"),
    ],
)
def test_what_cannot_be_resized(body: bytes, reason: str) -> None:
    """With words, and without a request."""
    with pytest.raises(CannotResize, match=reason):
        resize_request(RESIZE, body)
