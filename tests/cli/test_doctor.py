"""`trimtab doctor`: exit codes, the table, and errors where it cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.config.config_files import HEAD, TRIMTAB_HEAD
from trimtab.apps.doctor import run_checks
from trimtab.apps.doctor.finding import Area, Finding, ok, problem, warning
from trimtab.apps.doctor.run_checks import DoctorRun
from trimtab.cli import main

WELL = ok(Area.SERVER, "https://x", "answers, v1.35.8")
ODD = warning(Area.NODES, "cpu", "too old for 1 of 9 nodes: a (400 s)", "see whether they are still scraped")
ILL = problem(Area.RIGHTS, "pods", "ann may not list them \x1b[2J", "apply deploy/rbac.yaml")
KUBECONFIG = {
    "apiVersion": "v1",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "k",
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(KUBECONFIG))
    return str(file)


def run_doctor(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["doctor", *arguments])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("found", "flags", "code"),
    [
        ([WELL], (), 0),
        ([ODD, WELL], (), 0),
        ([ODD, WELL], ("--strict",), 1),
        ([ILL], (), 1),
        ([ILL], ("--json",), 1),
        ([WELL], ("--strict", "--json"), 0),
    ],
)
def test_exit_codes(
    found: list[Finding], flags: tuple[str, ...], code: int, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 with problems; with warnings only if --strict."""
    monkeypatch.setattr(run_checks, "run", lambda case, credentials: tuple(found))
    assert code == run_doctor("--kubeconfig", kubeconfig, *flags)[0]


def test_the_table(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One finding a line with its remedy below, no control characters, and the counts at the end."""
    monkeypatch.setattr(run_checks, "run", lambda case, credentials: (ILL, ODD, WELL))
    assert [
        r"PROBLEM  rights        pods: ann may not list them \x1b[2J",
        "                       → apply deploy/rbac.yaml",
        "warning  nodes         cpu: too old for 1 of 9 nodes: a (400 s)",
        "                       → see whether they are still scraped",
        "ok       API server    https://x: answers, v1.35.8",
        "1 problem, 1 warning, 1 ok",
    ] == run_doctor("--kubeconfig", kubeconfig)[1].splitlines()


def test_json(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for scripts, with every node that is concerned."""
    monkeypatch.setattr(run_checks, "run", lambda case, credentials: (replace(ODD, nodes=("a", "b")),))
    document = json.loads(run_doctor("--kubeconfig", kubeconfig, "--json")[1])
    assert {"problem": 0, "warning": 1, "ok": 0} == document["counts"]
    assert (["a", "b"], "nodes", "cpu") == tuple(document["findings"][0][key] for key in ("nodes", "area", "subject"))


def test_a_server_that_is_gone(kubeconfig: str) -> None:
    """A problem like others, and no traceback."""
    code, output = run_doctor("--kubeconfig", kubeconfig)
    assert (1, True) == (code, "http://127.0.0.1:9: cannot be reached: no connection" in output)


@pytest.mark.parametrize(
    ("content", "flags", "words"),
    [
        (HEAD + "profils: []\n", (), "unknown field (did you mean profiles?)"),
        (TRIMTAB_HEAD, ("--labeller",), "labels: is missing"),
        ("", (), "f.yaml"),
    ],
)
def test_a_bad_configuration_cannot_be_looked_at(
    content: str, flags: tuple[str, ...], words: str, tmp_path: Path, kubeconfig: str
) -> None:
    """Exit code 2 with field, value and remedy."""
    file = tmp_path / "f.yaml"
    file.write_text(content)
    code, output = run_doctor("--config", str(file), "--kubeconfig", kubeconfig, *flags)
    assert (2, True) == (code, words in output), output


def test_without_a_cluster_there_is_nothing_to_look_at() -> None:
    """Exit code 2, too."""
    code, output = run_doctor("--kubeconfig", "/nonexistent")
    assert (2, True) == (code, "the kubeconfig /nonexistent cannot be read" in output)


def test_a_labeller_is_described_in_a_file(kubeconfig: str) -> None:
    """Without one there are no rules."""
    code, output = run_doctor("--kubeconfig", kubeconfig, "--labeller")
    assert (2, True) == (code, "--labeller needs --config FILE" in output)


RULES = "Rulename: {Node_mem: {Promsql: used, Threshold: 70}}\n"


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "rule.yaml"
    file.write_text(RULES)
    return str(file)


@pytest.mark.parametrize(("flags", "applies"), [((), False), (("--apply", "--lease-namespace", "mine"), True)])
def test_the_flags_of_the_labeller(
    flags: tuple[str, ...], applies: bool, rules: str, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor takes the labeller's flags: URL, rule.yaml, seconds, and --apply."""
    seen: list[DoctorRun] = []
    monkeypatch.setattr(run_checks, "run", lambda case, credentials: seen.append(case) or ())
    code, output = run_doctor("-kubeconfig", kubeconfig, "-prom", "http://p:9090", "-r", rules, "-s", "7", *flags)
    assert 0 == code, output
    (case,) = seen
    labels, (source,) = case.configuration.trimtab.labels, case.configuration.trimtab.sources
    assert labels is not None and (["Node_mem"], applies) == ([rule.name for rule in labels.rules], labels.apply)
    assert (7.0, ()) == (source.interval, case.configuration.settings.profiles)
    assert (applies, "mine" if applies else "trimtab") == (
        case.configuration.leader_election.enabled,
        case.configuration.leader_election.namespace,
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-r", "RULES"), "no metric source: set -prom"),
        (("-prom", "ftp://x", "-r", "RULES"), "-prom"),
        (("-prom", "http://p:9090", "-r", "/nonexistent.yaml"), "/nonexistent.yaml: cannot be read"),
        (("--config", "RULES", "-s", "7"), "add --labeller, or remove them"),
    ],
)
def test_flags_that_make_no_sense_together(flags: tuple[str, ...], words: str, rules: str, kubeconfig: str) -> None:
    """Exit code 2, with the labeller's own message."""
    code, output = run_doctor("--kubeconfig", kubeconfig, *(rules if flag == "RULES" else flag for flag in flags))
    assert (2, True) == (code, words in output), output
