"""The store: a file is there as a whole or not at all, and a result is found by everything that it depends on."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tests.apps.simulate.small_scenario import small_jobs
from trimtab.apps.simulate.jobs import Finished, Timing
from trimtab.apps.simulate.store import Store

RESULT = Finished(b'{"a":1}', Timing(1.5, 7))


def test_a_result_is_found_again(tmp_path: Path) -> None:
    """By the job that it is of, with its bytes and its timing; by no other job."""
    one, other = small_jobs()
    store = Store(tmp_path)
    assert store.find(one) is None
    store.put(one, RESULT)
    assert RESULT == Store(tmp_path).find(one)
    assert store.find(other) is None
    assert store.find(replace(one, key=one.key[:16] + "0" * 48)) is None


def test_a_damaged_file_counts_as_not_run(tmp_path: Path) -> None:
    """Whatever else wrote it: the job runs again."""
    (job, _) = small_jobs()
    store = Store(tmp_path)
    store.put(job, RESULT)
    (path,) = (tmp_path / "runs").iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    assert store.find(job) is None


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Parts of files, which nobody reads."""
    Store(tmp_path)
    part = tmp_path / "runs" / "stock-1-run-0.json.tmp-0123abcd"
    part.write_text("half")
    Store(tmp_path)
    assert not part.exists()


def test_without_a_folder_nothing_is_stored() -> None:
    """Results are kept in memory by whoever runs the jobs."""
    (job, _) = small_jobs()
    store = Store(None)
    store.put(job, RESULT)
    assert store.find(job) is None
    assert store.put_failure(job, "text") is None


def test_a_policy_given_by_a_path_has_a_file_name(tmp_path: Path) -> None:
    """Without slashes, and not hidden."""
    (job, _) = small_jobs()
    store = Store(tmp_path)
    store.put(replace(job, policy=replace(job.policy, name="../.x/tuned one.yaml")), RESULT)
    (path,) = (tmp_path / "runs").iterdir()
    assert path.name.startswith("x-tuned-one.yaml-1-run-")
