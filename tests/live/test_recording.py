"""A live run that is recorded gives the same decisions when it is replayed without a cluster, and holds no token."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.apps.recording import RecordingReader

pytestmark = pytest.mark.live

SECRET = "hunter2-in-the-environment"
TOKEN = re.compile(rb"eyJ[\w-]{8,}\.[\w-]{8,}")  # of a service account


def create_pods(rig: Rig, *names: str, cpu: str = "500m") -> None:
    for name in names:
        made = pod(name, cpu=cpu, scheduler=trimtab_process.SCHEDULER)
        made["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": SECRET}]
        rig.admin.create(made)


def recorded_run(rig: Rig, recording: Path) -> str:
    """Pods are bound, one fits nowhere, the configuration changes, and more are bound; returns the metrics."""
    config = trimtab_process.write_config(rig)
    flags = ("--record", str(recording), "--check-invariants=0.2")
    process = trimtab_process.launch(rig, config, "trimtab", *flags)
    try:
        create_pods(rig, *(f"first-{number}" for number in range(6)))
        create_pods(rig, "giant", cpu="64")
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(rig)) == 6, 60, "six pods bound", process)
        rig.admin.delete("/api/v1/namespaces/default/pods/first-0")
        config.write_text(config.read_text().replace('"profiles"', '"podMaxBackoffSeconds": 5, "profiles"'))
        trimtab_process.wait_for(lambda: "configuration reloaded" in process.log_tail(), 30, "a reload", process)
        create_pods(rig, *(f"second-{number}" for number in range(4)))
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(rig)) >= 9, 60, "four more pods bound", process)
        return trimtab_process.page(process, "/metrics")[1]
    finally:
        assert 0 == process.terminate()


def test_a_recorded_run_replays_to_the_same_decisions(rig: Rig, tmp_path: Path) -> None:
    """Every decision and every instruction, offline; and nothing was wrong with the state meanwhile."""
    trimtab_process.install(rig)
    rig.admin.create_many(node(f"worker-{number}") for number in range(3))
    recording = tmp_path / "recording"
    metrics = recorded_run(rig, recording)
    assert "trimtab_invariant_violations_total 0.0" in metrics
    assert "trimtab_recorded_records_total" in metrics
    report = trimtab_process.trimtab("replay", str(recording))  # raises unless the exit code is 0
    decisions = next(line for line in report.splitlines() if line.startswith("same decisions: "))
    same, _, recorded = decisions.removeprefix("same decisions: ").partition(" of ")
    assert same == recorded
    assert int(recorded) >= 11
    assert " 1 SettingsRead\n" in report
    explained = trimtab_process.trimtab("replay", str(recording), "--explain", "pod/default/giant")
    assert "Insufficient cpu" in explained
    _check_no_secrets(recording)


def _check_no_secrets(recording: Path) -> None:
    with RecordingReader(recording) as reader:
        content = reader.header.config.content + b"".join(record for _, record in reader.records())
    assert b"first-0" in content
    for secret in (SECRET.encode(), b"PASSWORD", b"Bearer ", b"-----BEGIN"):
        assert secret not in content
    assert [] == TOKEN.findall(content)
