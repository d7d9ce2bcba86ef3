"""Runs jobs in parallel processes, one process per job, so that no job inherits another one's memory or fate.

A process that dies is started again a few times; a job that raises is reported, and the others go on. Where whoever started
the run is killed, its processes end with their next sign of life.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from msgspec import Struct

from trimtab.apps.simulate.jobs import Finished, Job, run_job

ATTEMPTS = 3
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PRELOADED = ["trimtab.apps.simulate.jobs"]  # by the server that processes are forked from: imports take a second


class JobProgress(Struct, frozen=True):
    """The share of a job that is done."""

    job: Job
    share: float


class JobDone(Struct, frozen=True):
    """A job's result."""

    job: Job
    finished: Finished


class JobFailed(Struct, frozen=True):
    """A job that raised, or whose processes died."""

    job: Job
    traceback: str


PoolEvent = JobProgress | JobDone | JobFailed


class _Running(Struct):
    """A job and its process."""

    job: Job
    process: BaseProcess
    attempt: int


class ProcessPool:
    """So many processes at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._running: dict[Connection, _Running] = {}

    def run(self, jobs: Sequence[Job]) -> Iterator[PoolEvent]:
        """Yields what happens; whoever stops listening ends the processes."""
        waiting = [(job, 1) for job in reversed(jobs)]
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self.size:
                    self._start(*waiting.pop())
                for ready in wait(list(self._running)):
                    assert isinstance(ready, Connection)
                    event = self._receive(ready)
                    if isinstance(event, _Running):
                        waiting.append((event.job, event.attempt + 1))
                    else:
                        yield event
        finally:
            self._stop()

    def _start(self, job: Job, attempt: int) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=work, args=(theirs, job), daemon=True, name=job.title)
        with _undisturbed():
            process.start()
            theirs.close()
            self._running[ours] = _Running(job, process, attempt)

    def _receive(self, connection: Connection) -> PoolEvent | _Running:
        """What happened to the job; itself, if it is to be run again."""
        running = self._running[connection]
        try:
            message = connection.recv()
        except (EOFError, OSError):
            self._forget(connection)
            if running.attempt < ATTEMPTS:
                return running
            died = f"its process ended without a result, {ATTEMPTS} times; exit code {running.process.exitcode}\n"
            return JobFailed(running.job, died)
        if isinstance(message, float):
            return JobProgress(running.job, message)
        self._forget(connection)
        if isinstance(message, Finished):
            return JobDone(running.job, message)
        return JobFailed(running.job, message)

    def _forget(self, connection: Connection) -> None:
        self._running.pop(connection).process.join()
        connection.close()

    def _stop(self) -> None:
        for connection, running in self._running.items():
            running.process.kill()
            running.process.join()
            connection.close()
        self._running.clear()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait: an interrupt would leave a process that was half started.

    They are blocked, which the processes inherit for good: Ctrl-C reaches all of them, and the one that started them decides.
    Another thread may still receive one, and Python would call its handler here, in the main thread: so that waits, too.
    """
    came: list[int] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    in_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {each: signal.signal(each, lambda number, _: came.append(number)) for each in SIGNALS if in_main_thread}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in came:
            signal.raise_signal(number)


def work(connection: Connection, job: Job) -> None:
    """In its own process: run the job, and send the shares done as numbers and at last the result, or a traceback."""
    try:
        try:
            connection.send(run_job(job, connection.send))
        except BrokenPipeError:
            raise
        except Exception:
            connection.send(traceback.format_exc())
    except BrokenPipeError:
        pass  # nobody waits for it any more
    finally:
        connection.close()
