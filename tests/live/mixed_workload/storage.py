"""Volumes and claims of the mixed workload, including some that can never be used."""

from collections.abc import Iterator
from typing import Any

from tests.live.mixed_workload.nodes import ATTACHABLE, DRIVER, HOST, NAMESPACE, POOLS, ZONE
from tests.live.mixed_workload.specs import expression
from tools.controlplane.client import Document

DISKS_A_NODE = 10
LOCAL = POOLS["disks"] * DISKS_A_NODE
ZONAL = 60
ATTACHED = POOLS["attach"] * ATTACHABLE
ALONE = 10
SHARE = {"server": "nfs.example.com", "path": "/data"}


def volume(name: str, storage_class: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A volume that stands ready; its source is among the fields of its spec."""
    fields = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        **spec,
    }
    meta = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": fields}


def claim(name: str, storage_class: str, size: str = "1Gi", mode: str = "ReadWriteOnce", **spec: Any) -> Document:
    """A claim in the workload's namespace."""
    fields = {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": fields}


def only_on(key: str, value: str) -> Document:
    """A volume's node affinity."""
    terms = [{"matchExpressions": [expression(key, "In", value)]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


def pair(
    name: str, *, labels: dict[str, str] | None = None, mode: str = "ReadWriteOnce", **spec: Any
) -> list[Document]:
    """A volume and a claim that name each other, so that they become bound whoever uses them."""
    kept = {"claimRef": {"namespace": NAMESPACE, "name": name}, "accessModes": [mode], **spec}
    if "csi" not in spec:
        kept["nfs"] = SHARE
    return [
        volume(name, "remote", labels=labels, **kept),
        claim(name, "remote", mode=mode, volumeName=name),
    ]


def storage() -> Iterator[Document]:
    """All volumes and claims."""
    for index in range(LOCAL):
        node = f"disks-{index // DISKS_A_NODE:03}"
        yield volume(f"local-{index:03}", "local", local={"path": "/data"}, **only_on(HOST, node))
        yield claim(f"local-{index:03}", "local")
    for index in range(ZONAL):
        zone = "abc"[index % 3]
        where: dict[str, Any] = {"labels": {ZONE: zone}} if index % 2 else only_on(ZONE, zone)
        yield from pair(f"zonal-{index:03}", **where)
    for index in range(ATTACHED + 1):
        yield from pair(f"attached-{index:03}", csi={"driver": DRIVER, "volumeHandle": f"volume-{index}"})
    for index in range(ALONE):
        csi = {"driver": "other.example.com", "volumeHandle": f"alone-{index}"}
        yield from pair(f"alone-{index:03}", mode="ReadWriteOncePod", csi=csi)
    yield from pair("on-mars", **only_on(ZONE, "mars"))
    yield from pair("labelled-mars", labels={ZONE: "mars"})
    yield claim("huge", "local", size="100Gi")
    yield claim("unanswered", "remote", size="100Gi")
