"""`trimtab apply` and `trimtab approve`: what is refused before anything is sent, in which words, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.apps.plan.hot_cluster import hot_cluster
from tests.cli.test_doctor import kubeconfig as kubeconfig
from trimtab.cli import apply as apply_command
from trimtab.cli import main


def apply(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["apply", *arguments])


def plan_file(folder: Path) -> Path:
    """Of a day long ago."""
    file = folder / "plan.json"
    CliRunner().invoke(main, ["plan", "--snapshot", str(hot_cluster(folder)), "-o", str(file)])
    return file


def test_nobody_can_be_asked(tmp_path: Path) -> None:
    """Without a terminal the approval must be a flag."""
    done = apply(str(plan_file(tmp_path)))
    assert (1, "") == (done.exit_code, done.stdout)
    assert (
        "trimtab: standard input is no terminal, so nobody can be asked: --auto-approve carries the plan" in done.stderr
    )


def test_a_plan_that_is_too_old(tmp_path: Path) -> None:
    """Load changes: it must be made again."""
    done = apply(str(plan_file(tmp_path)), "--auto-approve")
    assert (1, "") == (done.exit_code, done.stdout)
    assert "plan.json: the plan is of 2026-01-31 08:00:00 UTC, " in done.stderr and "plan again" in done.stderr


def test_a_file_that_is_no_plan(tmp_path: Path) -> None:
    """One sentence, and exit code 1."""
    (tmp_path / "plan.json").write_text("moves: []")
    for flags in (["--auto-approve"], []):
        done = apply(str(tmp_path / "plan.json"), *flags)
        assert (1, True) == (done.exit_code, "plan.json is no plan, or not all of one (" in done.stderr), done.stderr


def test_a_plan_without_moves(tmp_path: Path) -> None:
    """There is nothing to do, and no cluster is asked."""
    document = json.loads(plan_file(tmp_path).read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**document, "moves": []}))
    done = apply(str(tmp_path / "plan.json"), "--auto-approve", "--max-age", "100000h")
    assert (0, f"{tmp_path}/plan.json has no moves: nothing to do.\n") == (done.exit_code, done.stdout)


def test_an_unreachable_cluster(tmp_path: Path, kubeconfig: Path) -> None:
    """The plan is not even printed."""
    flags = ("--auto-approve", "--max-age", "100000h", "--kubeconfig", str(kubeconfig))
    done = apply(str(plan_file(tmp_path)), *flags)
    assert (1, "", True) == (done.exit_code, done.stdout, "cannot be reached" in done.stderr)


@pytest.mark.parametrize("age", ["-1s", "0s", "soon"])
def test_an_invalid_age(age: str) -> None:
    """Exit code 1, because 2 says that moves were skipped."""
    done = apply("plan.json", "--max-age", age)
    assert (1, True) == (done.exit_code, "is not a duration such as 10m" in done.stderr)


@pytest.mark.parametrize(("answer", "approved"), [("yes", True), ("y", False), ("", False)])
def test_only_yes_is_accepted(answer: str, approved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As terraform does it."""
    monkeypatch.setattr("builtins.input", lambda question: answer)
    if approved:
        apply_command._ask()
        return
    with pytest.raises(Exception, match="not approved: nothing was moved"):
        apply_command._ask()


def test_approve_without_a_cluster(kubeconfig: Path) -> None:
    """Nothing can be approved."""
    done = CliRunner().invoke(main, ["approve", "--kubeconfig", str(kubeconfig)])
    assert (1, True) == (done.exit_code, "cannot be reached" in done.stderr)
