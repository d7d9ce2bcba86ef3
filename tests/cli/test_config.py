"""`trimtab config`: its output and exit codes."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.config.config_files import FULL, HEAD
from tests.config.descheduler.policies import LOW_NODE_UTILIZATION, policy
from trimtab.cli import main
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.labeller import from_rule_file, labeller_configuration


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


RULES = """\
PromJob: {Name: nodes}
Rulename:
  Node_cpu1: {Promsql: "100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode='idle'}[1m])))", Threshold: 70}
  节点内存: {Promsql: used_percent, Threshold: "80.5"}
"""
URL = "http://prometheus:9090"


def test_rule_file(tmp_path: Path) -> None:
    """A rule.yaml is checked, and said what runs it."""
    file = written(tmp_path, RULES)
    result = ran("config", "check", file)
    assert (0, "") == (result.exit_code, result.stderr)
    assert [
        f"{file}: valid; rules of dynamic-Scheduler: Node_cpu1, 节点内存",
        f"Run them with `trimtab labeller -prom URL -r {file}`.",
    ] == result.stdout.splitlines()


def test_converted_rule_file(tmp_path: Path) -> None:
    """As a TrimtabConfiguration a labeller runs it as it ran the rule.yaml; names that are not allowed are replaced."""
    file = written(tmp_path, RULES)
    shown = ran("config", "show", file, "-prom", URL).stdout
    converted = labeller_configuration(parse(shown, "shown.yaml"), "shown.yaml")
    original = from_rule_file(RULES.replace("节点内存", "rule"), file, URL, 10.0, apply=False)
    assert original.trimtab == converted.trimtab
    assert original.settings.labels == converted.settings.labels
    assert "# mode: observe only logs" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "names no Prometheus: add -prom http://HOST:9090"),
        (("-prom", "prometheus:9090"), "is not a URL"),
        (("-prom=http://me:secret@prometheus",), "contains a username or password"),
    ],
)
def test_conversion_needs_a_prometheus(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """A rule.yaml names no source, so a flag has to."""
    result = ran("config", "show", written(tmp_path, RULES), *arguments)
    assert (2, "") == (result.exit_code, result.stdout)
    assert words in result.stderr
    assert "secret" not in result.stderr


def test_flag_of_a_rule_file(tmp_path: Path) -> None:
    """-prom next to another file would be ignored, so it is refused."""
    result = ran("config", "show", written(tmp_path, HEAD), "-prom", URL)
    assert (2, True) == (result.exit_code, "-prom is for a rule.yaml" in result.stderr)


@pytest.mark.parametrize("verb", ["check", "show"])
def test_bad_rule_file(tmp_path: Path, verb: str) -> None:
    """The problems of a rule.yaml have their positions, as those of any file."""
    file = written(tmp_path, "Rulename:\n  a: {Promsql: up, Treshold: 70}\n")
    result = ran("config", verb, file)
    assert 2 == result.exit_code
    assert f"{file}:2:20: Rulename.a.Treshold: unknown field (did you mean Threshold?)" in result.stderr


def test_key_of_a_config_map(tmp_path: Path) -> None:
    """--key chooses among several configurations of a manifest; without it they are listed."""
    data = {"a.yaml": HEAD, "b.yaml": HEAD + "profiles: [{schedulerName: bee}]\n"}
    file = written(tmp_path, yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": data}))
    assert "profiles: bee;" in ran("config", "check", file, "--key", "b.yaml").stdout
    assert "schedulerName: bee" in ran("config", "show", "--key=b.yaml", file).stdout
    refused = ran("config", "check", file)
    assert (2, True) == (refused.exit_code, "several configurations, a.yaml, b.yaml" in refused.stderr)


def test_convert(tmp_path: Path) -> None:
    """A policy becomes a configuration, with what is not supported as comments; --rival runs it by its own rules."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy("gracePeriodSeconds: 3\n", LowNodeUtilization=LOW_NODE_UTILIZATION))
    for flags, name in ((), "ResourceOptimization"), (("--rival",), "DeschedulerLowNodeUtilization"):
        done = CliRunner().invoke(main, ["config", "convert", str(file), *flags])
        assert 0 == done.exit_code and f"# {file}:3:21: gracePeriodSeconds: not supported: " in done.stdout, done.output
        section = parse(done.stdout, "f.yaml").settings.rescheduling
        assert section is not None and [name] == [each.name for each in section.strategies]


def test_convert_what_is_invalid(tmp_path: Path) -> None:
    """Exit code 2, with file, line and remedy; other commands say which one reads a policy."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy(LowNodeUtilization="{}"))
    done = CliRunner().invoke(main, ["config", "convert", str(file)])
    assert (2, "") == (done.exit_code, done.stdout)
    assert f"{file}:7:38: profiles[0].pluginConfig[0].args: thresholds is missing: write perc" in done.stderr
    done = CliRunner().invoke(main, ["config", "check", str(file)])
    assert 2 == done.exit_code and f"`trimtab config convert {file}` prints settings with the same" in done.stderr
