"""The plan that waits for approval: how it is found in the ledger's ConfigMap, and how it is approved."""

from __future__ import annotations

import json

import pytest

from tests.apps.apply.test_cluster_checks import CREDENTIALS, FORBIDDEN, NOT_FOUND
from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.apps.apply.approval import approve, check_id, waiting_plan
from trimtab.apps.apply.cluster_checks import ApiServer
from trimtab.apps.apply.plan_file import CannotApply
from trimtab.apps.plan.text import earlier_plan_lines
from trimtab.core.model.events import LedgerRead
from trimtab.core.model.instructions import ReadLedger, WriteLedger
from trimtab.core.model.ledger import MAX_PUBLISHED, Ledger, PublishedPlan, publish
from trimtab.core.model.plan import Move, Plan
from trimtab.wire.ledger import read_ledger_outcome, write_ledger_request
from trimtab.wire.outcomes import Reply
from trimtab.wire.requests import Request

MOVE = Move("uid-web", "default/web", "a", "b", "HotSpot", "hot", 80.0, 32.0)
PLAN = publish(Plan(1000.0, (MOVE,), (), 120.0, 40.0))


def config_map(plan: PublishedPlan | None = PLAN, **annotations: str) -> dict[str, object]:
    """As the process writes it, and people annotate it."""
    body = json.loads(write_ledger_request(WriteLedger(Ledger(), "3", plan), "trimtab").body)
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


def server(*answers: FakeResponse) -> ApiServer:
    left = list(answers)
    return ApiServer(FakeTransport(lambda request: left.pop(0)), CREDENTIALS)


async def test_a_plan_that_waits() -> None:
    """As it was published, with its age and its totals."""
    found = await waiting_plan(server(json_response(config_map())), "trimtab")
    assert PLAN == found
    lines = ["".join(text for text, _ in line) for line in earlier_plan_lines(f"Plan {found.id}", found, 1060.0)]
    assert f"Plan {PLAN.id} moves 1 pod, planned 1m ago." == lines[0]
    assert "  ~ default/web  a → b" in lines and "Plan: 1 move, penalty of all nodes 120.0 → 40.0." == lines[-1]


@pytest.mark.parametrize(
    "answer", [NOT_FOUND, json_response(config_map(None)), json_response({"data": {"plan.json": "x"}})]
)
async def test_no_plan_waits(answer: FakeResponse) -> None:
    """Without the ConfigMap, without the plan in it, or with one that cannot be read."""
    with pytest.raises(CannotApply, match="no plan waits for approval in ConfigMap trimtab/trimtab-moves: "):
        await waiting_plan(server(answer), "trimtab")


async def test_what_may_not_be_read_or_written() -> None:
    """The API server's words, and the permission."""
    with pytest.raises(CannotApply, match="cannot be read: ann may not get it"):
        await waiting_plan(server(FORBIDDEN), "trimtab")
    with pytest.raises(CannotApply, match="it needs patch of ConfigMap trimtab-moves"):
        await approve(server(FORBIDDEN), "trimtab", PLAN)


def test_a_plan_that_was_replaced() -> None:
    """Nobody approves what they have not seen."""
    check_id(PLAN, "")
    check_id(PLAN, PLAN.id)
    with pytest.raises(CannotApply, match=f"plan 0badc0de does not wait any more: plan {PLAN.id} has replaced it"):
        check_id(PLAN, "0badc0de")


async def test_an_approval_reaches_the_process() -> None:
    """The annotation that is written is the one that it reads, with the plan."""
    sent: list[Request] = []

    def answer(request: Request) -> FakeResponse:
        sent.append(request)
        return json_response({})

    await approve(ApiServer(FakeTransport(answer), CREDENTIALS), "trimtab", PLAN)
    (request,) = sent
    annotations = json.loads(request.body)["metadata"]["annotations"]
    reply = Reply(200, json.dumps(config_map(PLAN, **annotations)).encode())
    expected = LedgerRead(Ledger(), 5.0, "3", plan=PLAN, approved=PLAN.id)
    assert ("PATCH", expected) == (request.method, read_ledger_outcome(ReadLedger(), reply, 5.0, "trimtab"))


def test_a_large_plan_is_bounded() -> None:
    """A ConfigMap holds one megabyte, and the ledger is in it, too."""
    names = tuple(f"node-{number}" for number in range(5000))
    moves = tuple(
        Move(f"uid-{number}", f"default/web-{number}", "a", "b", "HotSpot", "hot", 80.0, 32.0, could_choose=names)
        for number in range(1000)
    )
    found = publish(Plan(1000.0, moves))
    assert MAX_PUBLISHED == len(found.moves)
    assert len(write_ledger_request(WriteLedger(Ledger(), "3", found), "trimtab").body) < 50_000
