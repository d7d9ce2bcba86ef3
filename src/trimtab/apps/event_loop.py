"""The event loop of a process: uvloop where it is installed, otherwise the one of asyncio."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any

log = logging.getLogger(__name__)


def has_uvloop() -> bool:
    """Whether uvloop is installed; it does not exist for every platform."""
    return find_spec("uvloop") is not None


def run_event_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine to its end on a new event loop.

    What has been imported by now stays for ever. Frozen, it is not looked at by each full garbage collection, which would
    hold up the loop for some 20 ms more.
    """
    gc.collect()
    gc.freeze()
    if not has_uvloop():
        log.info("uvloop is not installed, running on asyncio: slower, otherwise the same")
        return asyncio.run(main)
    import uvloop

    return uvloop.run(main)
