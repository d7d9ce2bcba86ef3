"""The pool: results are those of one process, a failing job or a dying process stops no other, and stopping ends all."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest
from msgspec.structs import replace

from tests.apps.simulate.small_scenario import small_jobs
from trimtab.apps.simulate.jobs import Job, run_job
from trimtab.apps.simulate.process_pool import JobDone, JobFailed, JobProgress, ProcessPool, _undisturbed


class Dies:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


def with_nodes(job: Job, nodes: Any) -> Job:
    return replace(job, scenario=replace(job.scenario, nodes=nodes))


def test_results_are_those_of_this_process() -> None:
    """However many processes run at a time; progress is told in between."""
    jobs = small_jobs(seeds=2)
    expected = {job.key: run_job(job).content for job in jobs}
    for size in (1, 2):
        events = [*ProcessPool(size).run(jobs)]
        assert expected == {each.job.key: each.finished.content for each in events if isinstance(each, JobDone)}
        assert any(isinstance(each, JobProgress) and 0 < each.share < 1 for each in events)


def test_a_job_that_raises_is_reported_and_the_others_go_on() -> None:
    """With its traceback."""
    first, second = small_jobs()
    events = [*ProcessPool(2).run([with_nodes(first, ("broken",)), second])]
    (failed,) = (each for each in events if isinstance(each, JobFailed))
    assert "AttributeError: 'str' object has no attribute" in failed.traceback
    assert "Traceback" in failed.traceback
    assert [second.key] == [each.job.key for each in events if isinstance(each, JobDone)]


def test_a_process_that_dies_is_started_again_and_then_given_up() -> None:
    """The exit code is said, and the others go on."""
    first, second = small_jobs()
    events = [*ProcessPool(1).run([with_nodes(first, Dies()), second])]
    (failed,) = (each for each in events if isinstance(each, JobFailed))
    assert "its process ended without a result, 3 times; exit code 9\n" == failed.traceback
    assert [second.key] == [each.job.key for each in events if isinstance(each, JobDone)]


def test_whoever_stops_listening_ends_the_processes() -> None:
    """None is left."""
    pool = ProcessPool(2)
    events = pool.run(small_jobs(seeds=3))
    next(events)
    processes = [running.process for running in pool._running.values()]
    assert processes
    events.close()
    assert not any(process.is_alive() for process in processes)
    assert not pool._running


def test_a_signal_waits_until_a_process_is_started() -> None:
    """Also one that another thread receives, as the one that draws the progress bar may."""
    over, reached = threading.Event(), False
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt), _undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            reached = True
        assert reached
    finally:
        over.set()
        thread.join()
