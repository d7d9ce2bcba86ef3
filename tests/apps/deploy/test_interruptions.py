"""Installations and removals that stop half-way: the same command, run again, leaves no label of the labeller on a node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apps.deploy.object_server import Object, ObjectServer
from trimtab.apps.deploy.api_client import ApiClient, DeployError, ref_of
from trimtab.apps.deploy.install import carry_out
from trimtab.apps.deploy.plan import make_plan
from trimtab.apps.deploy.release import (
    DEPLOYED_IN,
    MANAGED_BY,
    Inventory,
    Release,
    inventory_of,
    labeller_ref,
    read_inventory,
    to_config_map,
)
from trimtab.apps.deploy.uninstall import carry_out_removal, plan_removal
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
PRESSURE = "pressure.trimtab.dev/cpu"
RELEASE = Release("mine", "0.1.0", "default", "", components=("labeller",), labels_nodes=True)
KINDS = (("apps/v1", "Deployment"), ("v1", "ConfigMap"))


def ours(kind: str, name: str, version: str = "v1", **body: Any) -> Object:
    labels = {MANAGED_BY: "trimtab-deploy", "app.kubernetes.io/name": "trimtab"}
    annotations = {DEPLOYED_IN: "mine"}
    metadata = {"name": name, "namespace": "mine", "uid": "u", "labels": labels, "annotations": annotations}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


CONFIG, SCHEDULER = (
    ours("ConfigMap", "trimtab", data={}),
    ours("Deployment", "trimtab", "apps/v1", spec={"replicas": 0}),
)
LABELLER = ours("Deployment", "trimtab-labeller", "apps/v1", spec={"replicas": 0})


def lease(holder: str) -> Object:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    metadata = {"name": "trimtab-labeller", "namespace": "mine", "uid": "u", "resourceVersion": "1"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def installed() -> ObjectServer:
    """An installation with a labeller, which has labelled a node and was stopped."""
    items = (CONFIG, SCHEDULER, LABELLER)
    inventory = to_config_map(inventory_of(RELEASE, map(ref_of, items)), "mine")
    inventory["metadata"]["uid"] = "u"
    node = {"name": "node-1", "uid": "n", "resourceVersion": "3", "labels": {PRESSURE: "true"}}
    return ObjectServer(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": node, "spec": {}},
        *(inventory, lease(""), *items),
    )


def labels(server: ObjectServer) -> dict[str, str]:
    found: dict[str, str] = server.objects["/api/v1/nodes/node-1"]["metadata"]["labels"]
    return found


async def uninstall(server: ObjectServer) -> list[str]:
    said: list[str] = []
    client = ApiClient(server.transport)
    await carry_out_removal(client, await plan_removal(client, "mine", KINDS), 1.0, said.append)
    return said


async def drop_labeller(server: ObjectServer) -> list[str]:
    """`trimtab deploy upgrade --no-labeller`."""
    said: list[str] = []
    client = ApiClient(server.transport)
    plan = await make_plan(client, Release("mine", "0.1.0", "default", ""), [CONFIG, SCHEDULER])
    await carry_out(client, plan, said.append, 1.0)
    return said


def stopped_at_nodes(request: Request) -> None:
    """As Ctrl-C, right before the labels are looked for; the Deployment is deleted by then."""
    if request.path.startswith("/api/v1/nodes"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("command", [uninstall, drop_labeller])
async def test_labels_go_in_the_next_run(command: Any) -> None:
    """Though the labeller's Deployment, whose labels they are, is gone already."""
    server = installed()
    server.on_request = stopped_at_nodes
    with pytest.raises(KeyboardInterrupt):
        await command(server)
    assert (False, {PRESSURE: "true"}) == (server.has("Deployment", "trimtab-labeller"), labels(server))
    server.on_request = lambda request: None
    assert f"node-1: -{PRESSURE}" in await command(server)
    assert ({}, False) == (labels(server), server.has("Lease", "trimtab-labeller"))


async def test_an_upgrade_forgets_the_labeller_once_its_labels_are_gone() -> None:
    """The inventory names it until then, and a third run removes nothing."""
    server = installed()
    server.on_request = stopped_at_nodes
    with pytest.raises(KeyboardInterrupt):
        await drop_labeller(server)
    client = ApiClient(server.transport)
    server.on_request = lambda request: None
    assert labeller_ref("mine") in (await read_inventory(client, "mine") or Inventory(())).objects
    await drop_labeller(server)
    assert labeller_ref("mine") not in (await read_inventory(client, "mine") or Inventory(())).objects
    labels(server)[PRESSURE] = "true"
    await drop_labeller(server)
    assert {PRESSURE: "true"} == labels(server)


async def test_a_removal_waits_for_pods_that_an_earlier_run_has_left() -> None:
    """The workloads are gone, but a pod is not: its scheduler could still write."""
    server = installed()
    pod = ours("Pod", "trimtab-1")
    server.objects["/api/v1/namespaces/mine/pods/trimtab-1"] = pod
    for _ in range(2):
        with pytest.raises(DeployError, match="pods are not gone after 1 s: trimtab-1; check their nodes"):
            await uninstall(server)
    assert server.has("Lease", "trimtab-labeller")


@pytest.mark.parametrize("command", [uninstall, drop_labeller])
async def test_the_lease_of_a_live_labeller_stays(command: Any) -> None:
    """One that runs elsewhere renews it: one sentence, and neither its lease nor its labels are removed."""
    server = installed()
    path = "/apis/coordination.k8s.io/v1/namespaces/mine/leases/trimtab-labeller"
    server.objects[path] = lease("elsewhere")

    def renewing(request: Request) -> None:
        metadata = server.objects[path]["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    server.on_request = renewing
    with pytest.raises(DeployError, match="a labeller still renews Lease mine/trimtab-labeller: stop it"):
        await command(server)
    assert ({PRESSURE: "true"}, True) == (labels(server), server.has("Lease", "trimtab-labeller"))
