"""Child processes: start, pause, measure and kill.

    started ── pause ──▶ stopped ── resume ──▶ started
       └──────── kill ───────┴──▶ gone (waited for, so no zombie stays)

A child is killed by the kernel when its parent dies (PR_SET_PDEATHSIG), so nothing outlives a killed test run. The kernel
watches the parent *thread*: start children from a thread that lives long enough.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

# Below the ephemeral range, so that no outgoing connection takes a port while its server restarts.
PORTS = range(20_000, 32_000)
TAIL_BYTES = 4_000
READY_SECONDS = 90.0
ATTEMPTS = 5
PORT_TAKEN_MESSAGE = "address already in use"

# A separate program instead of preexec_fn, which may deadlock if the parent has threads.
LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Startable(ABC):
    """Something that a `with` block starts and stops."""

    @abstractmethod
    def start(self) -> None:
        """Start, and wait until it is ready."""

    @abstractmethod
    def stop(self) -> None:
        """Stop whatever was started."""

    def __enter__(self) -> Self:
        """Start; stop again if that fails."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop in any case."""
        self.stop()


class PortTaken(Exception):
    """Another process has taken the port."""


class Process:
    """One child process with its log file."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str], url: str = "") -> None:
        """Start the command; its output is appended to the log."""
        self.name = Path(command[0]).name
        self.url = url
        self.log = log
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid())]
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def running(self) -> bool:
        """Whether the process has not exited; a paused one has not."""
        return self._child.poll() is None

    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._child.poll()

    def pause(self) -> None:
        """Freeze the process: its connections stay open and nothing responds once this returns."""
        self._child.send_signal(signal.SIGSTOP)
        while not self._is_frozen():  # on a busy machine some threads keep running for a while
            time.sleep(0.01)

    def _is_frozen(self) -> bool:
        """Whether all of its threads have stopped or exited."""
        try:
            stats = [each.read_text() for each in Path(f"/proc/{self._child.pid}/task").glob("*/stat")]
        except OSError:  # one of them ended meanwhile
            return False
        return all(text.rpartition(")")[2].split()[0] in "TtZX" for text in stats)

    def resume(self) -> None:
        """Continue a paused process."""
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, like a crash."""
        self._child.kill()
        self._child.wait()

    def terminate(self, seconds: float = 30) -> int:
        """Send SIGTERM and return the exit code; after the timeout, kill it and raise."""
        self._child.terminate()
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def cpu_seconds(self) -> float:
        """CPU time used so far, all threads, user and system."""
        return cpu_seconds(self.pid)

    def log_tail(self) -> str:
        """The end of the log, for error messages."""
        return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, in clock ticks."""
    # The command's name is in parentheses and may contain spaces, so fields are counted from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A loopback port that is free at the moment."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def retry_port_taken(start: Callable[[], Process]) -> Process:
    """Start, and try again with another port if the chosen one was taken in the meantime."""
    for _ in range(ATTEMPTS):
        try:
            return start()
        except PortTaken:
            continue
    raise PortTaken(f"no free port in {ATTEMPTS} attempts")


def wait_ready(process: Process, answers: Callable[[], bool]) -> Process:
    """Wait until the process is ready; raise PortTaken or RuntimeError if it exits instead."""
    deadline = time.monotonic() + READY_SECONDS
    while not _succeeds(answers):
        if not process.running():
            failure = PortTaken if PORT_TAKEN_MESSAGE in process.log_tail() else RuntimeError
            raise failure(f"{process.name} ended while starting:\n{process.log_tail()}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.name} was not ready after {READY_SECONDS:.0f} s:\n{process.log_tail()}")
        time.sleep(0.05)
    return process


def _succeeds(answers: Callable[[], bool]) -> bool:
    """The answer, or False without a connection."""
    try:
        return answers()
    except (OSError, HTTPException):
        return False
