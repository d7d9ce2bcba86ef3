"""`trimtab pause` and `resume` on a fake API server: which leases are patched, what is said, and what fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.kill_switch import USUAL, LeaseName, SwitchFailed, switch
from trimtab.wire.requests import Request

MISSING = {"kind": "Status", "reason": "NotFound", "message": "not found"}
RESCHEDULER, SCHEDULER = USUAL


class Leases:
    """An API server with these leases, by name with the reason of a pause; it may refuse to patch them."""

    def __init__(self, paused: dict[LeaseName, str | None], patch_status: int = 200) -> None:
        self.paused, self.patch_status = paused, patch_status
        self.transport = FakeTransport(self._answer)

    def _answer(self, request: Request) -> FakeResponse:
        _, namespace, _, name = request.path.rsplit("/", 3)
        lease = LeaseName(namespace, name)
        if lease not in self.paused:
            return json_response(MISSING, 404)
        if request.method == "PATCH":
            if self.patch_status != 200:
                return json_response({"kind": "Status", "message": "ann may not patch it"}, self.patch_status)
            self.paused[lease] = json.loads(request.body)["metadata"]["annotations"]["trimtab.dev/paused"]
        return json_response(self._object(lease))

    def _object(self, lease: LeaseName) -> dict[str, Any]:
        reason = self.paused[lease]
        annotations = {} if reason is None else {"trimtab.dev/paused": reason}
        metadata = {
            "name": lease.name,
            "namespace": lease.namespace,
            "resourceVersion": "1",
            "annotations": annotations,
        }
        return {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "pod-1"}}


async def test_pause_and_resume() -> None:
    """Both usual leases, and twice is fine."""
    server = Leases({RESCHEDULER: None, SCHEDULER: None})
    assert [
        "lease trimtab/trimtab-rescheduler (held by pod-1): moves are paused: incident 17",
        "lease trimtab/trimtab (held by pod-1): moves are paused: incident 17",
    ] == await switch(server.transport, USUAL, "incident 17")
    again = await switch(server.transport, USUAL, "incident 18")
    assert again[0].endswith("moves are paused: incident 18; they were paused already: incident 17")
    resumed = await switch(server.transport, USUAL, None)
    assert resumed[0].endswith("moves are resumed; they were paused: incident 18")
    assert {RESCHEDULER: None, SCHEDULER: None} == server.paused
    assert [
        "lease trimtab/trimtab-rescheduler: moves were not paused",
        "lease trimtab/trimtab: moves were not paused",
    ] == (await switch(server.transport, USUAL, None))


async def test_a_lease_that_does_not_exist() -> None:
    """One of the usual ones is enough; without any, nothing holds, and that is an error."""
    server = Leases({RESCHEDULER: None})
    assert 1 == len(await switch(server.transport, USUAL, "incident 17"))
    with pytest.raises(SwitchFailed, match=r"there is no lease mine/other: .* --lease NAMESPACE/NAME"):
        await switch(server.transport, (LeaseName("mine", "other"),), "incident 17")


async def test_no_permission() -> None:
    """With the verbs to grant."""
    server = Leases({RESCHEDULER: None}, patch_status=403)
    with pytest.raises(SwitchFailed, match="was not written: ann may not patch it: grant the verbs get and patch"):
        await switch(server.transport, USUAL, "incident 17")


async def test_an_answer_that_is_no_lease() -> None:
    """A proxy's login page says nothing about the lease."""
    transport = FakeTransport(lambda request: json_response(b"<html>", 200))
    with pytest.raises(SwitchFailed, match="cannot be read"):
        await switch(transport, USUAL, None)
