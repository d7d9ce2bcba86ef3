"""An installation whose inventory was deleted, and one that kubectl or Helm has made."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apps.deploy.object_server import Object, ObjectServer
from trimtab.apps.deploy.api_client import ApiClient, DeployError, ref_of
from trimtab.apps.deploy.install import carry_out
from trimtab.apps.deploy.plan import make_plan
from trimtab.apps.deploy.recovery import recover_inventory
from trimtab.apps.deploy.release import (
    DEPLOYED_IN,
    MANAGED_BY,
    Inventory,
    Release,
    inventory_ref,
    read_inventory,
    to_config_map,
)
from trimtab.apps.deploy.status import find_installation, read_installation

pytestmark = pytest.mark.looptime
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
RULES = {"rules": [{"alert": "A", "annotations": {"runbook_url": "https://wiki.example.com/x/load.md#a"}}]}


def marked(kind: str, name: str, version: str = "v1", by: str = "trimtab-deploy", **body: Any) -> Object:
    labels = {MANAGED_BY: by, "app.kubernetes.io/name": "trimtab", "app.kubernetes.io/version": "0.1.0"}
    metadata = {
        "name": name,
        "namespace": "mine",
        "uid": "u",
        "labels": {key: each for key, each in labels.items() if each},
    }
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, "annotations": {DEPLOYED_IN: "mine"}}, **body}


def deployment(name: str, image: str = "example.com/t:next", by: str = "trimtab-deploy") -> Object:
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return marked("Deployment", name, "apps/v1", by, spec={"replicas": 0, "template": template})


SCHEDULER, LABELLER = deployment("trimtab"), deployment("trimtab-labeller")
LEASE = marked("Lease", "own", "coordination.k8s.io/v1")


async def test_the_settings_are_found_again() -> None:
    """Image, components, leases and links, from the objects themselves."""
    rules = marked("PrometheusRule", "trimtab", "monitoring.coreos.com/v1", spec={"groups": [RULES]})
    served = {"monitoring.coreos.com/v1": ("PrometheusRule",)}
    server = ObjectServer(NAMESPACE, SCHEDULER, LABELLER, LEASE, rules, kinds=served)
    found = await recover_inventory(ApiClient(server.transport), "mine")
    assert found is not None
    assert {ref_of(each) for each in (SCHEDULER, LABELLER, LEASE, rules)} == set(found.objects)
    assert ("example.com/t", "next", "0.1.0") == (found.repository, found.tag, found.version)
    assert (("monitoring", "labeller"), ("mine/own",)) == (found.components, found.leases)
    assert (False, "https://wiki.example.com/x") == (found.is_template, found.runbook_url_base)


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [("a:0.1.0", "a", ""), ("localhost:5000/a", "localhost:5000/a", ""), ("a@sha256:00", "a@sha256:00", "")],
)
async def test_images(image: str, repository: str, tag: str) -> None:
    """A tag that is the version's was never given; a digest stays."""
    found = await recover_inventory(ApiClient(ObjectServer(deployment("trimtab", image)).transport), "mine")
    assert found is not None
    assert (repository, tag) == (found.repository, found.tag)


async def test_an_installation_takes_over_again() -> None:
    """Status names what is missing; the next run writes it, and removes what is no longer wanted."""
    client = ApiClient(ObjectServer(NAMESPACE, SCHEDULER, LABELLER).transport)
    problems = (await read_installation(client, "mine")).problems
    assert "ConfigMap mine/trimtab-deploy is missing: run trimtab deploy upgrade" in problems
    assert ("labeller",) == (await find_installation(client, "mine")).components
    plan = await make_plan(client, Release("mine", "0.1.0", "default", ""), [SCHEDULER])
    assert [("create", inventory_ref("mine")), ("delete", ref_of(LABELLER))] == [
        (each.verb, each.ref) for each in plan.writes
    ]
    await carry_out(client, plan, lambda line: None, 1.0)
    assert await read_inventory(client, "mine") is not None


async def test_a_kind_that_is_gone() -> None:
    """An upgrade alone would ask for it again."""
    monitor = marked("ServiceMonitor", "trimtab", "monitoring.coreos.com/v1")
    record = to_config_map(Inventory((ref_of(SCHEDULER), ref_of(monitor))), "mine")
    for kinds, remedy in (
        ({}, "install the Prometheus operator again, or run trimtab deploy upgrade --no-monitoring"),
        ({"monitoring.coreos.com/v1": ("ServiceMonitor",)}, "run trimtab deploy upgrade"),
    ):
        server = ObjectServer(NAMESPACE, SCHEDULER, record, kinds=kinds)
        problems = (await read_installation(ApiClient(server.transport), "mine")).problems
        assert (f"ServiceMonitor mine/trimtab is missing: {remedy}",) == problems


@pytest.mark.parametrize(
    ("by", "remedy"),
    [
        ("", "was installed by kubectl: go on with kubectl apply -k, or remove it first with kubectl delete -k"),
        ("Helm", "was installed by Helm: go on with helm upgrade, or remove it first with helm uninstall"),
    ],
)
async def test_what_others_have_installed_is_theirs(by: str, remedy: str) -> None:
    """The sentence says who did, and how to go on."""
    client = ApiClient(ObjectServer(NAMESPACE, deployment("trimtab", by=by)).transport)
    with pytest.raises(DeployError, match=remedy):
        await find_installation(client, "mine")


async def test_nothing_is_installed() -> None:
    """The flag is the one that names the installation's namespace."""
    for server, message in (
        (ObjectServer(), "namespace mine does not exist: choose another with --installed-in"),
        (ObjectServer(NAMESPACE), "installed nothing in namespace mine: choose another with --installed-in"),
    ):
        with pytest.raises(DeployError, match=message):
            await read_installation(ApiClient(server.transport), "mine", "--installed-in")
