"""Decides what the log says of a part that ended and should not have; leaves ending the others to the program."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

log = logging.getLogger(__name__)


def log_task_exit(task: asyncio.Task[Any]) -> None:
    """Each cause by itself, with where it came from; a part that simply returned has lost its leadership."""
    name = getattr(task.get_coro(), "__qualname__", "?")
    error = asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()
    if error is None:
        log.error("ended: part=%s problem=leadership lost", name)
        return
    for cause in _causes(error):
        log.error("ended: part=%s problem=%s: %s", name, type(cause).__name__, cause, exc_info=cause)


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error
