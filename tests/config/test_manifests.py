"""A configuration is found in the ConfigMap or Secret that holds it, and any other manifest is called what it is."""

from __future__ import annotations

import json
import textwrap
from base64 import b64encode
from typing import Any

import pytest
import yaml

from tests.config.config_files import FILE, FULL, HEAD, TRIMTAB_FULL, comparable, problems_of
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import parse
from trimtab.config.manifests import locate
from trimtab.config.trimtab.labeller import parse_rule_file

RULES = "Rulename: {Node_mem: {Promsql: up, Threshold: 70}}\n"
WRONG = HEAD + "paralelism: 4\nleaderElection:\n  leaseDuration: soon\n"


def config_map(text: str, name: str = "scheduler-config", key: str = "config.yaml") -> str:
    """A ConfigMap as people write it, with the text as a literal block; 7 lines precede it."""
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: kube-system\ndata:\n  {key}: |\n"
    return head + textwrap.indent(text, "    ")


def manifest(kind: str = "ConfigMap", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}, **fields}


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


@pytest.mark.parametrize("text", [FULL, TRIMTAB_FULL, f"{FULL}---\n{TRIMTAB_FULL}"])
def test_a_config_map(text: str) -> None:
    """A ConfigMap means the same as the file that it holds, also one with two documents."""
    assert comparable(parse(text, FILE)) == comparable(parse(config_map(text), FILE))


@pytest.mark.parametrize(
    "carrier",
    [
        manifest("Secret", stringData={"scheduler.conf": "clusters: []", "conf.yaml": FULL}),
        manifest("Secret", data={"scheduler.conf": encoded("clusters: []"), "conf.yaml": encoded(FULL)}),
        manifest(binaryData={"conf.yaml": encoded(FULL)}),
        {"apiVersion": "v1", "kind": "List", "items": [manifest("Service"), manifest(data={"conf.yaml": FULL})]},
    ],
    ids=["Secret", "Secret in base64", "binaryData", "List"],
)
def test_other_carriers(carrier: dict[str, Any]) -> None:
    """A Secret with a kubeconfig beside it, base64, and a List; as YAML and as JSON."""
    for content in (yaml.safe_dump(carrier), json.dumps(carrier)):
        assert comparable(parse(FULL, FILE)) == comparable(parse(content, FILE))


def test_among_other_manifests() -> None:
    """All that is applied to a cluster may be in one file, in any order."""
    deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
    content = f"{deployment}---\n{config_map(FULL)}---\n{deployment}"
    assert comparable(parse(FULL, FILE)) == comparable(parse(content, FILE))


@pytest.mark.parametrize("above", ["", "# a comment\n---\n"])
def test_positions_point_into_the_manifest(above: str) -> None:
    """Problems and notes in a literal block have the line and column of the ConfigMap's file."""
    lines = 7 + above.count("\n")
    assert [
        f"f.yaml:{lines + 3}:5: paralelism: unknown field (did you mean parallelism?)",
        f"f.yaml:{lines + 5}:22: leaderElection.leaseDuration: 'soon' is not a duration: write a number and a unit, "
        'such as "15s", "1m30s" or "500ms"',
    ] == problems_of(above + config_map(WRONG))
    (syntax,) = problems_of(above + config_map(HEAD + "profiles: [\n"))
    assert f"f.yaml:{lines + 4}:5: not YAML" in syntax
    notes = parse(above + config_map(HEAD + "parallelism: 3\n"), FILE).notes
    (note,) = [each for each in notes if each.path == "parallelism"]
    assert (lines + 3, 18) == (note.line, note.column)


def test_positions_where_the_text_is_quoted() -> None:
    """Elsewhere positions are counted in the text itself, and the file's name has the key behind it."""
    first, second = problems_of(json.dumps(manifest(data={"config.yaml": WRONG})))
    assert first.startswith("f.yaml#one/config.yaml:3:1: paralelism: ")
    assert second.startswith("f.yaml#one/config.yaml:5:18: leaderElection.leaseDuration: ")


SEVERAL = f"{config_map(FULL, 'plain')}---\n{config_map(HEAD, 'production')}"


@pytest.mark.parametrize("key", ["production", "production/config.yaml"])
def test_one_of_several(key: str) -> None:
    """A key chooses by the ConfigMap's name, or by name and key."""
    assert comparable(parse(HEAD, FILE)) == comparable(parse(SEVERAL, FILE, key=key))


def test_a_key_of_one_config_map() -> None:
    """Or by the key alone; a chosen key need not look like a configuration."""
    content = yaml.safe_dump(manifest(data={"a.yaml": FULL, "b.yaml": HEAD}))
    assert comparable(parse(HEAD, FILE)) == comparable(parse(content, FILE, key="b.yaml"))


@pytest.mark.parametrize(
    ("content", "key", "words"),
    [
        (SEVERAL, "", "holds several configurations, plain/config.yaml, production/config.yaml: save one"),
        (SEVERAL, "config.yaml", "holds several configurations"),
        (SEVERAL, "prodution", "has no key 'prodution'"),
        (HEAD, "a", "--key 'a' needs a ConfigMap or Secret: leave it out"),
        (
            config_map("global: {}\n", "prometheus-config", "prometheus.yml"),
            "",
            "no key of this ConfigMap holds a KubeSchedulerConfiguration or TrimtabConfiguration, "
            "it has prometheus-config/prometheus.yml: write one under a key of it, as `trimtab config template",
        ),
        (yaml.safe_dump(manifest("Secret", data={"a": "%%%"})), "a", "data.a is not text in base64"),
        (config_map("", key="a"), "a", "the file is empty"),
    ],
)
def test_what_cannot_be_chosen(content: str, key: str, words: str) -> None:
    """Neither of two, nor one that does not exist: the message lists what there is."""
    with pytest.raises(ConfigError) as refused:
        parse(content, FILE, key=key)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [
        (
            "apps/v1",
            "Deployment",
            "this is a Deployment of apps/v1, not a configuration: apply it with `kubectl apply -f",
        ),
        ("monitoring.coreos.com/v1", "PrometheusRule", "apply it with `kubectl apply -f f.yaml`"),
        (
            "scheduling.x-k8s.io/v1alpha1",
            "PodGroup",
            "configuration: apply it with `kubectl apply -f f.yaml`, see docs/",
        ),
        ("scheduling.k8s.io/v1alpha1", "PodGroup", "write apiVersion scheduling.x-k8s.io/v1alpha1"),
        ("v1", "Config", "pass it with --kubeconfig"),
        ("kind.x-k8s.io/v1alpha4", "Cluster", "kind create cluster --config f.yaml"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization", "`kubectl apply -k`"),
        (
            "scheduler.policy.crane.io/v1alpha1",
            "DynamicSchedulerPolicy",
            "policyConfigPath in the arguments of Dynamic",
        ),
        ("audit.k8s.io/v1", "Policy", "--audit-policy-file"),
        ("v1", "Policy", "write a KubeSchedulerConfiguration instead"),
    ],
)
def test_another_manifest(version: str, kind: str, words: str) -> None:
    """It is named with its version, and with what reads it."""
    (problem,) = problems_of(f"# a comment\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    assert problem.startswith(f"f.yaml:2:1: this is a {kind} of {version}, not a configuration: ")
    assert words in problem


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("groups:\n- name: a\n", "this is a file of Prometheus rules, not a configuration: name it under rule_files"),
        ("global: {}\nscrape_configs: []\n", "this is the configuration of Prometheus"),
        (RULES, "these are rules of dynamic-Scheduler: run `trimtab labeller -prom URL -r f.yaml`, or convert them"),
        (config_map(RULES), "f.yaml:8:5: these are rules of dynamic-Scheduler"),
    ],
)
def test_a_file_without_a_kind(content: str, words: str) -> None:
    """What Prometheus and dynamic-Scheduler read is known by its fields."""
    (problem,) = problems_of(content)
    assert words in problem


@pytest.mark.parametrize("header", ["kind: KubeSchedulerConfigurtion", "kind: TrimtabConfigration"])
def test_a_typo_stays_a_typo(header: str) -> None:
    """A misspelt kind of ours gets its suggestion, not the remedy for another manifest."""
    assert any("did you mean" in each for each in problems_of(f"apiVersion: {HEAD.split()[1]}\n{header}\n"))


def test_rules_in_a_config_map() -> None:
    """The labeller's rule.yaml is found in a ConfigMap, too."""
    assert parse_rule_file(RULES, FILE) == parse_rule_file(config_map(RULES), FILE)
    assert locate(config_map(RULES), FILE).is_rule_file
