"""A Lease is decoded, changed and written back without losing the fields of others."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.wire.json_objects import Json, encoded
from trimtab.wire.decoding import Malformed
from trimtab.wire.lease import Lease, create_lease_request, get_lease_request, read_lease, update_lease_request

NOW = "2026-10-01T10:00:00.000000Z"
METADATA = {"name": "trimtab", "namespace": "kube-system", "resourceVersion": "9", "labels": {"kept": "yes"}}
SPEC = {
    "holderIdentity": "a",
    "leaseDurationSeconds": 15,
    "acquireTime": NOW,
    "renewTime": NOW,
    "leaseTransitions": 2,
    "strategy": "OldestEmulationVersion",
}


def _read(spec: Json | None) -> Lease:
    lease = read_lease(encoded({"kind": "Lease", "metadata": METADATA, "spec": spec}))
    assert isinstance(lease, Lease)
    return lease


def test_a_lease_is_read() -> None:
    """Holder, duration, times and the count of changes are read as written."""
    lease = _read(SPEC)
    expected = ("kube-system", "trimtab", "a", 15, NOW, NOW, 2)
    assert expected == (
        lease.namespace,
        lease.name,
        lease.holder,
        lease.duration_seconds,
        lease.acquire_time,
        lease.renew_time,
        lease.transitions,
    )


@pytest.mark.parametrize("spec", [None, {}, dict.fromkeys(SPEC)])
def test_an_empty_lease_is_held_by_nobody(spec: Json | None) -> None:
    """A lease without a spec, or with nulls, has no holder and no times."""
    lease = _read(spec)
    assert ("", 0, "", "", 0) == (
        lease.holder,
        lease.duration_seconds,
        lease.acquire_time,
        lease.renew_time,
        lease.transitions,
    )


def test_an_update_keeps_what_others_wrote() -> None:
    """Only what the elector changes is changed; labels, strategy and the resourceVersion stay."""
    request = update_lease_request(msgspec.structs.replace(_read(SPEC), holder="b", transitions=3))
    assert ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trimtab") == (
        request.method,
        request.path,
    )
    expected = {"kind": "Lease", "metadata": METADATA, "spec": {**SPEC, "holderIdentity": "b", "leaseTransitions": 3}}
    assert expected == json.loads(request.body)


def test_a_release_empties_the_holder() -> None:
    """A released lease has an empty holder, and null instead of empty times."""
    spec = json.loads(update_lease_request(msgspec.structs.replace(_read(SPEC), holder="", acquire_time="")).body)[
        "spec"
    ]
    assert ("", None) == (spec["holderIdentity"], spec["acquireTime"])


def test_only_a_lease_that_was_read_can_be_updated() -> None:
    """Without the object that was read there is no version to protect the write of another replica."""
    with pytest.raises(ValueError, match="was not read"):
        update_lease_request(Lease("kube-system", "trimtab"))


def test_a_lease_is_created_and_got_by_name() -> None:
    """Creating names it in the body, getting in the path."""
    request = create_lease_request(Lease("kube-system", "trimtab", "a", 15, NOW, NOW, 0))
    assert ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases") == (request.method, request.path)
    body = json.loads(request.body)
    assert ({"namespace": "kube-system", "name": "trimtab"}, "a") == (body["metadata"], body["spec"]["holderIdentity"])
    assert f"{request.path}/trimtab" == get_lease_request("kube-system", "trimtab").path


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"null",
        encoded({"metadata": {"name": "a", "namespace": "b"}}),
        encoded({"metadata": METADATA, "spec": {"leaseDurationSeconds": "15"}}),
        encoded({"kind": "Status", "status": "Failure", "message": "forbidden"}),
    ],
)
def test_what_is_no_lease_is_malformed(data: bytes) -> None:
    """Anything else, also a lease without a version, is never taken for a free one."""
    found = read_lease(data)
    assert isinstance(found, Malformed)
    assert found.error
