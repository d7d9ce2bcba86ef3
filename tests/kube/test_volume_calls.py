"""Volume binding: one patch, and its answer goes to the pod that waits."""

from __future__ import annotations

import pytest

from tests.kube.api_calls_harness import ApiCallsHarness, failure, outcome
from tests.kube.fake_transport import json_response
from trimtab.core.model.events import StageAnswered
from trimtab.core.model.instructions import BindVolume, SelectNode
from trimtab.kube.transport import Unreachable

pytestmark = pytest.mark.looptime

BIND = BindVolume("u1", "disk", 7, "ns", "data", "c1")
SELECT = SelectNode("u1", "ns", "data", 7, "node-1")


@pytest.mark.parametrize("instruction", [BIND, SELECT])
async def test_a_volume_patch_is_sent_and_answered(instruction: BindVolume | SelectNode) -> None:
    """A success lets the stage run again."""
    harness = ApiCallsHarness(lambda request: json_response({}))
    assert StageAnswered("u1", 1e9) == await outcome(harness, instruction)
    assert ["PATCH"] == [request.method for _, request in harness.transport.sent]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (failure(409, "Conflict", "modified"), "volume disk could not be prepared: modified"),
        (failure(403, "Forbidden", "not yours"), "volume disk could not be prepared: not yours"),
        (Unreachable("broken off", sent=True), "volume disk could not be prepared: broken off"),
    ],
)
async def test_a_rejected_volume_patch_is_an_error(answer: object, problem: str) -> None:
    """Whatever went wrong, the pod hears of it and looks for a node again."""
    assert StageAnswered("u1", 1e9, problem) == await outcome(ApiCallsHarness(lambda request: answer), BIND)


async def test_no_volume_is_patched_without_the_lease() -> None:
    """Lost leadership is an error, too: the new leader may use the volume for another claim."""
    harness = ApiCallsHarness(open=False)
    assert StageAnswered("u1", 1e9, "volume disk could not be prepared: not sent") == await outcome(harness, BIND)
    assert [] == harness.transport.sent
