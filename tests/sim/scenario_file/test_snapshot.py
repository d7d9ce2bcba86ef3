"""Snapshots in scenario files: the cluster goes on, alone or with further workloads, and errors name file and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.snapshot_clusters import cluster, replica, used, worker
from trimtab.config.diagnostics import ConfigError
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file import parse_scenario
from trimtab.sim.snapshot_document import Usage

HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: Scenario\n"
MORE = """
workloads:
- {name: more, replicas: 2, requests: {cpu: 1, memory: 1Gi}, usage: {cpu: 50%}}
"""


def parse(folder: Path, text: str) -> Scenario:
    return parse_scenario(HEAD + text, "mine.yaml", folder)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """The name of a file with one node and one pod on it."""
    cluster(tmp_path, [worker("n-1")], [replica("web-1", "n-1")], usage=Usage({}, {"shop/web-1": used(250.0)}))
    (file,) = tmp_path.glob("*.json*")
    return file.name


def test_the_cluster_goes_on(tmp_path: Path, snapshot: str) -> None:
    """Nodes and pods of the snapshot, and the workloads of the file beside them."""
    scenario = parse(tmp_path, f"snapshot: {{file: {snapshot}}}\n{MORE}")
    assert (["n-1"], [("web-1", "n-1")]) == (
        [each.node.name for each in scenario.nodes],
        [(each.name, each.node) for each in scenario.pods],
    )
    assert ["more"] == [each.name for each in scenario.workloads]


def test_pods_are_placed_again_on_request(tmp_path: Path, snapshot: str) -> None:
    """They arrive without a node, and are measured after that."""
    scenario = parse(tmp_path, f"snapshot: {{file: {snapshot}, placeAgain: true}}")
    assert [("web-1", "")] == [(each.name, each.node) for each in scenario.pods]
    assert scenario.warm_up > 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("snapshot: {}", "mine.yaml:3:11: snapshot"),
        ("snapshot: {file: none.json}", "none.json: cannot be read"),
        ("snapshot: {file: mine.yaml, again: true}", "unknown"),
        ("snapshot: {file: junk.json}", "junk.json"),
    ],
)
def test_problems_have_a_place(tmp_path: Path, text: str, problem: str) -> None:
    """The scenario's file and line, and what is wrong with the snapshot."""
    (tmp_path / "junk.json").write_bytes(b"\x1f\x8bjunk")
    with pytest.raises(ConfigError) as error:
        parse(tmp_path, text)
    assert problem in str(error.value)
    assert "mine.yaml:3:" in str(error.value)


def test_a_trace_and_a_snapshot_exclude_each_other(tmp_path: Path, snapshot: str) -> None:
    """One scenario is built on one of them."""
    with pytest.raises(ConfigError, match="remove one of the two"):
        parse(tmp_path, f"trace: {{folder: nowhere}}\nsnapshot: {{file: {snapshot}}}")
