"""Shipped objects become those of a release: the same as kubectl's kustomize makes of them, with our marks."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.requires_controlplane import controlplane_or_skip
from trimtab.apps.deploy.api_client import DeployError, Object, ref_of
from trimtab.apps.deploy.kustomization import component_names, manifests_folder, read_kustomization, read_manifests
from trimtab.apps.deploy.release import Release
from trimtab.apps.deploy.render import CHECKSUM, render
from trimtab.cli.config import templates

RELEASE = Release("trimtab", "0.1.0", "default", templates()["default"])
OFFERED = ("labeller", "rescheduler", "gang", "default-scheduler", "monitoring", "network-policy")


def rendered(release: Release) -> dict[tuple[str, str], Object]:
    """By kind and name."""
    items = render(read_manifests(manifests_folder(), release.components), release)
    return {(each["kind"], each["metadata"]["name"]): each for each in items}


def without_marks(item: Object) -> Object:
    """The object without what only `trimtab deploy` adds."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "annotations"}
    metadata["labels"] = {key: value for key, value in metadata["labels"].items() if not key.endswith("managed-by")}
    plain = {**item, "metadata": metadata}
    if item["kind"] == "Deployment":
        template = item["spec"]["template"]
        kept = {key: value for key, value in template["metadata"].items() if key != "annotations"}
        plain["spec"] = {**item["spec"], "template": {**template, "metadata": kept}}
    return plain


def test_the_default_is_what_kustomize_makes() -> None:
    """Object by object, apart from our marks; kustomize doubles some line breaks of folded expressions."""
    kubectl = controlplane_or_skip() / "kubectl"
    command = [str(kubectl), "kustomize", str(manifests_folder())]
    built = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    objects = json.loads(json.dumps([*yaml.safe_load_all(built)]).replace("\\n\\n ", "\\n "))
    expected = {ref_of(each): each for each in objects}
    actual = {ref_of(each): without_marks(each) for each in rendered(RELEASE).values()}
    assert expected == actual


@pytest.mark.parametrize("component", OFFERED)
def test_every_offered_component_can_be_read(component: str) -> None:
    """Each has objects, and uses nothing that kubectl would have to patch."""
    assert component in component_names(manifests_folder())
    assert list(read_kustomization(manifests_folder() / "components" / component))


def test_another_namespace_is_named_everywhere() -> None:
    """No object is left that names the shipped namespace, in any field; what is in kube-system stays there."""
    items = rendered(replace(RELEASE, namespace="mine", lease=("mine", "trimtab"), components=OFFERED))
    assert {"", "mine", "kube-system"} == {ref_of(each).namespace for each in items.values()}
    texts = {text for each in items.values() for text in strings({**each, "data": None})}
    assert not [
        text for text in texts if ":trimtab:" in text or ".trimtab.svc" in text or 'namespace="trimtab"' in text
    ]
    listed = [values_of(each, key) for each in items.values() for key in ("namespaces", "matchNames")]
    assert ["trimtab"] not in [values for found in listed for values in found]
    assert "mine" in {value for each in items.values() for value in values_of(each, "namespace")}
    assert "trimtab" not in {value for each in items.values() for value in values_of(each, "namespace")}
    flags = {
        "trimtab-labeller": "--lease-namespace=mine",
        "trimtab-unmark": "--lease-namespace=mine",
        "trimtab-rescheduler": "--leader-elect-resource-namespace=mine",
    }
    for name, flag in flags.items():
        assert any(flag in strings(each) for key, each in items.items() if key[1] == name)
    shipped = "--leader-elect-resource-namespace=trimtab"
    assert not any(shipped in strings(each) for each in items.values())


def strings(value: Any) -> list[str]:
    """All texts in a value."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


def values_of(value: Any, key: str) -> list[Any]:
    """The values of this key, at any depth, outside of a ConfigMap's data."""
    if isinstance(value, list):
        return [found for each in value for found in values_of(each, key)]
    if not isinstance(value, dict):
        return []
    below = [found for name, each in value.items() if name != "data" for found in values_of(each, key)]
    return [value[key], *below] if key in value else below


def test_the_image_is_set_in_every_pod() -> None:
    """Also in the CronJob of the labeller."""
    release = replace(RELEASE, repository="example.com/trimtab", tag="next", components=("labeller",))
    images = {image for each in rendered(release).values() for image in values_of(each, "image")}
    assert {"example.com/trimtab:next"} == images
    pinned = replace(release, repository="example.com/trimtab@sha256:00")
    assert "example.com/trimtab@sha256:00" == pinned.image


def test_only_the_pods_of_a_changed_configuration_roll() -> None:
    """The checksum follows the scheduler's configuration; the others' are their own unless the file has their sections."""

    def sums(release: Release) -> list[str]:
        items = rendered(replace(release, components=("labeller", "rescheduler")))
        names = ("trimtab", "trimtab-labeller", "trimtab-rescheduler")
        pods = [items["Deployment", name]["spec"]["template"]["metadata"] for name in names]
        return [each["annotations"][CHECKSUM] for each in pods]

    one, other = sums(RELEASE), sums(replace(RELEASE, config="# changed"))
    assert [False, True, True] == [before == after for before, after in zip(one, other, strict=True)]
    with_rules = sums(replace(RELEASE, config="# changed", has_label_rules=True))
    assert other[0] == with_rules[0] == with_rules[1]
    with_moves = sums(replace(RELEASE, config="# changed", has_rescheduling=True))
    assert [other[0], one[1], other[0]] == with_moves


def test_the_role_allows_the_lease_of_the_configuration() -> None:
    """Its name is the configuration's, unless the lease is kube-scheduler's own in kube-system."""

    def allowed(release: Release) -> Any:
        return rendered(release)["Role", "trimtab-lease"]["rules"][1]["resourceNames"]

    renamed = replace(RELEASE, lease=("trimtab", "other"))
    assert (["other"], True) == (allowed(renamed), ("Lease", "other") in rendered(renamed))
    assert ["trimtab"] == allowed(replace(RELEASE, lease=("kube-system", "kube-scheduler")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("patches: [{path: x}]", "patches is not supported here: apply it with kubectl apply -k"),
        ("resources: [absent.yaml]", "absent.yaml: cannot be read"),
        ("configMapGenerator: [{name: a, files: []}]", "names with a suffix are not supported"),
        ("resources: [", "cannot be read"),
    ],
)
def test_what_only_kustomize_understands_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    """It is never skipped silently."""
    (tmp_path / "kustomization.yaml").write_text(text)
    with pytest.raises(DeployError, match=message):
        list(read_kustomization(tmp_path))


def test_a_generated_config_map(tmp_path: Path) -> None:
    """Files become keys, under their own names or given ones."""
    options = "{disableNameSuffixHash: true, labels: {grafana_dashboard: '1'}}"
    generator = f"configMapGenerator: [{{name: a, namespace: n, files: [x.json, y=x.json], options: {options}}}]"
    (tmp_path / "kustomization.yaml").write_text(generator)
    (tmp_path / "x.json").write_text("{}")
    (item,) = read_kustomization(tmp_path)
    assert {"name": "a", "namespace": "n", "labels": {"grafana_dashboard": "1"}} == item["metadata"]
    assert {"x.json": "{}", "y": "{}"} == item["data"]
