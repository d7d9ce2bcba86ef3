"""Decides whether the log names the true cause of a part's end."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.apps.logs import log_task_exit


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
    """Asking a cancelled task for its error raises; the end is told all the same."""
    part = asyncio.create_task(_group())
    part.cancel()
    log_task_exit(await _ended(part))
    assert "error=CancelledError" in caplog.text


async def test_a_part_that_returns_has_lost_the_lease(caplog: pytest.LogCaptureFixture) -> None:
    """Only striving for the lease ever returns."""

    async def lead() -> None:
        pass

    log_task_exit(await _ended(asyncio.create_task(lead())))
    assert "error=leadership lost" in caplog.text
