"""Decides whether promises to claims are sent, and told back to the pod that waits."""

from __future__ import annotations

import pytest

from tests.kube.fake_transport import answered
from tests.kube.test_perform import Stage, failure, outcome
from trimtab.core.model.event import StageAnswered
from trimtab.core.model.instruction import BindVolume, SelectNode
from trimtab.kube.transport import Unreachable

pytestmark = pytest.mark.looptime

BIND = BindVolume("u1", "disk", 7, "ns", "data", "c1")
SELECT = SelectNode("u1", "ns", "data", 7, "node-1")


@pytest.mark.parametrize("wish", [BIND, SELECT])
async def test_a_promise_is_sent_and_answered(wish: BindVolume | SelectNode) -> None:
    """A yes lets the stage be asked again."""
    stage = Stage(lambda request: answered({}))
    assert StageAnswered("u1", 1e9) == await outcome(stage, wish)
    assert ["PATCH"] == [request.method for _, request in stage.transport.sent]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (failure(409, "Conflict", "modified"), "volume disk could not be prepared: modified"),
        (failure(403, "Forbidden", "not yours"), "volume disk could not be prepared: not yours"),
        (Unreachable("broken off", sent=True), "broken off"),
    ],
)
async def test_a_promise_that_was_not_taken_is_a_problem(answer: object, problem: str) -> None:
    """Whatever went wrong, the pod hears of it and looks for a node again."""
    assert StageAnswered("u1", 1e9, problem) == await outcome(Stage(lambda request: answer), BIND)


async def test_nothing_is_promised_without_the_lease() -> None:
    """A closed door is a problem, too: somebody else may have other plans for the volume."""
    stage = Stage(open=False)
    assert StageAnswered("u1", 1e9, "not sent") == await outcome(stage, BIND)
    assert [] == stage.transport.sent
