"""`trimtab config`: its output and exit codes."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.config.config_files import FULL, HEAD
from trimtab.cli import main


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def written(folder: Path, content: str) -> str:
    path = folder / "scheduler.yaml"
    path.write_text(content)
    return str(path)


def test_good_file(tmp_path: Path) -> None:
    """A valid file is reported with its notes, and the exit code is 0."""
    file = written(tmp_path, FULL + "parallelism: 4\n")
    result = ran("config", "check", file)
    first, *_, last = result.stdout.splitlines()
    assert (0, "") == (result.exit_code, result.stderr)
    assert first.startswith(f"note: {file}:")
    assert f"{file}: valid; profiles: packing, plain; metric sources: none, scores use requests" == last


@pytest.mark.parametrize("verb", ["check", "show"])
def test_bad_file(tmp_path: Path, verb: str) -> None:
    """Every problem of an invalid file is printed to stderr, and the exit code is 2."""
    file = written(tmp_path, HEAD + "paralelism: 4\nprofiles: 5\n")
    result = ran("config", verb, file)
    assert (2, "") == (result.exit_code, result.stdout)
    assert [
        f"{file}:3:1: paralelism: unknown field (did you mean parallelism?)",
        f"{file}:4:11: profiles: expected a list, got the number 5",
    ] == result.stderr.splitlines()


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_unreadable_file(tmp_path: Path, name: str) -> None:
    """A missing or unreadable file is one sentence, and the exit code is 2."""
    result = ran("config", "check", str(tmp_path / name))
    assert 2 == result.exit_code
    assert f"{tmp_path / name}: cannot be read: " in result.stderr


def test_show(tmp_path: Path) -> None:
    """The effective configuration is printed as two documents of YAML with the defaults filled in."""
    theirs, ours = yaml.safe_load_all(ran("config", "show", written(tmp_path, HEAD)).stdout)
    assert "kube-system" == theirs["leaderElection"]["resourceNamespace"]
    assert "2m" == ours["load"]["freshFor"]
