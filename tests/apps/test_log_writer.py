"""Log lines are written in order, and dropped and counted where nobody reads them or they cannot be written."""

from __future__ import annotations

import logging
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.apps.log_writer import LogWriter

SOON = 5.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Its two ends; closed at the end, which also ends the writer's wait."""
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def record(text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, __file__, 1, text, args, None)


def test_lines_are_written_in_order(pipe: tuple[int, int]) -> None:
    """All of them, while somebody reads."""
    writer = LogWriter(pipe[1])
    for number in range(3):
        writer.handle(record("line %d", number))
    writer.flush()
    assert b"line 0\nline 1\nline 2\n" == os.read(pipe[0], 1000)
    assert 0 == writer.dropped


def test_a_reader_that_stops_blocks_nobody(pipe: tuple[int, int]) -> None:
    """Lines beyond the pipe and the queue are dropped; when somebody reads again, the log says how many."""
    writer, text = LogWriter(pipe[1], max_bytes=1 << 16), "x" * 999
    before = time.monotonic()
    for _ in range(500):
        writer.handle(record(text))
    writer.flush_within(0.1)
    assert time.monotonic() - before < SOON
    assert 300 < writer.dropped < 450
    found = b""
    while sum(map(int, re.findall(rb"log lines dropped: lines=(\d+)\n", found))) < writer.dropped:
        found += os.read(pipe[0], 1 << 16)
    assert 500 == found.count(text.encode() + b"\n") + writer.dropped


def test_a_pipe_that_does_not_block(pipe: tuple[int, int]) -> None:
    """Whoever shares stderr may have made it non-blocking: a full pipe is waited for all the same."""
    os.set_blocking(pipe[1], False)
    writer = LogWriter(pipe[1])
    for _ in range(200):
        writer.handle(record("x" * 999))
    found = b""
    while len(found) < 200_000 and not writer.dropped:
        if select.select([pipe[0]], [], [], 0.1)[0]:
            found += os.read(pipe[0], 1 << 16)
    assert (200_000, 0) == (len(found), writer.dropped)


@pytest.mark.parametrize("error", [OSError(9, "Bad file descriptor"), ValueError("out of range in select()")])
def test_a_full_pipe_that_cannot_be_waited_for(
    error: Exception, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are dropped and counted, and the thread goes on: later lines are written."""

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("trimtab.apps.log_writer.select.select", fail)
    os.set_blocking(pipe[1], False)
    writer = LogWriter(pipe[1])
    for _ in range(100):
        writer.handle(record("x" * 999))
    writer.flush_within(SOON)
    assert 30 < writer.dropped < 100
    os.read(pipe[0], 1 << 17)
    writer.handle(record("later"))
    writer.flush_within(SOON)
    assert b"later\n" in os.read(pipe[0], 1 << 16)


def test_a_full_disk(tmp_path: Path) -> None:
    """What cannot be written is dropped and counted."""
    with Path("/dev/full").open("wb", buffering=0) as full:
        writer = LogWriter(full.fileno())
        writer.handle(record("lost"))
        writer.flush()
        assert 1 == writer.dropped


def test_a_value_that_cannot_be_formatted(pipe: tuple[int, int]) -> None:
    """It costs that line and nothing else."""
    writer = LogWriter(pipe[1])
    writer.handle(record("%d", "no number"))
    writer.handle(record("next"))
    writer.flush()
    assert (1, True) == (writer.dropped, os.read(pipe[0], 1000).startswith(b"next\n"))


def test_what_was_logged_is_written_at_exit() -> None:
    """Also by a process that ends right afterwards, and where nobody reads the process ends all the same."""
    program = (
        "import logging; from trimtab.apps.logs import configure; "
        "from trimtab.config.trimtab.settings import LoggingSettings; configure(LoggingSettings()); "
        "[logging.warning('x' * 1000) for _ in range({})]; logging.warning('the last one')"
    )
    done = subprocess.run([sys.executable, "-c", program.format(10)], capture_output=True, text=True, timeout=60)
    assert "the last one" in done.stderr
    unread = subprocess.Popen([sys.executable, "-c", program.format(1000)], stderr=subprocess.PIPE)
    assert unread.stderr is not None
    try:
        assert 0 == unread.wait(30)
    finally:
        unread.kill()
        unread.stderr.close()
