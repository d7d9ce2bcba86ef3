"""Pods that wait for their volumes, on a real API server with the real volume controller."""

from collections.abc import Iterator

import pytest
import yaml

from tests.live import trimtab_process
from tests.live.audit_checker import Grant, grants
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

NODES = ("worker-1", "worker-2")
BINDER = "persistentvolume-binder-controller"
FIRST_CONSUMER = "WaitForFirstConsumer"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A control plane with the volume controller, Trimtab's roles and two nodes."""
    with Rig(controlplane_or_skip(), controllers=(BINDER,)) as running:
        trimtab_process.install(running)
        running.admin.create_many(node(name) for name in NODES)
        yield running


def storage_class(name: str, provisioner: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": FIRST_CONSUMER,
    }


def volume(name: str, given: str, at: str, size: str = "1Gi", **spec: object) -> Document:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [at]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": given,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            **spec,
        },
    }


def claim(name: str, given: str, size: str = "1Gi") -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": given,
            "resources": {"requests": {"storage": size}},
        },
    }


def user(name: str, *claims: str) -> Document:
    """A pod that uses the claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, scheduler=trimtab_process.SCHEDULER, volumes=volumes)


def claims(rig: Rig) -> dict[str, Document]:
    return {
        each["metadata"]["name"]: each for each in rig.admin.list("/api/v1/namespaces/default/persistentvolumeclaims")
    }


def selected(rig: Rig, name: str) -> str:
    """The selected node of the claim."""
    node: str = claims(rig)[name]["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node", "")
    return node


def available(rig: Rig, name: str) -> bool:
    phase: str = rig.admin.get(f"/api/v1/persistentvolumes/{name}")["status"].get("phase", "")
    return phase == "Available"


def phases(rig: Rig) -> dict[str, str]:
    return {name: each["status"].get("phase", "") for name, each in claims(rig).items()}


def unused(rig: Rig) -> set[Grant]:
    """Permissions of the shipped role for volumes that were not used so far; the audit log must be clean."""
    report = trimtab_process.check_audit_log(rig)
    assert () == report.violations
    return {
        *grants(yaml.safe_load_all((trimtab_process.ROOT / "deploy" / "rbac-volumes.yaml").read_text()))
    } - report.used


def test_pods_with_local_volumes(rig: Rig) -> None:
    """Each pod goes to the node of its volume after its claim is bound; for a third one no volume is left."""
    rig.admin.create(storage_class("local", "kubernetes.io/no-provisioner"))
    rig.admin.create_many(volume(f"disk-{at}", "local", at) for at in NODES)
    names = ("one", "two", "three")
    rig.admin.create_many(claim(name, "local") for name in names)
    trimtab_process.wait_for(
        lambda: available(rig, "disk-worker-2"), 30, "the volume controller", rig.controller_manager
    )
    rig.admin.create_many(user(name, name) for name in names)
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(
            lambda: len(trimtab_process.bound(rig)) == 2, 60, "two pods bound", trimtab, rig.controller_manager
        )
        waits = next(name for name in names if name not in trimtab_process.bound(rig))
        message = "2 node(s) didn't find available persistent volumes to bind"
        trimtab_process.wait_for(
            lambda: message in rig.kubectl("describe", "pod", waits), 20, "why the third waits", trimtab
        )
    finally:
        code = trimtab.terminate()
    assert 0 == code
    placed, bound = trimtab_process.bound(rig), claims(rig)
    assert set(NODES) == set(placed.values())
    assert {name: f"disk-{at}" for name, at in placed.items()} == {
        name: bound[name]["spec"]["volumeName"] for name in placed
    }
    assert {**dict.fromkeys(placed, "Bound"), waits: "Pending"} == phases(rig)
    assert {("patch", "", "persistentvolumeclaims")} == unused(rig)


def test_dynamic_provisioning(rig: Rig) -> None:
    """The claim gets the selected-node annotation; the pod is bound there once the volume is provisioned and bound."""
    rig.admin.create(storage_class("made", "disks.example.com"))
    rig.admin.create(claim("fresh", "made", "3Gi"))
    rig.admin.create(user("needy", "fresh"))
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(lambda: selected(rig, "fresh"), 60, "a node for the claim", trimtab)
        assert "needy" not in trimtab_process.bound(rig)
        chosen, uid = selected(rig, "fresh"), claims(rig)["fresh"]["metadata"]["uid"]
        kept = {"namespace": "default", "name": "fresh", "uid": uid}
        rig.admin.create(volume("made-for-it", "made", chosen, "3Gi", claimRef=kept))
        trimtab_process.wait_for(
            lambda: "needy" in trimtab_process.bound(rig), 60, "the pod bound", trimtab, rig.controller_manager
        )
    finally:
        code = trimtab.terminate()
    assert 0 == code
    assert (chosen, "Bound") == (trimtab_process.bound(rig)["needy"], phases(rig)["fresh"])
    assert unused(rig) <= {("patch", "", "persistentvolumes")}
