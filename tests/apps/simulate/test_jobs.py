"""Jobs: the same one gives the same bytes, its key follows what it depends on, and other processes can run it."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.apps.simulate.small_scenario import small_jobs, small_scenario
from trimtab.apps.simulate import jobs
from trimtab.apps.simulate.jobs import JobKind, make_jobs, run_job, scenario_digest
from trimtab.apps.simulate.policies import find_policies
from trimtab.sim.measures import MEASURES_BY_NAME


def test_the_same_job_gives_the_same_bytes() -> None:
    """Also after it was sent to another process."""
    (job, _) = small_jobs()
    first, second = run_job(job), run_job(pickle.loads(pickle.dumps(job)))
    assert first.content == second.content
    run = first.run()
    assert ("small", "stock", 1) == (run.scenario, run.policy, run.seed)
    assert [*MEASURES_BY_NAME] == [*run.measures]
    assert run.measures["hot80"] > 0
    assert first.timing.decisions == run.decisions > 0


def test_keys_follow_what_a_result_depends_on() -> None:
    """Another seed, policy, kind or scenario is another key; the same input has the same."""
    made = small_jobs(seeds=2, compaction=True)
    assert len(made) == len({job.key for job in made}) == 6
    assert [job.key for job in made] == [job.key for job in small_jobs(seeds=2, compaction=True)]
    longer = replace(small_scenario(), duration=1800.0)
    (other,) = make_jobs({1: longer}, find_policies(["stock"]))
    assert other.key not in {job.key for job in made}


def test_changed_code_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of an older plugin are not taken for those of a newer one."""
    before = small_jobs()[0].key
    monkeypatch.setattr(jobs, "code_digest", lambda: "changed")
    assert before != small_jobs()[0].key


def test_all_policies_run_one_seed_before_the_next() -> None:
    """So that an interrupted run has compared them all on some seeds."""
    order = [(job.seed, job.policy.name, job.kind) for job in small_jobs(seeds=2, compaction=True)]
    run, compaction = JobKind.RUN, JobKind.COMPACTION
    seeds = [(seed, name, run) for seed in (1, 2) for name in ("stock", "PeakRisk")]
    assert [*seeds, (1, "stock", compaction), (1, "PeakRisk", compaction)] == order


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
from trimtab.plugin import Change

@dataclass(frozen=True)
class Late:
    name: ClassVar[str] = "Late"
    requeue_on: ClassVar[Change] = Change.NOTHING

    def pre_enqueue(self, pod):
        return None
"""
PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {preEnqueue: {enabled: [{name: Late}]}}}]
"""


@pytest.mark.parametrize("module", ["late_plugin.py", "late_plugin/__init__.py", "late_plugin/deep/wide.py"])
def test_changed_plugins_of_other_packages_are_another_key(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the policies that use them, whichever file of their package it is that changes."""
    policy, file = tmp_path / "late.yaml", tmp_path / module
    policy.write_text(PROFILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "late_plugin.py" if file.parent == tmp_path else tmp_path / "late_plugin/__init__.py").write_text(
        PLUGIN
    )
    meta = tmp_path / "late-1.2.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.2\n")
    (meta / "entry_points.txt").write_text("[trimtab.plugins]\nLate = late_plugin:Late\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = [job.key for job in small_jobs(("stock", str(policy)))]
    with file.open("a") as added:
        added.write("# changed\n")
    after = [job.key for job in small_jobs(("stock", str(policy)))]
    sys.modules.pop("late_plugin")
    assert [True, False] == [old == new for old, new in zip(before, after, strict=True)]


def test_the_digest_of_a_scenario_is_of_what_happens() -> None:
    """The same file gives the same digest, and a changed number another."""
    scenario = small_scenario()
    assert scenario_digest(scenario) == scenario_digest(small_scenario())
    assert scenario_digest(scenario) != scenario_digest(replace(scenario, step=60.0))


def test_progress_is_told_up_to_the_end() -> None:
    """From a hundredth to all of it."""
    shares: list[float] = []
    run_job(small_jobs()[0], shares.append)
    assert 100 == len(shares)
    assert sorted(shares) == shares
    assert 1.0 == shares[-1]


def test_measures_have_nine_digits() -> None:
    """The last ones of a float may differ between processors."""
    content = msgspec.json.decode(run_job(small_jobs()[0]).content)
    assert all(value == float(f"{value:.9g}") for value in content["measures"].values())
