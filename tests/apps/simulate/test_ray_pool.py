"""Ray: a real local cluster gives the same bytes, and a worker that is killed loses no job."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.apps.simulate.small_scenario import small_jobs
from trimtab.apps.simulate.jobs import run_job
from trimtab.apps.simulate.process_pool import JobDone, JobFailed
from trimtab.apps.simulate.ray_pool import RayMissing, RayPool

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'trimtab[ray]'")


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra, or no --ray."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RayMissing, match=r"pip install 'trimtab\[ray\]'"):
        RayPool("local", 1)


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_loses_no_job() -> None:
    """The results are those of this process, though a worker is killed while it runs one."""
    jobs = small_jobs(seeds=3)
    expected = {job.key: run_job(job).content for job in jobs}
    killed: list[int] = []
    pool = RayPool("local", 2)
    killer = threading.Thread(target=_kill_one_worker, args=(killed,), daemon=True)
    killer.start()
    events = [*pool.run(jobs)]
    killer.join(1)
    assert 1 == len(killed)
    assert not [each for each in events if isinstance(each, JobFailed)]
    assert expected == {each.job.key: each.finished.content for each in events if isinstance(each, JobDone)}


def _kill_one_worker(killed: list[int]) -> None:
    """The first one seen at work among our descendants."""
    deadline = time.monotonic() + 60
    while not killed and time.monotonic() < deadline:
        for pid in _descendants(os.getpid()):
            if _command(pid).startswith("ray::attempt"):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
        time.sleep(0.01)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {root})
