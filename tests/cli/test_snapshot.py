"""`trimtab snapshot`: flags, exit codes, and what it prints."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.test_doctor import kubeconfig as kubeconfig
from trimtab.apps.snapshot import take
from trimtab.apps.snapshot.objects import SnapshotFailed
from trimtab.apps.snapshot.take import Snapshot, SnapshotOptions
from trimtab.cli import main
from trimtab.sim.snapshot_document import History, Metadata, PastUsage, Sample, Usage


def run_snapshot(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["snapshot", *arguments])
    return done.exit_code, done.output


TAKEN = Snapshot(
    Metadata(datetime(2026, 1, 31, tzinfo=UTC), missing=("csinodes",)),
    {"nodes": [], "pods": [], "services": []},
    Usage({"a": Sample(1.0, 5.0)}),
    History(0.0, 60.0, {"a": PastUsage((1.0, 2.0))}),
    ("query x failed \x1b[2J",),
)


def test_flags_and_summary(tmp_path: Path, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options reach the command, and notes and contents are printed."""
    seen: list[SnapshotOptions] = []

    def run(options: SnapshotOptions, credentials: Any, path: Path) -> tuple[Snapshot, int]:
        seen.append(options)
        return TAKEN, 2048

    monkeypatch.setattr(take, "run", run)
    file = tmp_path / "c.json.gz"
    flags = ["--history", "24h", "--step", "1m", "--hash-names", "--skip-forbidden"]
    code, output = run_snapshot("-o", str(file), "--kubeconfig", kubeconfig, *flags)
    assert 0 == code, output
    assert ((86400.0, 60.0), True, True) == (tuple(seen[0].history or ()), seen[0].hash_names, seen[0].skip_forbidden)
    assert "note: query x failed \\x1b[2J" in output
    assert (
        f"wrote {file} (2.0 KiB): 0 nodes, 0 pods, 0 other objects; usage of 1 nodes and 0 pods; history of 2 steps; "
        "without csinodes" in output
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "Missing option '-o'"),
        (("-o", "{tmp}/a.txt"), "must end in .json.gz or .json"),
        (("-o", "{tmp}/x/a.json"), "there is no directory"),
        (("-o", "{tmp}/a.json", "--history", "yesterday"), "'yesterday' is not a duration"),
        (("-o", "{tmp}/a.json", "--history", "1m"), "must be between one and 11,000 times --step"),
        (("-o", "{tmp}/a.json", "--history", "-24h"), "must be between one and 11,000 times --step"),
        (("-o", "{tmp}/a.json", "--step", "0s"), "must be between 1s and 24h"),
        (("-o", "{tmp}/a.json", "--kubeconfig", "{tmp}/none"), "trimtab: "),
        (("-o", "{tmp}/a.json", "--config", "{tmp}/none"), "cannot be read: No such file or directory"),
    ],
)
def test_bad_input(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """Exit code 2, and a sentence that says what is wrong; no file is left behind."""
    code, output = run_snapshot(*(each.format(tmp=tmp_path) for each in flags))
    assert 2 == code and message in output and "Traceback" not in output
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SnapshotFailed("ann may not list nodes: grant it the verb list on these resources"), "ann may not list nodes"),
        (OSError(28, "No space left on device"), "a.json cannot be written: No space left on device"),
    ],
)
def test_failures(
    error: Exception, message: str, tmp_path: Path, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1."""

    def run(*arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(take, "run", run)
    code, output = run_snapshot("-o", str(tmp_path / "a.json"), "--kubeconfig", kubeconfig)
    assert 1 == code and message in output


def test_an_unreachable_server(tmp_path: Path, kubeconfig: str) -> None:
    """Said in one sentence; nothing listens on that port."""
    code, output = run_snapshot("-o", str(tmp_path / "a.json"), "--kubeconfig", kubeconfig)
    assert 1 == code and "trimtab: the API server cannot be reached" in output
