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


@pytest.mark.parametrize("command", [*COMMANDS, "config check", "config show", "config template", ""])
def test_help_as_in_go(command: str) -> None:
    """Every command answers to -help and -h as it does to --help."""
    short, go, long = (
        CliRunner().invoke(main, [*command.split(), flag], prog_name="trimtab") for flag in ("-h", "-help", "--help")
    )
    assert (0, long.output) == (go.exit_code, go.output)
    assert (0, long.output) == (short.exit_code, short.output)
    assert f"Usage: trimtab {command}".strip() in long.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctor", "-config", "f.yaml"], "No such option -config: write --config."),
        (["config", "show", "-key", "a", "f.yaml"], "No such option -key: write --key."),
        (["demo", "--sped=3"], "'--speed'"),
        (["doctor", "-x"], "No such option -x."),
        (["labeller", "-webadr", ":9000", "-prom", "http://a:1"], "No such option -webadr: did you mean -webaddr?"),
        (["run", "-foo", "-kubeconfig", "x"], "No such option -foo."),
        (["run", "-kubeconfig=x"], "No such option -kubeconfig: write --kubeconfig."),
        (["unmark", "-kubecnfig", "x"], "No such option -kubecnfig: did you mean -kubeconfig?"),
        (["run", "--secure-port", "abc"], "'abc' is not a whole number."),
        (["run", "--v=abc"], "'abc' is not a whole number."),
        (["labeller", "-cpu", "abc"], "'abc' is not a number."),
    ],
)
def test_refused_flag(arguments: list[str], words: str) -> None:
    """A flag with one dash too few, misspelt, or without a number is refused by its own name, and the exit code is 2."""
    result = CliRunner().invoke(main, arguments)
    assert 2 == result.exit_code
    assert words in result.stderr
