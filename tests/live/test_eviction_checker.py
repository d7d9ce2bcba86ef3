"""The checker of evictions finds what it is there for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.eviction_checker import check_evictions

ACCOUNT = "system:serviceaccount:trimtab:trimtab-rescheduler"


def entry(verb: str, name: str, second: int, subresource: str = "", **more: Any) -> dict[str, Any]:
    time = f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000000Z"
    reference = {"resource": "pods", "namespace": "default", "name": name, "subresource": subresource}
    return {
        "verb": verb,
        "user": {"username": ACCOUNT},
        "objectRef": {**reference, **more.pop("ref", {})},
        "requestURI": f"/api/v1/namespaces/default/pods/{name}",
        "requestReceivedTimestamp": time,
        "stageTimestamp": time,
        "responseStatus": {"code": more.pop("code", 201)},
        **more,
    }


def eviction(name: str, second: int, uid: str = "u", **more: Any) -> dict[str, Any]:
    body = {"deleteOptions": {"preconditions": {"uid": uid} if uid else {}}}
    return entry("create", name, second, "eviction", requestObject=body, **more)


def shown(name: str, owner: str, ready: bool = True) -> dict[str, Any]:
    references = [{"controller": True, "uid": owner}]
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "ownerReferences": references}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running", "conditions": [condition]}}
    return {**entry("patch", name, 0, "status", code=200, responseObject=pod), "user": {"username": "kubelet"}}


@pytest.mark.parametrize(
    ("events", "violation"),
    [
        ([shown("a", "o1"), shown("b", "o2"), eviction("a", 10), eviction("b", 20), eviction("c", 200)], ""),
        ([entry("delete", "a", 5)], "deleted a pod"),
        ([eviction("a", 5, uid="")], "without a UID"),
        ([eviction("a", 5, ref={"namespace": "kube-system"})], "excluded namespace"),
        ([shown("a", "o1", ready=False), eviction("a", 5)], "not running and ready"),
        ([eviction("a", 10), eviction("b", 20), eviction("c", 99)], "3 evictions within 100 s"),
        ([eviction("a", 10), eviction("b", 20), eviction("c", 99, code=429)], ""),
        ([shown("a", "o1"), shown("b", "o1"), eviction("a", 10), eviction("b", 60)], "50 s after default/a"),
    ],
)
def test_the_checker(events: list[dict[str, Any]], violation: str) -> None:
    """Two evictions within 100 s are allowed, and one of an owner within a minute."""
    found = check_evictions(events, ACCOUNT, moves=2, within=100.0, cooldown=60.0)
    assert all(violation in each for each in found.violations)
    assert bool(violation) == bool(found.violations)
