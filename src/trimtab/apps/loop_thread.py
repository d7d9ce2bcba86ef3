"""An event loop on a thread of its own, for what must go on while the decision loop is busy: the lease, and the pages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
JOIN_SECONDS = 1.0


class LoopThread:
    """A daemon thread that runs an event loop from `start` to `stop`; other loops reach it by `call`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether coroutines can be called."""
        return self._loop is not None

    def start(self) -> None:
        """Start the thread; once more does nothing."""
        if self._loop is None:
            # Not uvloop: its child processes, such as exec plugins, belong to the main thread.
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, from this thread's loop; cancelling the caller cancels it there."""
        if self._loop is None:
            coroutine.close()
            raise RuntimeError(f"the thread {self._name} does not run")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def stop(self) -> None:
        """Cancel what runs and end the thread; one that does not end in time is left behind, it is a daemon."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        asyncio.run_coroutine_threadsafe(_cancel_all(loop), loop)
        thread.join(JOIN_SECONDS)
        if not thread.is_alive():
            loop.close()


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.stop()
