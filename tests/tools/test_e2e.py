"""The runner of Kubernetes' own scheduling specs: what it builds, reads and concludes."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from tools.controlplane import build
from tools.e2e.__main__ import parse, show_mutant, worse
from tools.e2e.cluster import write_stages
from tools.e2e.mutants import NO_SCHEDULER, PLUGINS
from tools.e2e.suite import SUITE, Result, read_report
from trimtab.config.registry import DEFAULT_PLUGINS

REPORT = """<testsuites><testsuite>
<testcase name="[BeforeSuite]" status="passed" time="0.1"/>
<testcase time="4.2" status="passed"
  name="[It] [sig-scheduling] SchedulerPredicates [Serial] validates x [Conformance] [sig-scheduling, Serial, Conformance]"/>
<testcase time="9" status="failed"
  name="[It] [sig-scheduling] SchedulerPreemption [Serial] async [Feature:Async] [FeatureGate:Async] [Beta] [sig-scheduling]">
  <failure message="pods &quot;a&quot; not found&#10;and more" type="failed">where</failure></testcase>
<testcase time="0" status="skipped"
  name="[It] [sig-scheduling] SchedulerPriorities [Serial] Pod should be preferred [sig-scheduling, Serial]">
  <skipped message="skipped - Requires at least 2 nodes"/></testcase>
<testcase time="0" status="skipped" name="[It] [sig-scheduling] Workload [Alpha] API availability [sig-scheduling]">
  <skipped message="skipped"/></testcase>
</testsuite></testsuites>"""


def test_a_report_without_labels_and_unselected_specs() -> None:
    """A spec that was not selected is left out; one that skipped itself says why."""
    assert read_report(REPORT) == [
        Result("SchedulerPredicates validates x", "passed", 4.2),
        Result("SchedulerPreemption async", "failed", 9.0, 'pods "a" not found'),
        Result("SchedulerPriorities Pod should be preferred", "skipped", 0.0, "Requires at least 2 nodes"),
    ]


@pytest.mark.parametrize(
    ("theirs", "ours", "lost"),
    [("passed", "passed", 0), ("passed", "failed", 1), ("failed", "failed", 0), ("passed", "skipped", 1)],
)
def test_only_what_kube_scheduler_passes_counts_against_trimtab(theirs: str, ours: str, lost: int) -> None:
    """A spec that both fail says something about the cluster, not about the scheduler."""
    results = {"kube-scheduler": [Result("a", theirs, 1)], "trimtab": [Result("a", ours, 1)]}
    assert lost == len(worse(results))


def test_a_spec_that_did_not_run_counts_as_lost() -> None:
    """The suite ended early with Trimtab."""
    results = {"kube-scheduler": [Result("a", "passed", 1)], "trimtab": list[Result]()}
    assert ["a"] == [each.spec for each in worse(results)]


def test_without_kube_scheduler_every_failure_counts() -> None:
    """Nothing excuses it."""
    assert [Result("a", "failed", 1)] == worse({"trimtab": [Result("a", "failed", 1)]})


def test_each_part_names_one_spec_and_a_plugin_of_the_default_profile() -> None:
    """Else a mutant would disable nothing, or run several specs as one."""
    assert {NO_SCHEDULER, *DEFAULT_PLUGINS} >= set(PLUGINS.values())
    assert all(1 == sum(other in part for other in PLUGINS) for part in PLUGINS)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [(("passed", "failed"), "weak, still passes 1 of 2 times"), (("failed", "timedout"), "fails, as it should")],
)
def test_a_spec_that_passes_without_its_plugin_even_once_is_weak(outcomes: tuple[str, ...], verdict: str) -> None:
    """A spec that times out does not pass."""
    console = Console(record=True, width=200, file=StringIO())
    show_mutant(console, "NodePorts", [Result("a", outcome, 2) for outcome in outcomes])
    assert f"NodePorts: a: {verdict} ({outcomes[0]} after 2 s, {outcomes[1]} after 2 s)\n" == console.export_text()


def test_running_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what is allowed."""
    with pytest.raises(SystemExit, match="2"):
        parse(["--mutants", "--times", "0"])
    assert "--times 0 would run nothing: use 1 or more" in capsys.readouterr().err


def test_our_stages_replace_those_of_the_same_name(tmp_path: Path) -> None:
    """kwok's pod-delete is gone, its other stages stay."""
    stock = tmp_path / "stock.yaml"
    stock.write_text("metadata: {name: pod-ready}\n---\nmetadata: {name: pod-delete}\nspec: {theirs: true}\n")
    merged = list(yaml.safe_load_all(write_stages(stock, tmp_path / "merged.yaml").read_text()))
    names = [each["metadata"]["name"] for each in merged]
    assert ["pod-ready", "pod-delete", "pod-delete-after-hook", "node-allocatable"] == names
    assert "theirs" not in merged[1]["spec"]


def test_the_suite_is_of_the_release_that_the_control_plane_is() -> None:
    """Both go.mod files replace the same modules by the same versions."""
    pattern = re.compile(r"^\s(?:k8s\.io/\S+ => k8s\.io/\S+ \S+|k8s\.io/kubernetes v\S+)$", re.MULTILINE)
    texts = [(source / "go.mod").read_text() for source in (build.HERE, SUITE.source)]
    assert set(pattern.findall(texts[0])) == set(pattern.findall(texts[1]))
    assert f"\tk8s.io/kubernetes v{build.pinned_version()}" in pattern.findall(texts[1])
