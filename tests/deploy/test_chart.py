"""The chart as text: it renders what kustomize does, with any sensible values, and refuses the others by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.rendering import (
    CHART,
    KUBERNETES,
    Refused,
    by_name,
    helm_template,
    kustomize,
    run,
    validate_strictly,
    write_overlay,
)
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document, Documents
from tools.manifests import TEMPLATES, documented_values

pytestmark = pytest.mark.live  # helm and kubectl are built with the control plane
VERSIONED = ("app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")
EVERYTHING = (
    "labeller.enabled=true",
    "rescheduler.enabled=true",
    "networkPolicy.enabled=true",
    "monitoring.serviceMonitor.enabled=true",
    "monitoring.prometheusRule.enabled=true",
    "monitoring.dashboards.enabled=true",
    "rbac.gang=true",
    "rbac.defaultScheduler=true",
    "controlPlane=true",
)
COMPONENTS = ("labeller", "rescheduler", "network-policy", "monitoring", "gang", "default-scheduler", "control-plane")
MATRIX: tuple[tuple[str, ...], ...] = (
    (),
    EVERYTHING,
    ("labeller.enabled=true",),
    ("labeller.enabled=true", "labeller.unmark.schedule=@hourly"),
    ("labeller.enabled=true", "labeller.unmark.enabled=false", "labeller.legacyLabel=true", "labeller.replicas=2"),
    ("rescheduler.enabled=true", "rescheduler.mode=auto", "rescheduler.replicas=2", "rbac.create=false"),
    ("monitoring.serviceMonitor.enabled=true", "monitoring.serviceMonitor.labels.release=stack"),
    ("monitoring.serviceMonitor.enabled=true", "serving.tlsSecret=trimtab-tls"),
    ("networkPolicy.enabled=true", "networkPolicy.apiServerCIDRs={10.0.0.1/32}", "networkPolicy.prometheusPort=8443"),
    *((f"config.template={each.stem}", "replicas=1") for each in sorted(TEMPLATES.glob("*.yaml"))),
    ("config.existingConfigMap=mine",),
    ("prometheus.existingSecret=prometheus-token",),
    ("prometheus.credentials.token=abc", "prometheus.credentials.ca\\.crt=pem"),
    ("rbac.systemKubeScheduler=true",),
    ("rbac.create=false", "serviceAccount.create=false", "serviceAccount.name=theirs"),
    ("rbac.volumes=false", "rbac.preemption=false", "rbac.metricsServer=false"),
    ("replicas=3", "image.digest=sha256:" + "0" * 64, "image.repository=example.com/trimtab"),
    ("priorityClass.create=false", "flowSchema.enabled=false", "podDisruptionBudget.enabled=false"),
    ("priorityClass.create=false", "priorityClass.name=system-cluster-critical"),
    ("nodeSelector.disk=ssd", "tolerations[0].operator=Exists", "podAnnotations.a=b", "podLabels.team=x"),
    ("extraArgs={--log-level=debug}", "extraEnv[0].name=TZ", "extraEnv[0].value=UTC", "image.pullSecrets[0].name=r"),
)


@pytest.fixture(scope="module")
def binaries() -> Path:
    return controlplane_or_skip()


def test_lint_finds_nothing(binaries: Path) -> None:
    """Also not at the level of warnings."""
    run([binaries / "helm", "lint", "--strict", CHART, "--kube-version", KUBERNETES])


@pytest.mark.parametrize(("settings", "components"), [((), ()), (EVERYTHING, COMPONENTS)])
def test_chart_and_kustomize_render_the_same_objects(
    binaries: Path, tmp_path: Path, settings: tuple[str, ...], components: tuple[str, ...]
) -> None:
    """All but the Namespace, which Helm leaves to its user, and labels that name the tool or the version."""
    from_chart = by_name(helm_template(binaries, *settings))
    expected = by_name(kustomize(binaries, write_overlay(tmp_path / "overlay", *components)))
    assert {key for key in expected if key[0] != "Namespace"} == set(from_chart)
    for key, rendered in from_chart.items():
        assert comparable(expected[key]) == comparable(rendered), key


def comparable(document: Document) -> Document:
    """Without the labels that differ by tool; kustomize doubles some line breaks of folded expressions."""
    labels = {key: value for key, value in document["metadata"]["labels"].items() if key not in VERSIONED}
    found = {**document, "metadata": {**document["metadata"], "labels": labels}}
    without_doubled_breaks: Document = json.loads(json.dumps(found).replace("\\n\\n", "\\n"))
    return without_doubled_breaks


@pytest.mark.parametrize("settings", MATRIX, ids=" ".join)
def test_values_give_valid_objects(binaries: Path, settings: tuple[str, ...]) -> None:
    """Every object passes strict validation, has our labels, and refers to names that exist."""
    objects = helm_template(binaries, *settings, release="load", namespace="scheduling")
    for each in objects:
        validate_strictly(each)
        assert "trimtab" == each["metadata"]["labels"]["app.kubernetes.io/part-of"]
        assert each["metadata"].get("namespace") in (None, "scheduling", "kube-system")
        assert each["metadata"]["name"].startswith("load-trimtab")
    for deployment in deployments(objects):
        check_references(deployment, objects, " ".join(settings))
    if "config.existingConfigMap=mine" not in settings:
        check_config(objects, settings)


def check_references(deployment: Document, objects: Documents, given: str) -> None:
    """What a pod mounts or runs as is among the objects, is optional, or was named in the values."""
    spec, names = deployment["spec"]["template"]["spec"], {(each["kind"], each["metadata"]["name"]) for each in objects}
    wanted = {("ServiceAccount", spec["serviceAccountName"]), ("PriorityClass", spec.get("priorityClassName", ""))}
    for volume in spec["volumes"]:
        if "configMap" in volume:
            wanted.add(("ConfigMap", volume["configMap"]["name"]))
        if "secret" in volume and not volume["secret"].get("optional"):
            wanted.add(("Secret", volume["secret"]["secretName"]))
    missing = {name for kind, name in wanted - names if name}
    assert all(f"={name}" in given for name in missing), missing
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in spec["containers"][0]["volumeMounts"]} == volumes
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def deployments(objects: Documents) -> Iterator[Document]:
    return (each for each in objects if each["kind"] == "Deployment")


def check_config(objects: Documents, settings: tuple[str, ...]) -> None:
    """The scheduler's ConfigMap holds the text of the template, comments included."""
    name = next((each.partition("=")[2] for each in settings if each.startswith("config.template=")), "default")
    held = next(each for each in objects if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", "load-trimtab"))
    assert (TEMPLATES / f"{name}.yaml").read_text().rstrip() == held["data"]["config.yaml"].rstrip()


def test_a_file_of_ones_own_replaces_the_template(binaries: Path) -> None:
    """As `--set-file config.inline=FILE` passes it."""
    written = {"kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "mine"}]}
    objects = helm_template(binaries, values={"config": {"inline": yaml.safe_dump(written)}})
    held = next(each for each in objects if each["kind"] == "ConfigMap")["data"]["config.yaml"]
    assert written == yaml.safe_load(held)


@pytest.mark.parametrize("namespace", ["trimtab", "scheduling"])
def test_the_role_grants_the_lease_that_the_file_names(binaries: Path, namespace: str) -> None:
    """The chart makes no such lease: it may be one that another scheduler holds."""
    election = {"resourceNamespace": "kube-system", "resourceName": "rescheduler-scheduler"}
    objects = by_name(helm_template(binaries, namespace=namespace, values=inline("mine", leaderElection=election)))
    role = objects["Role", "kube-system", "trimtab-lease"]
    assert ["rescheduler-scheduler"] == role["rules"][1]["resourceNames"]
    assert namespace == objects["RoleBinding", "kube-system", "trimtab-lease"]["subjects"][0]["namespace"]
    arguments = objects["Deployment", namespace, "trimtab"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--leader-elect-resource-name=rescheduler-scheduler" in arguments
    assert "--leader-elect-resource-namespace=kube-system" in arguments
    assert not [key for key in objects if key[0] == "Lease"]


def test_a_profile_named_default_scheduler_needs_its_lease(binaries: Path) -> None:
    """With a lease of its own it would schedule beside kube-scheduler."""
    with pytest.raises(Refused, match=r"set rbac\.defaultScheduler to true"):
        helm_template(binaries, namespace="scheduling", values=inline("default-scheduler"))
    assert helm_template(binaries, "rbac.defaultScheduler=true", values=inline("default-scheduler"))


def inline(profile: str, **fields: object) -> Document:
    """Values with a file that has this profile, and a TrimtabConfiguration."""
    file = {"kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": profile}], **fields}
    return {"config": {"inline": yaml.safe_dump_all([file, {"kind": "TrimtabConfiguration"}])}}


def test_another_namespace_moves_lease_accounts_and_policy(binaries: Path) -> None:
    """Only kube-system's own role is bound elsewhere, and no object still names the default namespace."""
    objects = helm_template(binaries, *EVERYTHING, release="load", namespace="scheduling")
    arguments = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in deployments(objects)
    }
    scheduler = arguments["load-trimtab"]
    assert "--lease-namespace=scheduling" in arguments["load-trimtab-labeller"]
    assert "--leader-elect-resource-namespace=scheduling" in arguments["load-trimtab-rescheduler"]
    assert "--leader-elect-resource-namespace=scheduling" not in scheduler  # rbac.defaultScheduler has its own lease
    assert "serviceaccount:trimtab" not in json.dumps(objects)
    alone = helm_template(binaries, release="load", namespace="scheduling")
    lease = next(each for each in alone if each["kind"] == "Lease")["metadata"]
    arguments = next(deployments(alone))["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--leader-elect-resource-name={lease['name']}" in arguments
    assert f"--leader-elect-resource-namespace={lease['namespace']}" in arguments


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("replicas=many", "/replicas"),
        ("replicas=-1", "/replicas"),
        ("replica=2", "replica"),
        ("config.template=defualt", "/config/template"),
        ("image.digest=latest", "/image/digest"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("networkPolicy.prometheusPort=0", "/networkPolicy/prometheusPort"),
        ("networkPolicy.apiServerCIDRs={10.0.0.1}", "/networkPolicy/apiServerCIDRs/0"),
        ("monitoring.serviceMonitor.interval=30", "/monitoring/serviceMonitor/interval"),
        ("prometheus.credentials.tokn=x", "tokn"),
        ("labeller.enable=true", "enable"),
        ("config.template=development", "set replicas to 1"),
        ("labeller.unmark.schedule=hourly", "/labeller/unmark/schedule"),
        ("config.inline=garbage", "config.inline is not a configuration file .*--set-file config.inline=FILE"),
        ("config.inline=kind: Pod", "config.inline has no document of kind KubeSchedulerConfiguration"),
        ("config.inline=kind: ConfigMap", "config.inline is a ConfigMap: .*config.existingConfigMap"),
        ("extraArgs={--secure-port=0}", "extraArgs has --secure-port=0, but probes"),
        ("labeller.extraArgs={--secure-port=0}", "labeller.extraArgs has --secure-port=0"),
        ("labeller.enabled=true,labeller.config=Rulename: {a: {}}", "labeller.config is a rule.yaml"),
        ("labeller.enabled=true,labeller.config=kind: Pod", "no document of kind TrimtabConfiguration"),
        ("rescheduler.mode=yes", "/rescheduler/mode"),
        ("rescheduler.extraArgs={--secure-port=0}", "rescheduler.extraArgs has --secure-port=0"),
        ("rescheduler.config=kind: Pod", "rescheduler.config has no document of kind TrimtabConfiguration"),
        ("rescheduler.config=kind: TrimtabConfiguration", "rescheduler.config has no section rescheduling"),
        ("rescheduler.config=x,rescheduler.mode=auto", "rescheduler.mode is for the shipped file"),
        ("prometheus.existingSecret=a,prometheus.credentials.token=b", "leave one out"),
    ],
)
def test_bad_values_are_refused_by_name(binaries: Path, setting: str, named: str) -> None:
    """A misspelt or impossible value is an error that says which, not an object that behaves otherwise."""
    with pytest.raises(Refused, match=named):
        helm_template(binaries, setting)


def test_without_a_lease_there_is_never_a_second_scheduler(binaries: Path) -> None:
    """One replica, replaced by stopping it first."""
    only = next(deployments(helm_template(binaries, "config.template=development", "replicas=1")))
    assert (1, {"type": "Recreate"}) == (only["spec"]["replicas"], only["spec"]["strategy"])


@pytest.mark.parametrize("mode", ["observe", "auto"])
def test_the_mode_of_the_rescheduler_is_in_its_file(binaries: Path, mode: str) -> None:
    """The rest is as shipped; a file of one's own replaces it."""
    settings = ("rescheduler.enabled=true", f"rescheduler.mode={mode}")
    held = by_name(helm_template(binaries, *settings))["ConfigMap", "trimtab", "trimtab-rescheduler"]["data"]
    shipped = (CHART / "files" / "rescheduler.yaml").read_text()
    assert {"config.yaml": shipped.replace("mode: observe #", f"mode: {mode} #")} == held
    assert mode == yaml.safe_load(held["config.yaml"])["rescheduling"]["mode"]
    own = {"kind": "TrimtabConfiguration", "rescheduling": {"mode": "auto"}}
    values = {"rescheduler": {"enabled": True, "config": yaml.safe_dump(own)}}
    written = by_name(helm_template(binaries, values=values))["ConfigMap", "trimtab", "trimtab-rescheduler"]["data"]
    assert own == yaml.safe_load(written["config.yaml"])


def test_every_value_has_a_comment_and_a_schema() -> None:
    """The README's table is made of the comments, so that a value without one would be missing there."""
    text = (CHART / "values.yaml").read_text()
    documented = {path for path, _, _ in documented_values(text)}
    schema = json.loads((CHART / "values.schema.json").read_text())
    for path in leaves(yaml.safe_load(text)):
        assert any(".".join(path[:length]) in documented for length in range(1, len(path) + 1)), path
        assert in_schema(schema, path), path


def leaves(values: Document, *above: str) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, *above, key)
        else:
            yield (*above, key)


def in_schema(schema: Document, path: tuple[str, ...]) -> bool:
    for key in path:
        if "properties" not in schema:
            return "additionalProperties" in schema or schema.get("type") == "object"
        schema = schema["properties"].get(key)
        if schema is None:
            return False
    return True


def test_versions_agree() -> None:
    """Of the package, the chart and the plain manifests."""
    version = next(
        line.split('"')[1]
        for line in (CHART.parents[2] / "pyproject.toml").read_text().splitlines()
        if line.startswith("version")
    )
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert version == chart["appVersion"]
    for file in (CHART.parents[1]).rglob("*.yaml"):
        if "chart" not in file.parts:
            tags = [
                line.split("image: trimtab:")[1] for line in file.read_text().splitlines() if "image: trimtab:" in line
            ]
            assert set(tags) <= {version}, file


def test_alerts_know_the_names_of_the_release(binaries: Path) -> None:
    """The job is the Service's name: one that the rules do not expect is written into them, with the runbooks' address."""
    settings = ("monitoring.prometheusRule.enabled=true", "monitoring.prometheusRule.runbooks=https://example.com/r")
    rules = {
        name: json.dumps(by_name(helm_template(binaries, *settings, f"fullnameOverride={name}"))[kind]["spec"])
        for name in ("placer", "blue-trimtab")
        for kind in [("PrometheusRule", "trimtab", name)]
    }
    assert 'up{job=~\\"placer\\"}' in rules["placer"]
    assert "(.+-)?" not in rules["placer"]
    assert 'up{job=~\\"(.+-)?trimtab\\"}' in rules["blue-trimtab"]
    assert "https://example.com/r/availability.md#trimtabdown" in rules["placer"]
    assert "docs/runbooks" not in rules["placer"]
