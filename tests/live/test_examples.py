"""The example objects are accepted by a real API server, and the example configurations by their programs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.trimtab_process import ROOT, trimtab
from tools.controlplane.objects import node
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

KIND = ROOT / "examples" / "kind"
OBJECTS = ("twelve-pods", "nginx", "memory-stress", "cpu-stress", "soft-affinity")


@pytest.fixture(scope="module")
def cluster(rig: Rig) -> Iterator[Rig]:
    """A cluster with the nodes of cluster.yaml, and the namespace of the twelve pods."""
    names = ("trimtab-control-plane", "trimtab-worker", "trimtab-worker2", "trimtab-worker3")
    rig.admin.create_many(node(name) for name in names)
    rig.ensure_namespace("k8s")
    yield rig


@pytest.mark.parametrize("name", OBJECTS)
def test_an_example_is_accepted_as_it_stands(cluster: Rig, name: str) -> None:
    """Every object is created, and strict validation finds no unknown or repeated field."""
    cluster.kubectl("apply", "--validate=strict", "-f", str(KIND / f"{name}.yaml"))


def test_every_file_is_tested() -> None:
    """A file that is added here gets a test, too."""
    own = {"cluster", "prometheus-values", "trimtab"}
    assert {*OBJECTS, *own} == {file.stem for file in KIND.glob("*.yaml")}


def test_the_daemonset_of_memory_available_is_accepted(cluster: Rig) -> None:
    """In a namespace that allows host paths, with the script in a ConfigMap."""
    cluster.kubectl("apply", "--validate=strict", "-k", str(ROOT / "deploy" / "memory-available"))
    script = cluster.kubectl("get", "configmap", "-n", "trimtab-node-metrics", "-o", "yaml")
    assert "k8_node_cgroups_mem_available_timestamp_seconds" in script


def test_the_configuration_of_the_walkthrough_is_valid() -> None:
    """With a source and label rules."""
    assert "metric sources: prometheus" in trimtab("config", "check", str(KIND / "trimtab.yaml"))


def test_promtool_accepts_the_scrape_jobs(tmp_path: Path) -> None:
    """Syntax and semantics; files of the service account exist only in a pod, so they are not looked for."""
    promtool = controlplane_or_skip() / "promtool"
    file = ROOT / "examples" / "prometheus" / "prometheus.yml"
    command = [str(promtool), "check", "config", "--syntax-only", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (0, "") == (done.returncode, done.stderr), done.stdout
