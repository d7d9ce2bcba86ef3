"""Test hooks inside a real process, by PYTHONPATH: a wall clock that can be stepped, and an event loop that can be blocked.

TRIMTAB_TEST_CLOCK names a file with the seconds by which the wall clock is ahead. SIGUSR1 runs Python code without end for as
many seconds as the file TRIMTAB_TEST_BLOCK says, on the main thread and with the GIL, as a bad decision would.
"""

import os
import signal
import time
from pathlib import Path

CLOCK, BLOCK = os.environ.get("TRIMTAB_TEST_CLOCK", ""), os.environ.get("TRIMTAB_TEST_BLOCK", "")


def _read(path):
    try:
        return float(Path(path).read_text() or 0)
    except OSError:
        return 0.0


def _step_clock(real=time.time, real_clock=time.clock_gettime):
    time.time = lambda: real() + _read(CLOCK)
    time.clock_gettime = lambda clock: real_clock(clock) + (_read(CLOCK) if clock == time.CLOCK_REALTIME else 0.0)


def block_the_event_loop(number, frame):
    until = time.monotonic() + _read(BLOCK)
    while time.monotonic() < until:
        sum(range(1000))


if CLOCK:
    _step_clock()
if BLOCK:
    signal.signal(signal.SIGUSR1, block_the_event_loop)
