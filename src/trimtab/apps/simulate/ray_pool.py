"""Runs jobs on a Ray cluster. Results are collected one by one as they finish, so a lost worker loses no finished job.

A job whose worker or machine is lost is sent again a few times. Ray is an optional dependency, and Trimtab must be installed
on the machines of the cluster, in the same version: the jobs themselves hold scenario and policy, so no files are needed.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from trimtab.apps.simulate.jobs import Finished, Job, run_job
from trimtab.apps.simulate.process_pool import ATTEMPTS, JobDone, JobFailed, PoolEvent

LOCAL = "local"


class RayMissing(Exception):
    """Ray cannot be used, and what to do about it."""


class _Sent(Struct):
    """A job under way."""

    job: Job
    attempt: int


class RayPool:
    """A connection to the cluster at an address; `local` starts one here with so many CPUs."""

    def __init__(self, address: str, size: int) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ImportError:
            raise RayMissing("Ray is not installed: run `pip install 'trimtab[ray]'`, or leave out --ray") from None
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here reports to nobody
        where: dict[str, Any] = {"num_cpus": size} if address == LOCAL else {"address": address}
        try:
            self._ray.init(**where, include_dashboard=False, log_to_driver=False, logging_level="error")
        except Exception as error:
            raise RayMissing(f"the Ray cluster at {address} cannot be used: {error}") from None
        # Ray would retry by itself, but not say so: the attempts are counted here, as those of processes are.
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(attempt)

    def run(self, jobs: Sequence[Job]) -> Iterator[PoolEvent]:
        """Yields what happens; whoever stops listening cancels the rest."""
        under_way: dict[Any, _Sent] = {self._task.remote(job): _Sent(job, 1) for job in jobs}
        try:
            while under_way:
                (ready, *_), _ = self._ray.wait(list(under_way), num_returns=1)
                sent = under_way.pop(ready)
                event = self._collect(ready, sent)
                if event is None:
                    under_way[self._task.remote(sent.job)] = _Sent(sent.job, sent.attempt + 1)
                else:
                    yield event
        finally:
            for left in under_way:
                self._ray.cancel(left, force=True)
            self._ray.shutdown()

    def _collect(self, ready: Any, sent: _Sent) -> PoolEvent | None:
        """What became of the job; None if it was lost and is to be sent again."""
        try:
            result = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            if sent.attempt < ATTEMPTS:
                return None
            return JobFailed(sent.job, f"its worker was lost, {ATTEMPTS} times: {error}\n")
        return JobDone(sent.job, result) if isinstance(result, Finished) else JobFailed(sent.job, result)


def attempt(job: Job) -> Finished | str:
    """On the cluster: the result, or the traceback of the job."""
    try:
        return run_job(job)
    except Exception:
        return traceback.format_exc()
