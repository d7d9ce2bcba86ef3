"""The plain manifests as text: every component and overlay builds, and pods are as safe as they are meant to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.deploy.rendering import DEPLOY, ROOT, by_name, kustomize, validate_strictly, write_overlay
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document, Documents
from trimtab.config.kube_scheduler import parse
from trimtab.sources.registry import SOURCE_SETTINGS

pytestmark = pytest.mark.live  # kubectl is built with the control plane
COMPONENTS = sorted(each.parent.name for each in DEPLOY.glob("components/*/kustomization.yaml"))
OVERLAYS = sorted((ROOT / "examples" / "kustomize").iterdir())


@pytest.fixture(scope="module")
def binaries() -> Path:
    return controlplane_or_skip()


@pytest.fixture(scope="module")
def everything(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """The base with all components but the templates, of which one excludes the other."""
    chosen = [name for name in COMPONENTS if not name.startswith("template-")]
    return kustomize(binaries, write_overlay(tmp_path_factory.mktemp("all") / "overlay", *chosen))


@pytest.fixture(scope="module")
def base(binaries: Path) -> Mapping[tuple[str, str, str], Document]:
    return by_name(kustomize(binaries, DEPLOY))


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_builds_alone_on_the_base(
    binaries: Path, base: Mapping[tuple[str, str, str], Document], tmp_path: Path, name: str
) -> None:
    """And what it adds or changes is valid."""
    built = by_name(kustomize(binaries, write_overlay(tmp_path / "overlay", name)))
    changed = [each for key, each in built.items() if base.get(key) != each]
    assert changed, "the component does nothing"
    for each in changed:
        validate_strictly(each)


@pytest.mark.parametrize("name", [each for each in COMPONENTS if each.startswith("template-")])
def test_a_template_without_a_lease_has_one_replica(binaries: Path, tmp_path: Path, name: str) -> None:
    """Two would both schedule, also for the moment in which one replaces the other."""
    built = by_name(kustomize(binaries, write_overlay(tmp_path / "overlay", name)))
    (config,) = (each["data"]["config.yaml"] for (kind, *_), each in built.items() if kind == "ConfigMap")
    (spec,) = (each["spec"] for (kind, *_), each in built.items() if kind == "Deployment")
    elects = parse(config, "config.yaml", source_kinds=SOURCE_SETTINGS).leader_election.enabled
    assert ((2, "RollingUpdate") if elects else (1, "Recreate")) == (spec["replicas"], spec["strategy"]["type"])
    assert elects is (name != "template-development")


@pytest.mark.parametrize("folder", OVERLAYS, ids=lambda folder: folder.name)
def test_the_example_overlays_build(binaries: Path, folder: Path) -> None:
    """They are what users copy."""
    for each in kustomize(binaries, folder):
        validate_strictly(each)


def test_objects_are_valid_and_labelled(everything: Documents) -> None:
    """By name, instance and part-of; the Namespace enforces the strictest pod security."""
    for each in everything:
        validate_strictly(each)
        labels = each["metadata"]["labels"]
        assert {"trimtab"} == {labels[f"app.kubernetes.io/{key}"] for key in ("name", "instance", "part-of")}, each
    namespace = next(each for each in everything if each["kind"] == "Namespace")["metadata"]["labels"]
    assert "restricted" == namespace["pod-security.kubernetes.io/enforce"]


def test_pods_have_neither_rights_on_the_host_nor_lasting_tokens(everything: Documents) -> None:
    """Non-root, read-only, without capabilities, host paths or host namespaces; tokens expire within the hour."""
    found = list(pod_specs(everything))
    assert 4 == len(found)  # scheduler, labeller, the CronJob and the rescheduler
    for spec in found:
        assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)
        assert (True, 65532) == (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"])
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            expected = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert expected == container["securityContext"]
            assert {"cpu", "memory"} == set(container["resources"]["requests"])
            writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
            assert {"/tmp"} == writable
        for volume in spec["volumes"]:
            assert {"configMap", "secret", "projected", "emptyDir"} & volume.keys()
            for source in volume.get("projected", {}).get("sources", []):
                assert source.get("serviceAccountToken", {"expirationSeconds": 0})["expirationSeconds"] <= 3600


def pod_specs(objects: Documents) -> Iterator[Document]:
    for each in objects:
        if each["kind"] == "Deployment":
            yield each["spec"]["template"]["spec"]
        if each["kind"] == "CronJob":
            yield each["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_no_role_has_wildcards_secrets_or_escalation(everything: Documents) -> None:
    """What reliability needs from least privilege: each rule names its resources and verbs."""
    forbidden = {"*", "secrets", "nodes/proxy", "serviceaccounts/token", "escalate", "bind", "impersonate"}
    rules = [rule for each in everything if each["kind"] in ("Role", "ClusterRole") for rule in each["rules"]]
    assert 15 < len(rules)
    for rule in rules:
        assert forbidden.isdisjoint((*rule.get("apiGroups", ()), *rule.get("resources", ()), *rule["verbs"])), rule


def test_a_drain_is_never_blocked(everything: Documents) -> None:
    """The budget always lets one replica go, also where there is only one."""
    budget = next(each for each in everything if each["kind"] == "PodDisruptionBudget")["spec"]
    assert (1, "AlwaysAllow") == (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"])


def test_selectors_find_the_pods_of_their_workload_and_no_others(everything: Documents) -> None:
    """Services, the budget and Deployments agree; the NetworkPolicy is for all of them, the CronJob's included."""
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in everything
        if each["kind"] == "Deployment"
    }
    for each in everything:
        if each["kind"] == "Service":
            chosen = {name for name, of in labels.items() if each["spec"]["selector"].items() <= of.items()}
            assert {each["metadata"]["name"]} == chosen
    policy = next(each for each in everything if each["kind"] == "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert all(policy.items() <= of.items() for of in labels.values())
