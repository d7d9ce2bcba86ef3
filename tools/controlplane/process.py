"""Decides how a child process is started, paused, measured and ended; leaves what it runs to the rig.

    started ── pause ──▶ stopped ── resume ──▶ started
       └──────── kill ───────┴──▶ gone (waited for, so no zombie stays)

A child asks the kernel to be killed when its parent dies, so nothing outlives a test run that is killed. The kernel
watches the parent *thread*: start children from one that lives as long as they shall.
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

# Below the range of outgoing connections, so that none of those takes a port while its server restarts.
PORTS = range(20_000, 32_000)
TAIL_BYTES = 4_000
READY_SECONDS = 90.0
ATTEMPTS = 5
PORT_TAKEN_MESSAGE = "address already in use"

# A program of its own and not preexec_fn, which may deadlock when the parent has threads.
LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Startable(ABC):
    """What is started by `with` and stopped at its end."""

    @abstractmethod
    def start(self) -> None:
        """Start, and wait until it can be used."""

    @abstractmethod
    def stop(self) -> None:
        """Stop whatever was started of it."""

    def __enter__(self) -> Self:
        """Start, and stop again if that fails half-way."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, whatever happened."""
        self.stop()


class PortTaken(Exception):
    """Somebody else was quicker to take the port."""


class Process:
    """One running child with its log file."""

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
        """The process id, the same from launch to end."""
        return self._child.pid

    def running(self) -> bool:
        """Whether the process has not ended (a paused one has not)."""
        return self._child.poll() is None

    def pause(self) -> None:
        """Freeze the process: its connections stay open and nobody answers, from the return of this call on."""
        self._child.send_signal(signal.SIGSTOP)
        while not self._is_frozen():  # on a busy machine some of its threads run on for a while
            time.sleep(0.01)

    def _is_frozen(self) -> bool:
        """Whether each of its threads has stopped, or it has none any more."""
        try:
            told = [each.read_text() for each in Path(f"/proc/{self._child.pid}/task").glob("*/stat")]
        except OSError:  # one of them ended meanwhile
            return False
        return all(text.rpartition(")")[2].split()[0] in "TtZX" for text in told)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._child.kill()
        self._child.wait()

    def terminate(self, seconds: float = 30) -> int:
        """Ask the process to end and return its exit code; one that does not is killed and the timeout raised."""
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
        """The end of the log, for a failure's message."""
        return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")


def cpu_seconds(pid: int) -> float:
    """The kernel's account of a process: user and system time of all its threads, in steps of a clock tick."""
    # The command's name is in brackets and may hold blanks, so fields are counted from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def retry_port_taken(start: Callable[[], Process]) -> Process:
    """Start with a port of its own choice, again with another one if that was taken meanwhile."""
    for _ in range(ATTEMPTS):
        try:
            return start()
        except PortTaken:
            continue
    raise PortTaken(f"no free port in {ATTEMPTS} attempts")


def wait_ready(process: Process, answers: Callable[[], bool]) -> Process:
    """Wait until it answers; a process that ends instead is told from one whose port was taken."""
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
    """Whether it answers yes; no connection is a no."""
    try:
        return answers()
    except (OSError, HTTPException):
        return False
