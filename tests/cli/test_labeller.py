"""`trimtab labeller`: dynamic-Scheduler's flags and ours, and errors where it cannot start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.config.config_files import TRIMTAB_HEAD
from trimtab.apps.plugins import PluginError
from trimtab.cli import dynamic_scheduler_flags, main
from trimtab.cli.labeller import _read_serving, command
from trimtab.cli.serving_flags import SERVING_FLAGS
from trimtab.config.trimtab.labeller import from_rule_file
from trimtab.core.load.pressure_rules import Direction
from trimtab.serve.options import Address, Serving

RULES = "Rulename:\n  Node_mem: {Promsql: used, Threshold: 70}\n"
GONE = "http://127.0.0.1:9"
LABELS = (
    "sources: [{name: a, prometheus: {url: 'http://a:1'}}]\nlabels: {rules: [{name: cpu, metric: cpu, above: 80%}]}\n"
)


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "rule.yaml"
    file.write_text(RULES)
    return str(file)


def run_labeller(*arguments: str) -> tuple[int, str]:
    """Run it without a cluster, so that it ends when it would start."""
    done = CliRunner().invoke(main, ["labeller", "-kubeconfig", "/nonexistent", *arguments])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "flags",
    [
        ["-prom", GONE, "-r", "RULES", "-s", "10", "-webaddr", ":9000"],
        ["--prom", GONE, "--rules", "RULES", "--seconds", "10", "--serve", "127.0.0.1:9000"],
        [f"-prom={GONE}", "-r", "RULES", "-webaddr=:9000"],
        [f"-prom={GONE}", "-r=RULES", "-s=10", "--webaddr=:9000"],
        [f"--prom={GONE}", "--r", "RULES", "--s=10", "--webaddr", ":9000"],
    ],
)
def test_old_flags_and_new_ones(rules: str, flags: list[str]) -> None:
    """All spellings are accepted, and the first line says that nothing is written."""
    code, output = run_labeller(*(flag.replace("RULES", rules) for flag in flags))
    first, *rest = output.splitlines()
    assert 2 == code
    assert first.startswith("trimtab labeller: mode observe: logs changes and writes nothing; add --apply")
    assert "the kubeconfig /nonexistent cannot be read" in "".join(rest)


def test_apply_is_said_too(rules: str) -> None:
    """The first line says so."""
    assert "mode apply: nodes are labelled" in run_labeller("-prom", GONE, "-r", rules, "--apply")[1].splitlines()[0]


def test_a_configuration_of_our_own(tmp_path: Path) -> None:
    """The mode is in the file, and the first line says how to change it."""
    file = tmp_path / "f.yaml"
    file.write_text(TRIMTAB_HEAD + LABELS)
    assert "set labels.mode to apply to label nodes" in run_labeller("--config", str(file))[1].splitlines()[0]
    code, output = run_labeller("--config", str(file), "--apply")
    assert (2, True) == (code, "--apply is for a rule.yaml: with --config, write labels.mode: apply in" in output)


def test_all_is_json_where_the_log_is(tmp_path: Path) -> None:
    """Also the first line, and the error of a process that cannot start."""
    file = tmp_path / "f.yaml"
    file.write_text(TRIMTAB_HEAD + LABELS + "logging: {format: json}\n")
    for name in ("labeller", "run"):
        arguments = [sys.executable, "-m", "trimtab", name, "--config", str(file), "--kubeconfig", "/nonexistent"]
        said = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False).stderr
        lines = [json.loads(line)["message"] for line in said.splitlines()]
        assert "the kubeconfig /nonexistent cannot be read" in lines[-1]
        assert name == "run" or "mode observe" in lines[0]


@pytest.mark.parametrize(
    ("content", "flags", "words"),
    [
        (RULES, (), "no metric source: set -prom http://HOST:9090, or --config FILE"),
        (RULES, ("-prom", "ftp://x"), "-prom"),
        (RULES, ("-prom", GONE, "-s", "0"), "0 is not in the range"),
        (RULES, ("-prom", GONE, "-webaddr", "here:9000"), "'here' is not an IP address"),
        (
            RULES.replace("70", "much"),
            ("-prom", GONE),
            "rule.yaml:2:40: Rulename.Node_mem.Threshold: 'much' is not a number",
        ),
        ("Rulename: [", ("-prom", GONE), "rule.yaml:"),
    ],
)
def test_bad_input_is_refused_at_the_start(
    tmp_path: Path, content: str, flags: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, with field, value and remedy; the default is rule.yaml in the working directory."""
    (tmp_path / "rule.yaml").write_text(content)
    monkeypatch.chdir(tmp_path)
    code, output = run_labeller(*flags)
    assert (2, True) == (code, words in output), output


def test_a_missing_rule_file_is_no_empty_one(tmp_path: Path) -> None:
    """dynamic-Scheduler printed an error and went on."""
    code, output = run_labeller("-prom", GONE, "-r", str(tmp_path / "nothing.yaml"))
    assert (2, True) == (code, "nothing.yaml: cannot be read: No such file or directory" in output)


def test_a_secret_in_the_address_is_not_repeated(rules: str) -> None:
    """The error does not contain it."""
    code, output = run_labeller("-prom", "http://me:hunter2@prom:9090", "-r", rules)
    assert (2, False) == (code, "hunter2" in output)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", Serving(loopback=Address("127.0.0.1", 9000, "--serve"))),
        ("127.0.0.1:9001", Serving(loopback=Address("127.0.0.1", 9001, "-webaddr"))),
        (":9000", Serving(status=Address("0.0.0.0", 9000, "-webaddr"))),
        ("10.0.0.7:9000", Serving(status=Address("10.0.0.7", 9000, "-webaddr"))),
    ],
)
def test_where_it_serves(address: str, expected: Serving) -> None:
    """Loopback, unless the operator asks for another address; that one gets the status pages only."""
    made = command.make_context("labeller", ["-webaddr", address] if address else [])
    flags = {each.parameter: made.params[each.parameter] for each in SERVING_FLAGS}
    assert expected == _read_serving(flags, made.params["address"]).serving(in_cluster=False)


def test_a_package_whose_plugin_is_no_good_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence and with exit code 2, as for every other command."""

    def broken() -> dict[str, type]:
        raise PluginError("the plugin Late of the package late 1.2 cannot be used")

    monkeypatch.setattr("trimtab.apps.plugins.installed_plugins", broken)
    file = tmp_path / "f.yaml"
    file.write_text(TRIMTAB_HEAD + LABELS)
    assert (2, "trimtab: the plugin Late of the package late 1.2 cannot be used.\n") == run_labeller(
        "--config", str(file)
    )


def test_no_traceback_from_a_real_process(rules: str, tmp_path: Path) -> None:
    """As a process of its own, too."""
    command = [sys.executable, "-m", "trimtab", "labeller", "-prom", GONE, "-r", rules]
    environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (2, False) == (done.returncode, "Traceback" in done.stderr)
    assert "no kubeconfig found" in done.stderr


@pytest.mark.parametrize(
    ("flags", "thresholds"),
    [
        (("-cpu", "70"), {"Node_cpu": 70.0, "Node_mem": 80.0}),
        (("-mem=90", "-cmem=2040"), {"Node_cpu": 60.0, "Node_mem": 90.0, "Node_cmem": 2040.0}),
    ],
)
def test_thresholds_of_the_first_version(flags: tuple[str, ...], thresholds: dict[str, float]) -> None:
    """They are rules with queries of their own; memory.available counts below its threshold, the others above."""
    params = command.make_context("labeller", ["-prom", GONE, *flags]).params
    text = dynamic_scheduler_flags.rule_file(params)
    rules = from_rule_file(text, "flags", GONE, 10.0, False).settings.labels
    assert rules is not None
    assert thresholds == {rule.name: rule.threshold for rule in rules.rules}
    below = {rule.name for rule in rules.rules if rule.direction is Direction.BELOW}
    assert thresholds.keys() & {"Node_cmem"} == below


def test_the_job_of_the_first_version() -> None:
    """A matcher in every query of node_exporter, quoted."""
    params = command.make_context("labeller", ["-promjob", 'a"b监控', "-cpu", "1"]).params
    text = dynamic_scheduler_flags.rule_file(params)
    queries = [rule["Promsql"] for rule in json.loads(text)["Rulename"].values()]
    assert 4 == sum(query.count('{job="a\\"b监控"') for query in queries)
    assert "job=" not in dynamic_scheduler_flags.rule_file({**params, "promjob": None})


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-prom", GONE, "-cpu", "70", "-r", "x"), "-cpu, -mem and -cmem are the rules: leave them out, or -r"),
        (("--config", "x", "-cpu", "70"), "-cpu, -mem or -cmem is for a rule.yaml: with --config, write labels.rules"),
        (("-prom", GONE, "-cpu", "170"), "170.0 is not in the range"),
        (("-prom", GONE, "--controllers", "x"), "--controllers: a flag of trimtab run"),
        (("-prom", GONE, "--port=9000"), "--port: use -webaddr HOST:PORT, or --secure-port"),
    ],
)
def test_flags_that_are_refused(flags: tuple[str, ...], words: str) -> None:
    """Exit code 2, with the right one."""
    code, output = run_labeller(*flags)
    assert (2, True) == (code, words in output), output


def test_thresholds_need_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts in an empty folder, as far as the kubeconfig."""
    monkeypatch.chdir(tmp_path)
    code, output = run_labeller("-prom", GONE, "-cpu", "70", "-promjob", "node")
    assert (2, True) == (code, "the kubeconfig /nonexistent cannot be read" in output), output


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["-help"]])
def test_help(arguments: list[str]) -> None:
    """As Go writes it, too."""
    done = CliRunner().invoke(main, ["labeller", *arguments])
    assert (0, True) == (done.exit_code, "Secure serving flags:" in done.output and "-promjob" in done.output)
