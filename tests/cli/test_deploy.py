"""`trimtab deploy` without a cluster: bad flags and files, an API server that does not answer, and the rendered YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.apps.deploy.object_server import ObjectServer
from tests.cli.test_replaced_systems import TEMPLATES, rescheduler
from tests.config.config_files import TRIMTAB_HEAD
from trimtab.apps import plugins
from trimtab.apps.deploy.api_client import ApiClient, DeployError
from trimtab.cli import main
from trimtab.cli.deploy.check import check_options
from trimtab.cli.deploy.connection import confirm
from trimtab.core.plugins.node_name import NodeName

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GANG = "{disabled: [{name: PrioritySort}], enabled: [{name: Coscheduling}]}"
POLICY = """\
apiVersion: scheduler.policy.crane.io/v1alpha1
kind: DynamicSchedulerPolicy
spec:
  syncPolicy: [{name: cpu_usage_avg_5m, period: 3m}]
  predicate: [{name: cpu_usage_avg_5m, maxLimitPecent: 0.65}]
  priority: [{name: cpu_usage_avg_5m, weight: 1.0}]
"""
DYNAMIC = f"""\
{HEAD}profiles:
- schedulerName: a
  plugins: {{{{multiPoint: {{{{enabled: [{{{{name: Dynamic}}}}]}}}}}}}}
  pluginConfig: [{{{{name: Dynamic, args: {{{{policyConfigPath: {{}}}}}}}}}}]
"""
RULES = """\
apiVersion: trimtab.dev/v1alpha1
kind: TrimtabConfiguration
sources: [{name: m, metricsServer: {}}]
labels: {mode: apply, rules: [{name: cpu, metric: cpu, above: 85%}]}
"""


def deploy(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["deploy", *arguments])


@pytest.fixture
def unreachable(tmp_path: Path) -> str:
    """A kubeconfig of a server that refuses connections."""
    named = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("one", "two")],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "one", **named}))
    return str(path)


def test_a_template_that_does_not_exist() -> None:
    """The nearest name, and all of them."""
    done = deploy("install", "-c", "prodution", "--yes")
    assert 2 == done.exit_code
    assert "trimtab: -c 'prodution' is neither a template (did you mean production?) nor a file; " in done.stderr
    assert "the templates are default, production, development, hpc, memory, microservices, multitenant." in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "f.yaml:2:1: not YAML"),
        (f"{HEAD}profilez: []", "f.yaml:3:1: profilez"),
        (
            f"{HEAD}clientConnection: {{kubeconfig: /etc/kubernetes/scheduler.conf}}",
            "which does not exist in a pod: remove it",
        ),
    ],
)
def test_a_file_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    """Every problem is printed with its position, and nothing is sent anywhere."""
    (tmp_path / "f.yaml").write_text(text)
    done = deploy("install", "-c", str(tmp_path / "f.yaml"), "--yes")
    assert (2, True) == (done.exit_code, message in done.stderr), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--image", "a:1", "-t", "2"), "the image a has a tag or digest already: leave out -t"),
        (("--image", f"a@sha256:{'0' * 64}", "-t", "2"), "has a tag or digest already"),
        (("--image", "a b"), "--image 'a b' is not the name of an image"),
        (("--image", ""), "is not the name of an image"),
        (("--image", "UPPER/x:1:2"), "--image 'UPPER/x:1:2' is not the name of an image"),
        (("-t", "bad tag!"), "-t 'bad tag!' is not a tag"),
        (("-c", ""), "-c '' is neither a template nor a file"),
        (("-n", "a.b"), "'a.b' is not the name of a namespace"),
        (("--runbook-url-base", "a b"), "'a b' is not the beginning of a URL"),
        (("-n", "Mine_"), "'Mine_' is not the name of a namespace: use a-z, 0-9 and '-', 63 at most"),
        (("--timeout", "soon"), "'soon' is not a duration such as 300 or 5m"),
        (("--timeout", "0"), "'0' is not a duration"),
    ],
)
def test_flags_that_are_wrong(arguments: tuple[str, ...], message: str, unreachable: str) -> None:
    """One sentence, exit code 2."""
    done = deploy("install", "--yes", "--kubeconfig", unreachable, *arguments)
    assert (2, True) == (done.exit_code, message in done.stderr), done.stderr


@pytest.mark.parametrize("command", ["install", "upgrade", "status", "logs", "test", "uninstall"])
def test_a_cluster_that_does_not_answer(command: str, unreachable: str) -> None:
    """The address, the context and the reason; exit code 1."""
    done = deploy(command, "--kubeconfig", unreachable, "--context", "two")
    assert 1 == done.exit_code
    assert "the API server http://127.0.0.1:1 (context 'two' of " in done.stderr
    assert "cannot be reached: no connection to 127.0.0.1:1: Connection refused: check its address" in done.stderr


def test_no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Says where it was searched; exit code 2."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = deploy("status")
    assert (2, True) == (done.exit_code, "no kubeconfig found: tried KUBECONFIG" in done.stderr)


def test_manifests_are_printed_as_yaml() -> None:
    """The same objects that install would apply; a tag alone keeps the image's name."""
    done = deploy("manifests", "-n", "mine", "-c", "production", "-t", "next", "--labeller")
    assert 0 == done.exit_code
    items = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    deployment = items["Deployment", "trimtab"]
    assert "trimtab:next" == deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    text = items["ConfigMap", "trimtab"]["data"]["config.yaml"]
    assert (True, True) == (text.startswith("# production: conservative"), '"resourceNamespace": "mine"' in text)
    assert ("Deployment", "trimtab-labeller") in items


@pytest.mark.parametrize(
    ("text", "present", "absent"),
    [
        (
            f"{HEAD}profiles: [{{schedulerName: a, plugins: {{multiPoint: {GANG}}}}}]",
            [("ClusterRole", "trimtab-gang"), ("CustomResourceDefinition", "podgroups.scheduling.x-k8s.io")],
            [("Role", "trimtab-default-scheduler-lease")],
        ),
        (
            f"{HEAD}profiles: [{{schedulerName: default-scheduler}}]",
            [("Role", "trimtab-default-scheduler-lease")],
            [("ClusterRole", "trimtab-gang")],
        ),
    ],
)
def test_a_configuration_brings_what_it_needs(
    text: str, present: list[tuple[str, str]], absent: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Roles and kinds without which its plugins or its profile could not run."""
    (tmp_path / "f.yaml").write_text(text)
    done = deploy("manifests", "-n", "mine", "-c", str(tmp_path / "f.yaml"))
    assert 0 == done.exit_code, done.output
    items = {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(done.stdout)}
    assert ([], []) == ([each for each in present if each not in items], [each for each in absent if each in items])


def test_label_rules_of_the_file_are_the_labellers(tmp_path: Path) -> None:
    """With label rules, both processes read the same file; files that it includes lie next to it."""
    (tmp_path / "f.yaml").write_text(f"{HEAD}---\n{RULES}")
    done = deploy("manifests", "-c", str(tmp_path / "f.yaml"), "--labeller")
    assert 0 == done.exit_code, done.output
    items = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    assert "mode: apply" in items["ConfigMap", "trimtab-labeller"]["data"]["config.yaml"]
    assert items["ConfigMap", "trimtab-labeller"]["data"] == items["ConfigMap", "trimtab"]["data"]


def test_the_rescheduler_reads_the_file_if_it_has_its_section(tmp_path: Path) -> None:
    """So that it knows the profiles of the scheduler; without a section it has the shipped file, which observes."""
    own = f"{HEAD}---\n{TRIMTAB_HEAD}sources: [{{name: ms, metricsServer: {{}}}}]\n"
    for section, same in (("rescheduling: {mode: auto}\n", True), ("", False)):
        (tmp_path / "f.yaml").write_text(own + section)
        done = deploy("manifests", "-c", str(tmp_path / "f.yaml"), "--rescheduler")
        assert 0 == done.exit_code, done.output
        items = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
        text = items["ConfigMap", "trimtab-rescheduler"]["data"]["config.yaml"]
        assert same is (items["ConfigMap", "trimtab"]["data"]["config.yaml"] == text)
        assert same is ("mode: observe" not in text)


def test_a_rescheduler_that_could_not_start_is_not_deployed(tmp_path: Path) -> None:
    """The file's problem, before anything is written."""
    rival = "rescheduling: {strategies: [KoordinatorLowNodeLoad]}\n"
    (tmp_path / "f.yaml").write_text(f"{HEAD}---\n{TRIMTAB_HEAD}{rival}")
    done = deploy("manifests", "-c", str(tmp_path / "f.yaml"), "--rescheduler")
    assert (2, True) == (done.exit_code, "is run for comparison in trimtab simulate only" in done.stderr), done.output


@pytest.mark.parametrize("folder", ["", "./", "policies/"])
def test_files_that_the_configuration_includes(folder: str, tmp_path: Path) -> None:
    """They come along if they lie next to it; a ConfigMap has no folders."""
    (tmp_path / "policies").mkdir()
    (tmp_path / folder / "crane.yaml").write_text(POLICY)
    (tmp_path / "f.yaml").write_text(DYNAMIC.format(f"{folder}crane.yaml"))
    done = deploy("manifests", "-n", "mine", "-c", str(tmp_path / "f.yaml"))
    if folder == "policies/":
        assert (2, True) == (done.exit_code, "is in another folder, which a ConfigMap cannot have" in done.stderr)
        return
    assert 0 == done.exit_code, done.output
    items = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    assert POLICY == items["ConfigMap", "trimtab"]["data"]["crane.yaml"]


def test_the_config_map_of_a_rescheduler(tmp_path: Path) -> None:
    """Its text becomes ours, comments included; its lease moves into our namespace under its own name, and may be used."""
    inner = rescheduler(TEMPLATES["default"])
    outer = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}, "data": {"config.yaml": inner}}
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(outer, allow_unicode=True))
    done = deploy("manifests", "-n", "mine", "-c", str(tmp_path / "f.yaml"))
    assert 0 == done.exit_code, done.output
    items = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    text = items["ConfigMap", "trimtab"]["data"]["config.yaml"]
    assert inner.replace("resourceNamespace: kube-system", 'resourceNamespace: "mine"') == text
    assert ["rescheduler-scheduler"] == items["Role", "trimtab-lease"]["rules"][1]["resourceNames"]
    assert "mine" == items["Lease", "rescheduler-scheduler"]["metadata"]["namespace"]
    assert "moves from kube-system/rescheduler-scheduler to mine/rescheduler-scheduler" in done.stderr
    assert "scale that scheduler to 0 first" in done.stderr


def test_notes_on_the_configuration(unreachable: str, tmp_path: Path) -> None:
    """Those of a file are printed; a lease that stays where the file puts it, and a template, need none."""
    (tmp_path / "f.yaml").write_text(f"{HEAD}leaderElection: {{resourceNamespace: mine}}\n")
    done = deploy("manifests", "-n", "mine", "-c", str(tmp_path / "f.yaml"))
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert (True, False) == (bool(notes), "the lease moves" in done.stderr), done.stderr
    assert "" == deploy("manifests", "-n", "mine", "-c", "production").stderr


def test_links_of_alerts() -> None:
    """They begin as the flag says; without it, as shipped."""

    def links(*arguments: str) -> set[str]:
        documents = yaml.safe_load_all(deploy("manifests", "-m", *arguments).stdout)
        (rules,) = [each["spec"]["groups"] for each in documents if each["kind"] == "PrometheusRule"]
        alerts = [rule["annotations"] for group in rules for rule in group["rules"] if "alert" in rule]
        return {each["runbook_url"].partition("#")[0].rpartition("/")[0] for each in alerts}

    assert {"docs/runbooks"} == links()
    assert {"https://wiki.example.com/trimtab"} == links("--runbook-url-base", "https://wiki.example.com/trimtab/")


def test_without_a_lease_there_is_one_replica() -> None:
    """The template for development has no leader election."""
    done = deploy("manifests", "-c", "development")
    items = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    spec = items["Deployment", "trimtab"]["spec"]
    assert (1, {"type": "Recreate"}) == (spec["replicas"], spec["strategy"])


@dataclass(frozen=True)
class Extra(NodeName):
    """A plugin of another package."""

    name = "Extra"


@pytest.mark.parametrize(
    "data",
    [
        {"config.yaml": DYNAMIC.format("./crane.yaml").replace("Name: a", "Name: mine"), "crane.yaml": POLICY},
        {
            "config.yaml": f"{HEAD}profiles:\n- schedulerName: mine\n"
            "  plugins: {filter: {enabled: [{name: Extra}]}}\n"
        },
    ],
)
async def test_the_scheduler_that_is_installed_is_tested(data: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its configuration may include other files and use plugins of other packages."""
    monkeypatch.setattr(plugins, "installed_plugins", lambda: {"Extra": Extra})
    options = await check_options(holding(data), "probes", "mine", "", "")
    assert "mine" == options.probe.scheduler


async def test_no_other_scheduler_is_tested_instead() -> None:
    """A configuration that cannot be read is an error; without one it is the name of ours."""
    with pytest.raises(DeployError, match=r"ConfigMap mine/trimtab: config.yaml.*: correct it, or name the scheduler"):
        await check_options(holding({"config.yaml": f"{HEAD}profile: []\n"}), "probes", "mine", "", "")
    assert "trimtab" == (await check_options(holding({}), "probes", "mine", "", "")).probe.scheduler


def holding(data: dict[str, str]) -> ApiClient:
    """A server with this ConfigMap."""
    metadata = {"name": "trimtab", "namespace": "mine"}
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return ApiClient(ObjectServer(item).transport)


@pytest.mark.parametrize(("reply", "expected"), [("y", None), ("n", 1), ("", 1)])
def test_the_question(reply: str, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a yes goes on; anything else changes nothing, with exit code 1."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: reply)
    if expected is None:
        confirm("Apply 1 change?", yes=False)
        return
    with pytest.raises(SystemExit) as left:
        confirm("Apply 1 change?", yes=False)
    assert expected == left.value.code
