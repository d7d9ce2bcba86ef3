"""Log lines: one line per record, pairs as JSON fields, no secrets, and why a task ended."""

import asyncio
import json
import logging
import sys

import pytest

from trimtab.apps.logs import JsonFormatter, TextFormatter, log_decision, log_plan, log_task_exit
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.schedule_result import Decision, Placement, Unschedulable

CANARIES = {
    "Authorization: Bearer canary-0123456789": "canary-0123456789",
    "header 'authorization': 'Basic Y2FuYXJ5OjEyMw=='": "Y2FuYXJ5OjEyMw==",
    "token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl": "eyJzdWIiOiJjYW5hcnkifQ",
    "https://user:canary-pass@prometheus:9090/api": "canary-pass",
    "password: canary-word-1": "canary-word-1",
    "refused: Basic Y2FuYXJ5OjEyMw==": "Y2FuYXJ5OjEyMw==",
    "client-key-data: Y2FuYXJ5LWtleQ==": "Y2FuYXJ5LWtleQ==",
}


def record(message: str, *arguments: object) -> logging.LogRecord:
    """A record as the program creates it."""
    return logging.LogRecord("trimtab.test", logging.INFO, __file__, 1, message, arguments, None)


def test_json_fields() -> None:
    """The pairs of a message are fields of their own, numbers stay numbers."""
    output = json.loads(JsonFormatter().format(record("stopping: drained=%s after=%d", "all", 3)))
    assert ("stopping: drained=all after=3", "all", 3, "info") == (
        output["message"], output["drained"], output["after"], output["level"],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a\nb", "a\r\n2026 ERROR forged", "\x1b[31mred", "a\u2028b", "a\x00b"])
@pytest.mark.parametrize("lines", [TextFormatter(), JsonFormatter()])
def test_one_line(lines: logging.Formatter, name: str) -> None:
    """Whatever a name contains, a record is one line without escape sequences."""
    text = lines.format(record("bad pod: name=%s", name))
    assert [] == [character for character in "\n\r\x1b\x00" if character in text]
    assert 1 == len(text.splitlines())


@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("lines", [TextFormatter(), JsonFormatter()])
def test_no_secret(lines: logging.Formatter, canary: str) -> None:
    """Tokens, passwords and keys are hidden, in messages, in fields and in exceptions."""
    try:
        raise ValueError(canary)
    except ValueError:
        failed = record("failed: problem=%s", canary)
        failed.exc_info = sys.exc_info()
    text = lines.format(failed)
    assert CANARIES[canary] not in text
    assert "[hidden]" in text


def test_one_line_a_decision(caplog: pytest.LogCaptureFixture) -> None:
    """A scheduled and an unschedulable pod are one line each, with the reason."""
    with caplog.at_level(logging.INFO):
        log_decision(Decision("u", "shop/cart", "trimtab", 0.0, 2, Placement("one", 399.5, 3, 5)))
        log_decision(Decision("u", "shop/big", "trimtab", 0.0, 1, Unschedulable(5, note="too big")))
    assert [
        "scheduled: pod=shop/cart node=one profile=trimtab attempt=2 feasible=3 nodes=5 score=399.5",
        "unable to schedule: pod=shop/big profile=trimtab attempt=1 nodes=5 reason=0/5 nodes are available: too big.",
    ] == caplog.messages


def test_one_line_a_move(caplog: pytest.LogCaptureFixture) -> None:
    """And one for their plan; a plan without moves is none."""
    with caplog.at_level(logging.INFO):
        log_plan(
            Plan(0.0, (Move("u", "shop/cart", "one", "two", "Strategy", "cpu at 95%", 80.0, 32.0),), (), 90.0, 10.0)
        )
        log_plan(Plan(300.0))
    assert [
        "move planned: pod=shop/cart source=one target=two strategy=Strategy gain=80.0 cost=32.0 reason=cpu at 95%",
        "plan made: moves=1 refused=0 guards= penalty=90.0 after=10.0",
    ] == caplog.messages


async def _ended(part: asyncio.Task[None]) -> asyncio.Task[None]:
    await asyncio.wait({part})
    return part


async def _group() -> None:
    async def lost() -> None:
        raise KeyError("uid-web")

    async with asyncio.TaskGroup() as group:
        group.create_task(lost())


async def test_the_cause_inside_a_group_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Not "unhandled errors in a TaskGroup" but the error itself, with the line that raised it."""
    log_task_exit(await _ended(asyncio.create_task(_group())))
    (record,) = caplog.records
    assert "task exited: task=_group error=KeyError: 'uid-web'" == record.getMessage()
    assert 'raise KeyError("uid-web")' in caplog.text


async def test_a_cancelled_part_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    """A cancelled task is logged, too."""
    part = asyncio.create_task(_group())
    part.cancel()
    log_task_exit(await _ended(part))
    assert "error=CancelledError" in caplog.text


async def test_a_part_that_returns_has_lost_the_lease(caplog: pytest.LogCaptureFixture) -> None:
    """Only leader election returns."""

    async def lead() -> None:
        pass

    log_task_exit(await _ended(asyncio.create_task(lead())))
    assert "error=leadership lost" in caplog.text


@pytest.mark.parametrize("part", ["x", "eyJ", "://a:", "token=", "basic "])
def test_long_lines_are_formatted_at_once(part: str) -> None:
    """Whoever writes a name or message of the cluster cannot make a line expensive: its cost grows with its length alone."""
    line = TextFormatter().format(record("object skipped: name=%s", part * (1_000_000 // len(part))))
    assert "object skipped: name=" in line
