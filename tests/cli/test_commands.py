"""The command line lists its commands without importing them."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from trimtab.cli import COMMANDS, main


def test_help_names_every_command() -> None:
    """`trimtab --help` lists each command with its line."""
    output = CliRunner().invoke(main, ["--help"]).output
    assert [] == [line for name, line in COMMANDS.items() if f"  {name}" not in output or line not in output]


def test_help_loads_no_command() -> None:
    """`--help` imports neither the commands nor their dependencies."""
    code = (
        "import sys; from trimtab.cli import main; main(['--help'], standalone_mode=False); "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'aiohttp', 'yaml', 'rich')))"
    )
    assert 0 == subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode


def test_unknown_command() -> None:
    """An unknown command exits with 2."""
    result = CliRunner().invoke(main, ["rum"])
    assert 2 == result.exit_code
    assert "No such command 'rum'" in result.stderr


def test_version() -> None:
    """`trimtab --version` prints the version of the installed package."""
    assert CliRunner().invoke(main, ["--version"]).output.startswith("trimtab, version 0.")


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_nothing_in_a_refusal_commands_the_terminal(command: str) -> None:
    """Control characters from files and servers are escaped."""
    arguments = [sys.executable, "-m", "trimtab", command, "--kubeconfig", "/nonexistent/\x1b[31m"]
    said = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False).stderr
    assert (True, False) == (r"/nonexistent/\x1b[31m cannot be read" in said, "\x1b" in said)
