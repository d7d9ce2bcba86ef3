"""The watchdog: a blocked loop is noticed and logged once with its stack, and a stuck one ends the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from trimtab.apps import watchdog
from trimtab.apps.watchdog import BLOCKED_SECONDS, INTERVAL, STUCK_SECONDS, Watchdog

LOOKS_TO_BLOCKED, LOOKS_TO_STUCK = int(BLOCKED_SECONDS / INTERVAL), int(STUCK_SECONDS / INTERVAL)


def test_a_blocked_loop_is_noticed_and_its_stack_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """After 20 s without a beat the check fails, until there is one; a second time is logged again."""
    dog, me = Watchdog(lambda reason: None), threading.get_ident()
    for _ in range(LOOKS_TO_BLOCKED - 1):
        dog.look(me)
    assert dog.problem() is None
    for _ in range(10):
        dog.look(me)
    assert "blocked for 29 s" in (dog.problem() or "")
    assert ["event loop blocked: seconds=20"] == caplog.messages
    assert "test_a_blocked_loop_is_noticed" in caplog.text, "the stack of this thread"
    dog._beats += 1
    dog.look(me)
    assert dog.problem() is None
    for _ in range(LOOKS_TO_BLOCKED):
        dog.look(me)
    assert ["event loop blocked: seconds=20"] * 2 == caplog.messages


def test_a_stuck_loop_ends_the_process() -> None:
    """After 60 s: a leader that decides nothing must not lead for ever."""
    reasons: list[str] = []
    dog = Watchdog(reasons.append)
    for _ in range(LOOKS_TO_STUCK - 1):
        dog.look(0)
    assert [] == reasons
    dog.look(0)
    assert ["the event loop was blocked for 60 s"] == reasons


async def test_a_loop_that_runs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats of this loop are seen by the thread."""
    monkeypatch.setattr(watchdog, "INTERVAL", 0.1)
    monkeypatch.setattr(watchdog, "BEAT", 0.02)
    monkeypatch.setattr(watchdog, "BLOCKED_SECONDS", 1.0)
    dog = Watchdog(lambda reason: None)
    with dog.watching():
        await asyncio.sleep(1.5)
        assert dog.problem() is None


def test_the_process_ends_hard_where_it_must() -> None:
    """Three seconds after the lease was lost, although the main thread hangs and others refuse to end."""
    program = (
        "import threading, time; from trimtab.apps.watchdog import exit_within; "
        "threading.Thread(target=time.sleep, args=(60,)).start(); exit_within(1.0, 'lost'); time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (1, True) == (done.returncode, "ending the process at once: reason=lost" in done.stderr)


def test_without_memory_for_a_thread_the_process_ends_at_once() -> None:
    """Whoever lost the lease cannot wait for a deadline that nobody would keep."""
    program = (
        "import threading, time; from unittest.mock import Mock; from trimtab.apps.watchdog import exit_within; "
        'threading.Timer.start = Mock(side_effect=RuntimeError("can\'t start new thread")); '
        "exit_within(60.0, 'lost'); time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (1, True) == (done.returncode, "reason=lost: can't start new thread" in done.stderr)


@pytest.mark.parametrize("held", [True, False])
def test_a_thread_that_hangs_with_the_lock_of_the_log_delays_nothing(held: bool) -> None:
    """Formatting a line holds it; the process ends all the same, without its last line."""
    program = (
        "import logging; from trimtab.apps.log_writer import LogWriter; from trimtab.apps import watchdog; "
        "handler = LogWriter(); logging.getLogger().addHandler(handler); "
        f"{'handler.acquire(); ' if held else ''}dog = watchdog.Watchdog(watchdog.exit_now); "
        "[dog.look(0) for _ in range(60)]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (1, held) == (done.returncode, "ending the process at once" not in done.stderr)
