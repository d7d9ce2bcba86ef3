"""Notices an event loop that is blocked, from a thread of its own, and ends the process by a deadline, hard if it must.

    running ──(no beat for 20 s)──▶ blocked: /livez fails, and the loop's stack is logged once ──(a beat)──▶ running
                                       └──(for 60 s)──▶ stuck: the process ends, and with it the renewal of its lease

The lease is renewed on another thread, so without the last step a process that decides nothing could lead for ever. 20 s is
more than any decision takes; 60 s lets a kubelet see /livez fail first, and is what a person would wait.
Only time in which this thread runs counts: after a pause of the whole process or machine the loop has as much time as ever.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from trimtab.apps.log_writer import flush_logs

log = logging.getLogger(__name__)
BLOCKED_SECONDS = 20.0
STUCK_SECONDS = 60.0
INTERVAL = 1.0
BEAT = 0.5
EXIT_CODE = 1
FLUSH_SECONDS = 0.5


def exit_now(reason: str) -> None:
    """End the process without waiting for any thread, connection or exit handler."""
    _log_error("ending the process at once: reason=%s", reason)
    os._exit(EXIT_CODE)


def _log_error(message: str, *args: object, exc_info: BaseException | None = None) -> None:
    """From a thread of its own, awaited for FLUSH_SECONDS: the thread that is stuck may hold a lock of the log."""

    def write() -> None:
        log.error(message, *args, exc_info=exc_info)
        flush_logs(FLUSH_SECONDS)

    thread = threading.Thread(target=write, name="trimtab-last-words", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no memory for a thread
        write()
    else:
        thread.join(FLUSH_SECONDS)


def exit_within(seconds: float, reason: str) -> threading.Timer:
    """End the process at once if it still runs so many seconds from now, or now without memory for a thread; from any one."""
    timer = threading.Timer(seconds - FLUSH_SECONDS, exit_now, (reason,))
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError as error:
        exit_now(f"{reason}: {error}")
    return timer


class LoopBlocked(Exception):
    """What an event loop was doing, as a traceback."""


class Watchdog:
    """Counts beats of the loop that runs `beat`; `blocked_for` says for how long there was none."""

    def __init__(self, on_stuck: Callable[[str], None]) -> None:
        self.blocked_for = 0.0
        self._on_stuck = on_stuck
        self._beats = self._seen = 0
        self._logged = False
        self._stopped = threading.Event()

    def problem(self) -> str | None:
        """Why the loop counts as blocked; None while it runs."""
        blocked = self.blocked_for
        return f"the event loop has been blocked for {blocked:.0f} s" if blocked >= BLOCKED_SECONDS else None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the event loop of the current thread inside the block."""
        thread = threading.Thread(target=self._run, args=(threading.get_ident(),), name="trimtab-watchdog", daemon=True)
        beating = asyncio.create_task(self._beat())
        thread.start()
        try:
            yield
        finally:
            beating.cancel()
            self._stopped.set()

    async def _beat(self) -> None:
        while True:
            self._beats += 1
            await asyncio.sleep(BEAT)

    def _run(self, watched: int) -> None:
        while not self._stopped.wait(INTERVAL):
            self.look(watched)

    def look(self, watched: int) -> None:
        """Compare the beats with those seen last, an interval ago; `watched` is the ident of the loop's thread."""
        if self._beats != self._seen:
            self._seen, self.blocked_for, self._logged = self._beats, 0.0, False
            return
        self.blocked_for += INTERVAL
        if self.blocked_for >= BLOCKED_SECONDS and not self._logged:
            self._logged = True
            _log_error("event loop blocked: seconds=%.0f", self.blocked_for, exc_info=_stack(watched))
        if self.blocked_for >= STUCK_SECONDS:
            self._on_stuck(f"the event loop was blocked for {self.blocked_for:.0f} s")


def _stack(thread: int) -> LoopBlocked:
    """An exception with the thread's stack as its traceback, so that it is logged as one."""
    trace: TracebackType | None = None
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None:
        trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return LoopBlocked("its stack is above").with_traceback(trace)
