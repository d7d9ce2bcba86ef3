"""Writes log lines from a thread of its own, so that a reader of stderr who stops, or a full disk, blocks nothing else.

    log call ──▶ queue of at most 4 MiB ──▶ thread: os.write ──▶ stderr
                    └─(full)─▶ dropped         └─(refused)─▶ dropped

Dropped lines are counted, and the log says how many as soon as lines can be written again. At exit what is in the queue is
written, for a second at most.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from itertools import accumulate

STDERR = 2
MAX_QUEUED_BYTES = 4 << 20
WRITE_BYTES = 1 << 16
FLUSH_SECONDS = 1.0
POLL_SECONDS = 0.1


class LogWriter(logging.Handler):
    """A handler that never waits for whoever reads the lines."""

    def __init__(self, descriptor: int = STDERR, max_bytes: int = MAX_QUEUED_BYTES) -> None:
        super().__init__()
        self.dropped = 0
        self._reported = 0  # of the dropped lines
        self._descriptor, self._max_bytes = descriptor, max_bytes
        self._lines: deque[bytes] = deque()
        self._queued = 0  # bytes, with those that are being written
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="trimtab-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line, or count it as dropped."""
        try:
            line = self._encode(record)
        except Exception:  # a value that cannot be formatted
            line = b""
        with self._changed:
            if not line or self._queued + len(line) > self._max_bytes:
                self.dropped += 1
                return
            self._lines.append(line)
            self._queued += len(line)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all lines are written, for a second at most; logging calls it at exit."""
        self.flush_within(FLUSH_SECONDS)

    def flush_within(self, seconds: float) -> None:
        """The same for so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queued, seconds)

    def _encode(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode(errors="backslashreplace") + b"\n"

    def _run(self) -> None:
        while True:
            lines = self._take()
            written = self._write(b"".join(lines))
            ends = accumulate(map(len, lines))
            with self._changed:
                self.dropped += sum(end > written for end in ends)
            self._report_dropped()
            with self._changed:
                self._queued -= sum(map(len, lines))
                self._changed.notify_all()

    def _take(self) -> list[bytes]:
        """The next lines, many at once: each write costs a wait for the interpreter while another thread computes."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines)
            lines, size = [self._lines.popleft()], 0
            while self._lines and size < WRITE_BYTES:
                size += len(self._lines[0])
                lines.append(self._lines.popleft())
            return lines

    def _report_dropped(self) -> None:
        count = self.dropped - self._reported
        if count:
            text = "log lines dropped: lines=%d"
            line = self._encode(logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (count,), None))
            self._reported += count if self._write(line) == len(line) else 0

    def _write(self, data: bytes) -> int:
        """How much of it was written; waits as long as it takes, but for errors such as a full disk."""
        written = 0
        while written < len(data):
            try:
                written += self._write_some(data[written:])
            except (OSError, ValueError):  # a ValueError of select: the descriptor is closed, or too large a number
                break
        return written

    def _write_some(self, data: bytes) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # a pipe that somebody else made non-blocking is full
            select.select([], [self._descriptor], [], POLL_SECONDS)
            return 0


def flush_logs(seconds: float) -> None:
    """Let what was logged so far be written, within so many seconds."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogWriter):
            handler.flush_within(seconds)


def dropped_lines() -> int:
    """Log lines of this process that were never written."""
    return sum(handler.dropped for handler in logging.getLogger().handlers if isinstance(handler, LogWriter))
