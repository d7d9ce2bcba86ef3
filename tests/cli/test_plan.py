"""`trimtab plan`: what is printed, what is written, and exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from tests.apps.plan.hot_cluster import BUDGETS, CPU, HOT, PODS, hot_cluster, running, usage_of
from tests.cli.test_doctor import kubeconfig as kubeconfig
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.config.descheduler.policies import koordinator, policy
from tests.sim.snapshot_clusters import budget
from trimtab.cli import main
from trimtab.cli import plan as plan_command
from trimtab.core.rescheduling import exact
from trimtab.sim.snapshot_document import Usage
from trimtab.sim.snapshot_file import read_snapshot

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rescheduling.md"


def plan(folder: Path, *flags: str, **options: Any) -> Result:
    """Of a snapshot of two nodes of four cores, of which one is hot."""
    return CliRunner().invoke(main, ["plan", "--snapshot", str(hot_cluster(folder, **options)), *flags])


def written(folder: Path, content: str, name: str = "config.yaml") -> str:
    file = folder / name
    file.write_text(content)
    return str(file)


def test_moves(tmp_path: Path) -> None:
    """Exit code 2; the plan is on standard output, without colours, and nothing else is."""
    done = plan(tmp_path)
    assert (2, "") == (done.exit_code, done.stderr), done.output
    assert "Trimtab would move 1 pod of " in done.stdout and "\n  ~ shop/web-0  n-1 → n-2\n" in done.stdout
    assert "\x1b" not in done.stdout


def test_nothing_to_move(tmp_path: Path) -> None:
    """Exit code 0, and one line that says why."""
    done = plan(tmp_path, usage=usage_of(PODS, dict.fromkeys(CPU, 100.0)))
    assert 0 == done.exit_code, done.output
    assert (
        "\nNothing to move: every node is below its limits (highest: cpu 15% on n-1, memory 12% on n-1).\n"
        in done.stdout
    )


def test_why_not(tmp_path: Path) -> None:
    """A budget that allows no eviction is named, with the pods that it keeps."""
    pods = [running(f"web-{number}", HOT, owner="web") for number in range(4)]
    objects = {"poddisruptionbudgets": [budget("keep", "web", 0)]}
    done = plan(tmp_path, "--why-not", pods=pods, objects=objects)
    assert 0 == done.exit_code, done.output
    assert "  disruption budget (4)\n    shop/web-0: disruption budget shop/keep allows no eviction\n" in done.stdout
    assert "Refused: 4 by disruption budget. --why-not" in plan(tmp_path, pods=pods, objects=objects).stdout


def test_a_node(tmp_path: Path) -> None:
    """Its usage against its limits, what suggests it, and the outlook of each pod."""
    done = plan(tmp_path, "--node", HOT)
    assert 2 == done.exit_code, done.output
    explained = done.stdout.partition("\nnode n-1\n")[2].splitlines()
    assert (
        "rescheduling (observe): shop/web-0 should move to n-2, unless moves of other nodes gain more" == explained[0]
    )
    assert explained[1].startswith("  usage and limits: cpu 95% of 80%, memory 12% of 90%, penalty ")
    assert "  suggested by ResourceOptimization: cpu at 95%, above 80%" == explained[2]
    assert explained[3].startswith("  pod shop/web-0: may be moved, best to n-2: gain ")


def test_an_exact_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without HiGHS the remedy is named, and nothing is planned in another way."""
    done = plan(tmp_path, "--exact")
    assert (2, "") == (done.exit_code, done.stderr), done.output
    assert "Trimtab would move 1 pod of " in done.stdout
    monkeypatch.setattr(exact, "MOST_CONFIGURATIONS", 1)
    done = plan(tmp_path, "--exact")
    assert (1, "") == (done.exit_code, done.stdout)
    assert "more than 1 ways in which 4 pods could share 2 nodes, too many for an exact plan" in done.stderr
    monkeypatch.setitem(sys.modules, "highspy", None)
    done = plan(tmp_path, "--exact")
    assert (1, "") == (done.exit_code, done.stdout)
    assert (
        "trimtab: nothing is planned: the package highspy is not installed: run `pip install 'trimtab[optimal]'`, or leave "
        "out --exact\n"
    ) == done.stderr


def test_json_and_file(tmp_path: Path) -> None:
    """The document is printed, and written for its owner alone; the exit code is the same."""
    file = tmp_path / "plan.json"
    done = plan(tmp_path, "--json", "-o", str(file))
    assert 2 == done.exit_code, done.output
    shown, kept = json.loads(done.stdout), json.loads(file.read_text())
    assert shown["moves"] == kept["moves"] and "Plan" == kept["kind"]
    assert [("shop/web-0", "pod-web-0", "41")] == [
        (each["pod"], each["uid"], each["resourceVersion"]) for each in kept["moves"]
    ]
    assert ("cluster-uid", 0o600) == (kept["metadata"]["cluster"], file.stat().st_mode & 0o777)


def test_configuration(tmp_path: Path) -> None:
    """Limits and exclusions of the file count; `auto` is as good as `observe` here."""
    excluded = f"{TRIMTAB_HEAD}rescheduling: {{mode: auto, excludedNamespaces: [shop]}}\n"
    done = plan(tmp_path, "--why-not", "--config", written(tmp_path, excluded))
    assert 0 == done.exit_code and "excluded namespace (4)" in done.stdout, done.output
    higher = f"{TRIMTAB_HEAD}rescheduling: {{limits: {{cpu: 97}}}}\n"
    done = plan(tmp_path, "--config", written(tmp_path, higher))
    assert 0 == done.exit_code and "97%    0 → 0" in done.stdout, done.output


NETWORK = """\
sources:
- name: main
  prometheus:
    url: http://prometheus:9090
    queries: [{name: network, of: pods, query: "sum by (namespace, pod) (network_bytes)"}]
rescheduling:
  limits: {network: {limit: 70, capacity: 1000}}
"""


def with_network(usage: Usage, used: Mapping[str, float]) -> Usage:
    pods = {
        key: replace(each, custom={"network": used[name]} if (name := key.partition("/")[2]) in used else {})
        for key, each in usage.pods.items()
    }
    return replace(usage, pods=pods)


def test_a_limit_of_a_metric_of_pods(tmp_path: Path) -> None:
    """Calm by CPU and memory, but the network is full: a pod moves, and the table has the resource. Where no pod has the
    metric nothing is planned."""
    config = written(tmp_path, TRIMTAB_HEAD + NETWORK)
    calm = usage_of(PODS, dict.fromkeys(CPU, 100.0))
    full = with_network(calm, {"web-0": 400.0, "web-1": 400.0, "web-2": 10.0, "calm": 50.0})
    options = {"usage": full, "history": None}
    done = plan(tmp_path, "--config", config, **options)
    assert 2 == done.exit_code, done.output
    assert "\n      why     ResourceOptimization: network at 81%, above 70%\n" in done.stdout
    assert "\nnetwork       81% n-1  45% n-2  70%    1 → 0\n" in done.stdout
    assert 0 == plan(tmp_path, **options).exit_code
    unknown = plan(tmp_path, "--config", config, usage=calm, history=None)
    assert 1 == unknown.exit_code
    assert "the usage of 2 of 2 nodes is unknown (2 without network of their pods, or its capacity)" in unknown.stderr


def test_another_scheduler(tmp_path: Path) -> None:
    """Its file says where its pods fit."""
    pods = [running(f"web-{number}", HOT, schedulerName="batch") for number in range(4)]
    file = written(tmp_path, f"{HEAD}profiles: [{{schedulerName: batch}}]\n")
    assert 0 == plan(tmp_path, pods=pods).exit_code
    assert 2 == plan(tmp_path, "--scheduler-config", f"batch={file}", pods=pods).exit_code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"usage": None, "notes": ("source a failed",)},
            "note: source a failed\ntrimtab: nothing is planned: nothing was",
        ),
        (
            {"missing": ("statefulsets",)},
            "trimtab: nothing is planned: statefulsets could not be listed: grant the verb",
        ),
    ],
)
def test_nothing_is_planned(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Exit code 1: without metrics, or without what guards read, there is no answer."""
    done = plan(tmp_path, **options)
    assert (1, "") == (done.exit_code, done.stdout)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--config", "BAD"), "bad.yaml:3:24: rescheduling.limits: expected a mapping, got the number 3"),
        (
            ("--config", "RIVAL"),
            "nothing is planned: KoordinatorLowNodeLoad is run for comparison in trimtab simulate only; --descheduler-pol",
        ),
        (("--descheduler-policy", "/nonexistent"), "--descheduler-policy: /nonexistent: cannot be read: No such file"),
        (
            ("--descheduler-policy", "GOOD"),
            "good.yaml:1:1: this is a KubeSchedulerConfiguration, not the policy of a desch",
        ),
        (("--config", "/nonexistent"), "/nonexistent: cannot be read: No such file or directory"),
        (("--scheduler-config", "batch"), "trimtab: --scheduler-config: 'batch' is not NAME=FILE, such as"),
        (("--scheduler-config", "batch=GOOD"), "good.yaml has no profile batch: it has default-scheduler"),
        (("--scheduler-config", "default-scheduler=GOOD") * 2, "default-scheduler is given twice: leave one out"),
        (("--snapshot", "GOOD"), "good.yaml: is not JSON"),
        (("--snapshot", "/nonexistent"), "trimtab: /nonexistent: cannot be read: No such file or directory"),
        (("-o", "/nonexistent/plan.json"), "-o: /nonexistent/plan.json cannot be written: there is no directory"),
        (("--node", "n-9"), "trimtab: nothing is planned: --node: there is no node n-9"),
        (("--node", "n-1", "--json"), "trimtab: --node is for people: leave out --json"),
        (("--node", "n-1", "--descheduler-policy", "x"), "--node explains plans of Trimtab: leave out --descheduler"),
        (("--whynot",), "No such option '--whynot'"),
        (("-whynot",), "No such option -whynot"),
        (("--kubeconfig",), "Option '--kubeconfig' requires an argument"),
    ],
)
def test_bad_input(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """Exit code 1, because 2 says that there are moves; the message names the file or the flag, and there is no traceback."""
    good = written(tmp_path, HEAD, "good.yaml")
    bad = written(tmp_path, f"{TRIMTAB_HEAD}rescheduling: {{limits: 3}}\n", "bad.yaml")
    rival = written(tmp_path, f"{TRIMTAB_HEAD}rescheduling: {{strategies: [KoordinatorLowNodeLoad]}}\n", "rival.yaml")
    files = {"GOOD": good, "BAD": bad, "RIVAL": rival}
    done = plan(tmp_path, *(re.sub("GOOD|BAD|RIVAL", lambda found: files[found[0]], each) for each in flags))
    assert (1, "") == (done.exit_code, done.stdout)
    assert message in done.stderr and "Traceback" not in done.stderr


LOW_NODE_UTILIZATION = "{thresholds: {cpu: 50}, targetThresholds: {cpu: 80}, metricsUtilization: {metricsServer: true}}"
LOW_NODE_LOAD = "{lowThresholds: {cpu: 50, memory: 50}, highThresholds: {cpu: 80, memory: 80}}"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (
            policy("metricsCollector: {enabled: true}\n", LowNodeUtilization=LOW_NODE_UTILIZATION),
            "DeschedulerLowNodeUtilization",
        ),
        (
            koordinator(MigrationController="{skipCheckExpectedReplicas: true}", LowNodeLoad=LOW_NODE_LOAD),
            "KoordinatorLowNodeLoad",
        ),
    ],
)
def test_what_a_descheduler_would_evict(content: str, name: str, tmp_path: Path) -> None:
    """By its own rules: exit code 2 and each pod, without a target; with higher thresholds nothing, and exit code 0."""
    done = plan(tmp_path, "--descheduler-policy", written(tmp_path, content, "policy.yaml"))
    assert 2 == done.exit_code, done.output
    assert done.stdout.startswith(f"{name} would evict 1 pod of ")
    assert "\n  - shop/web-0  leaves n-1: n-1 is overutilized\n" in done.stdout and "gain" not in done.stdout
    calm = written(tmp_path, content.replace("80", "99"), "calm.yaml")
    done = plan(tmp_path, "--descheduler-policy", calm)
    assert 0 == done.exit_code and f"{name} would evict no pod of " in done.stdout, done.output


def test_what_is_not_supported_of_a_policy(tmp_path: Path) -> None:
    """A note on standard error, with its place."""
    content = policy(
        "gracePeriodSeconds: 3\n", LowNodeUtilization="{thresholds: {cpu: 50}, targetThresholds: {cpu: 80}}"
    )
    done = plan(tmp_path, "--descheduler-policy", written(tmp_path, content, "policy.yaml"))
    assert "policy.yaml:3:21: gracePeriodSeconds: not supported: " in done.stderr and done.stderr.startswith("note: ")


def test_the_live_cluster(tmp_path: Path, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --snapshot the cluster is read; what is read of it is planned with."""
    found = read_snapshot(hot_cluster(tmp_path))
    monkeypatch.setattr("trimtab.apps.plan.cluster.read_cluster", lambda options, credentials: found)
    done = CliRunner().invoke(main, ["plan", "--kubeconfig", kubeconfig])
    assert 2 == done.exit_code, done.output
    assert done.stdout.startswith("Trimtab would move 1 pod of the cluster (2 nodes, 5 pods)")


def test_a_cluster_that_does_not_answer(kubeconfig: str) -> None:
    """Exit code 1 and one sentence."""
    done = CliRunner().invoke(main, ["plan", "--kubeconfig", kubeconfig])
    assert (1, "") == (done.exit_code, done.stdout)
    assert done.stderr.startswith("trimtab: the API server cannot be reached: ")


def test_an_interrupt_is_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130."""

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan_command, "_cluster", interrupted)
    done = plan(tmp_path)
    assert (130, "") == (done.exit_code, done.stdout)
    assert "trimtab: interrupted: there is no plan" in done.stderr


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/rescheduling.md shows what is printed."""
    more = [running("db-0", HOT, "db", kind="StatefulSet"), running("agent-1", HOT, "agent", kind="DaemonSet")]
    pods, cpu = [*PODS, *more], {**CPU, "web-3": 500.0, "db-0": 300.0, "agent-1": 100.0}
    hot_cluster(tmp_path, pods, cpu, objects={"poddisruptionbudgets": [*BUDGETS, budget("db", "db", 0)]})
    monkeypatch.chdir(tmp_path)
    shell, shown = re.findall(
        r"```console\n\$ trimtab (plan --snapshot [^\n]*)\n(.*?)```", PAGE.read_text(), re.DOTALL
    )[0]
    assert shown == CliRunner().invoke(main, shell.split()).stdout


def test_the_example_of_the_page_on_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/migrating-from-descheduler.md shows what its own policy would evict."""
    page = PAGE.with_name("migrating-from-descheduler.md").read_text()
    hot_cluster(tmp_path)
    written(tmp_path, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0], "policy.yaml")
    monkeypatch.chdir(tmp_path)
    ((shell, shown),) = re.findall(r"```console\n\$ trimtab (plan --snapshot [^\n]*)\n(.*?)```", page, re.DOTALL)
    assert shown == CliRunner().invoke(main, shell.split()).stdout


def test_colours_on_a_terminal(tmp_path: Path) -> None:
    """Only there."""
    script = (
        "import sys; sys.stdout.isatty = lambda: True; from trimtab.cli import main; "
        f"main(['plan', '--snapshot', {str(hot_cluster(tmp_path))!r}])"
    )
    shown = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=shown, check=False)
    assert 2 == done.returncode, done.stderr
    assert "\x1b[1mshop/web-0\x1b[0m" in done.stdout
