"""`trimtab history`, `pause` and `resume`: flags, exit codes and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.test_doctor import kubeconfig as kubeconfig
from tests.core.rescheduling.move_records import done
from trimtab.apps import kill_switch, move_history
from trimtab.cli import main
from trimtab.core.model.ledger import Ledger


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def test_history(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a table and as JSON, of the namespace that is asked for; 0 with moves or without."""
    namespaces = []

    async def read(transport: object, namespace: str, now: float) -> Ledger:
        namespaces.append(namespace)
        return Ledger(records=(done("web", at=now - 100.0), done("old", at=now - 90_000.0)))

    monkeypatch.setattr(move_history, "read_ledger", read)
    code, output = run("history", "--kubeconfig", kubeconfig, "-n", "mine", "--since", "1h")
    assert (0, True, False) == (code, "default/web" in output, "default/old" in output)
    code, output = run("history", "--kubeconfig", kubeconfig, "--json", "--strategy", "HotSpot")
    assert (0, []) == (code, json.loads(output)["records"])
    assert ["mine", "trimtab"] == namespaces


def test_an_unreadable_ledger(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1, with the words of whoever read it."""

    async def read(transport: object, namespace: str, now: float) -> Ledger:
        raise move_history.LedgerUnreadable("ConfigMap trimtab/trimtab-moves holds no ledger")

    monkeypatch.setattr(move_history, "read_ledger", read)
    assert (1, "trimtab: ConfigMap trimtab/trimtab-moves holds no ledger.\n") == run(
        "history", "--kubeconfig", kubeconfig
    )


def test_switching(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason and the leases are handed on; the usual leases unless one is named."""
    seen = []

    async def switch(transport: object, leases: tuple[kill_switch.LeaseName, ...], reason: str | None) -> list[str]:
        seen.append(([*map(str, leases)], reason))
        return ["done \x1b[2J"]

    monkeypatch.setattr(kill_switch, "switch", switch)
    assert (0, "done \\x1b[2J\n") == run("pause", "--kubeconfig", kubeconfig, "--reason", "incident\n17")
    assert 0 == run("resume", "--kubeconfig", kubeconfig, "--lease", "mine/other")[0]
    assert [(["trimtab/trimtab-rescheduler", "trimtab/trimtab"], "incident 17"), (["mine/other"], None)] == seen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pause",), "Missing option '--reason'"),
        (("pause", "--reason", " "), "write why moves are paused"),
        (("pause", "--reason", "false"), "write why moves are paused"),
        (("resume", "--lease", "trimtab"), "'trimtab' is not NAMESPACE/NAME"),
        (("history", "--since", "yesterday"), "'yesterday' is not a duration such as 6h"),
        (("history", "-n", "A B"), "is not the name of a namespace"),
    ],
)
def test_invalid_flags(arguments: tuple[str, ...], words: str) -> None:
    """2, with what to write."""
    code, output = run(*arguments)
    assert (2, True) == (code, words in output), output


@pytest.mark.parametrize("arguments", [("history",), ("pause", "--reason", "x"), ("resume",)])
def test_without_a_cluster(arguments: tuple[str, ...], kubeconfig: str, tmp_path: Path) -> None:
    """2 without a kubeconfig, 1 without an API server; no traceback."""
    assert 2 == run(*arguments, "--kubeconfig", str(tmp_path / "none"))[0]
    code, output = run(*arguments, "--kubeconfig", kubeconfig)
    assert (1, True) == (code, "cannot be reached" in output), output
