"""`trimtab unmark`: its flags, exit codes and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.test_doctor import kubeconfig as kubeconfig
from trimtab.apps import label_cleanup
from trimtab.apps.label_cleanup import CleanupOptions, CleanupResult, Outcome
from trimtab.cli import main


def run_unmark(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["unmark", *arguments])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("flags", "after", "legacy", "apply", "lease"),
    [
        ((), 600.0, False, False, ("trimtab", "trimtab-labeller")),
        (
            ("--after", "90s", "--legacy", "--apply", "--lease-namespace", "mine", "--lease-name", "trimtab"),
            90.0,
            True,
            True,
            ("mine", "trimtab"),
        ),
    ],
)
def test_flags(
    flags: tuple[str, ...],
    after: float,
    legacy: bool,
    apply: bool,
    lease: tuple[str, str],
    kubeconfig: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The defaults are ten minutes, our own labels, and nothing written."""
    seen: list[CleanupOptions] = []

    async def unmark(options: CleanupOptions, server: object) -> CleanupResult:
        seen.append(options)
        return CleanupResult(("a \x1b[2J",), Outcome.FAILED if legacy else Outcome.REMOVED)

    monkeypatch.setattr(label_cleanup, "clean_up", unmark)
    assert (int(legacy), r"a \x1b[2J" + "\n") == run_unmark("-kubeconfig", kubeconfig, *flags)
    (options,) = seen
    assert (after, legacy, apply) == (options.after, options.legacy, options.apply)
    assert (*lease, True) == (options.lease.namespace, options.lease.name, options.lease.enabled)


@pytest.mark.parametrize("after", ["soon", "-1m", ""])
def test_a_span_that_is_none(after: str) -> None:
    """Exit code 2, with the value and an example."""
    code, output = run_unmark("--after", after)
    assert (2, True) == (code, f"{after!r} is not a duration such as 10m" in output)


def test_without_a_cluster(kubeconfig: str, tmp_path: Path) -> None:
    """2 without a kubeconfig, 1 without an API server; no traceback."""
    assert 2 == run_unmark("--kubeconfig", str(tmp_path / "none"))[0]
    code, output = run_unmark("--kubeconfig", kubeconfig)
    assert (1, True) == (code, "nodes: cannot be listed: no connection" in output), output
