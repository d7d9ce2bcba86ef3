"""`trimtab shadow`: flags, exit codes, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from tests.build import node, pod
from tests.cli.test_doctor import kubeconfig as kubeconfig
from tests.config.config_files import HEAD
from tests.sim.shadow.test_report import POLICY, world
from tests.sim.shadow.test_shadow import World
from trimtab.apps import shadow as shadow_app
from trimtab.apps.shadow import ShadowOptions
from trimtab.cli import main
from trimtab.cli.shadow_text import render
from trimtab.kube.preflight import PreflightError
from trimtab.sim.shadow.report import make_report


def run_shadow(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["shadow", *arguments])
    return done.exit_code, done.output


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(f"{HEAD}profiles:\n- schedulerName: mine\n")
    return str(file)


@pytest.mark.parametrize("as_json", [True, False])
def test_flags(policy: str, kubeconfig: str, as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options reach the process, and its reports are printed as a table or as JSON."""
    seen: list[ShadowOptions] = []

    def run(configuration: Any, credentials: Any, options: ShadowOptions) -> int:
        seen.append(options)
        options.on_report(make_report(world().shadow, POLICY, 1.0, 9.0, 8.0, finished=True))
        return 0

    monkeypatch.setattr(shadow_app, "run", run)
    flags = ["--policy", policy, "--kubeconfig", kubeconfig, "--for", "24h", "--out", str(tmp_path / "o.json")]
    flags.append("--cumulative")
    code, output = run_shadow(*flags, *(["--json"] if as_json else []))
    assert 0 == code, output
    assert (86400.0, tmp_path / "o.json", ("mine",)) == (seen[0].duration, seen[0].out, seen[0].policy.profiles)
    assert seen[0].policy.cumulative
    if as_json:
        assert 1 == json.loads(output)["summary"]["different"]
    else:
        assert "       1  pods decided\n" in output


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "Missing option '--policy'"),
        (("--policy", "{tmp}/none.yaml"), "none.yaml: cannot be read: No such file or directory"),
        (("--policy", "{policy}", "--for", "soon"), "'soon' is not a duration"),
        (("--policy", "{policy}", "--for", "0s"), "must be above 0s"),
        (("--policy", "{policy}", "--out", "{tmp}/x/out.json"), "there is no directory"),
        (("--policy", "{policy}", "--out", "{tmp}"), "is a directory"),
        (("--policy", "{policy}", "--kubeconfig", "{tmp}/none"), "trimtab: "),
        (
            ("--policy", "{policy}", "--kubeconfig", "{kubeconfig}", "--out", "{policy}"),
            "choose another file, or remove",
        ),
        (("--policy", "{kubeconfig}"), "kubeconfig"),
    ],
)
def test_bad_input(flags: tuple[str, ...], message: str, tmp_path: Path, policy: str, kubeconfig: str) -> None:
    """Exit code 2, and a sentence that says what is wrong."""
    code, output = run_shadow(*(each.format(tmp=tmp_path, policy=policy, kubeconfig=kubeconfig) for each in flags))
    assert 2 == code and message in output and "Traceback" not in output


def test_failures(policy: str, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1."""

    def run(*arguments: Any) -> int:
        raise PreflightError("the API server forbids listing /api/v1/nodes")

    monkeypatch.setattr(shadow_app, "run", run)
    code, output = run_shadow("--policy", policy, "--kubeconfig", kubeconfig)
    assert 1 == code and "trimtab: the API server forbids listing /api/v1/nodes." in output


def test_the_table() -> None:
    """Counts with their shares, both sides of the load, and the differences."""
    lines = [*render(make_report(world().shadow, POLICY, 1.0, 9.0, 3720.0, finished=True))]
    assert [
        "shadow of policy.yaml (profiles: policy), watched for 62m",
        "       1  pods decided",
        "       0  same node  (0.0 %)",
        "       0  equally good node  (0.0 %)",
        "       1  different node  (100.0 %)",
        "       0  would be pending  (0.0 %)",
        "       1  of these decided when they were seen bound",
        "load                                real      shadow",
        "cpu node-minutes >= 80 %             1.0         0.0",
        "cpu node-minutes >= 90 %             1.0         0.0",
        "cpu node-minutes >= 100 %            0.0         0.0",
        "cpu spread                        40.0 %       2.5 %",
        "cpu hottest node                  90.0 %      40.0 %",
        "                                       b           b",
        "the shadow's load is too high on nodes that stay quiet in reality, as placements do not add up: see --cumulative",
        "default/web: b, would be a",
    ] == lines
    cumulative = structs.replace(POLICY, cumulative=True)
    assert lines[-2] not in [*render(make_report(world().shadow, cumulative, 1.0, 9.0, 3720.0, finished=True))]


def test_a_table_without_anything() -> None:
    """No division by zero, and no load that was not measured."""
    lines = [*render(make_report(World(node("a")).shadow, POLICY, 1.0, 9.0, 0.0, finished=False))]
    assert "       0  same node" in lines
    cumulative = structs.replace(POLICY, cumulative=True)
    (first, *_) = render(make_report(World(node("a")).shadow, cumulative, 1.0, 9.0, 0.0, finished=False))
    assert "shadow of policy.yaml (profiles: policy, cumulative), watched for 0s" == first
    assert "load: not measured; the policy names no metric source, or it returned nothing" == lines[-1]


def test_many_differences() -> None:
    """The newest are shown; a pod that would be pending says why."""
    found = World(node("a", cpu="1"))
    for index in range(25):
        found.see(pod(f"web-{index}", cpu="2", on="a"))
    lines = [*render(make_report(found.shadow, POLICY, 1.0, 9.0, 0.0, finished=True))]
    assert "and 5 more: see --out" == lines[-1]
    assert "default/web-24: a, would be pending: 0/1 nodes are available: 1 Insufficient cpu." in lines[-2]
