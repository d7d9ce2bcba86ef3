"""Node labels: one patch, one log line, and only the log line in observe-only mode."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.kube.api_calls_harness import ApiCallsHarness, failure, outcome, running
from tests.kube.fake_transport import json_response
from trimtab.core.model.events import LabelDone, LabelFailed
from trimtab.core.model.instructions import LabelNode
from trimtab.kube.transport import Unreachable

pytestmark = pytest.mark.looptime
WISH = LabelNode("n1", "u", 7, (("pressure.trimtab.dev/cpu", "high"),), reason="cpu is 0.9")


async def test_a_label_is_written_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One patch, one event, one line that says what and why."""
    caplog.set_level("INFO")
    harness = ApiCallsHarness(answer=lambda request: json_response({"kind": "Node"}))
    event = await outcome(harness, WISH)
    assert isinstance(event, LabelDone)
    assert ["PATCH"] == [request.method for _, request in harness.transport.sent]
    assert "labelled node: node=n1 change=+pressure.trimtab.dev/cpu=high reason=cpu is 0.9" in caplog.messages


@pytest.mark.parametrize(
    ("answer", "words", "forbidden"),
    [
        (failure(409, "Conflict", "it has changed"), "it has changed", False),
        (failure(403, "Forbidden", "not yours"), "not yours", True),
        (Unreachable("no route", sent=False), "no route", False),
    ],
)
async def test_a_failure_is_reported_with_its_reason(
    answer: object, words: str, forbidden: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine hears whether a right is missing, and people hear why."""
    event = await outcome(ApiCallsHarness(answer=lambda request: answer), WISH)
    assert isinstance(event, LabelFailed)
    assert (words, forbidden) == (event.message, event.forbidden)
    assert f"error={words}" in caplog.text


async def test_observe_only_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing leaves, and nothing has to be answered."""
    caplog.set_level("INFO")
    harness = ApiCallsHarness()
    async with running(harness) as api_calls:
        api_calls.submit(replace(WISH, observe_only=True))
        assert await api_calls.drain(60.0)
    assert ([], []) == (harness.transport.sent, harness.events)
    assert "would label node: node=n1 change=+pressure.trimtab.dev/cpu=high reason=cpu is 0.9" in caplog.messages


async def test_without_leadership_nothing_is_written() -> None:
    """A instruction that waited until the lease was lost is a refusal, and no patch."""
    harness = ApiCallsHarness(open=False)
    assert isinstance(await outcome(harness, WISH), LabelFailed)
    assert [] == harness.transport.sent
