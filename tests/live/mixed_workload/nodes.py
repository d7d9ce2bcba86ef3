"""The 300 nodes of the mixed workload, in pools, zones and racks, and its classes.

Most nodes are the meadow: without taints, of three sizes, and so large that their pods never compete for resources. Every pod
that depends on few nodes has its own pool behind a taint, where exactly the pods that belong there fit. So which pods are
schedulable does not depend on their order or on the choices made.
"""

from collections.abc import Iterator, Mapping

from tools.controlplane.client import Document
from tools.controlplane.objects import node

ZONE, RACK, HOST, POOL = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname", "example.com/pool"
DEDICATED, GPU, DRIVER = "example.com/dedicated", "example.com/gpu", "disks.example.com"
RACK_SIZE = 10
SIZES = (("4", "8Gi"), ("8", "32Gi"), ("16", "64Gi"))
POOLS = {
    "meadow": 200,
    "cordoned": 10,
    "gpu": 20,
    "edge": 20,
    "snug": 20,
    "disks": 10,
    "attach": 5,
    "close": 5,
    "named": 5,
    "keep": 1,
    "vault": 4,
}
NAMESPACE = "workload"
TEAMS: Mapping[str, Mapping[str, str]] = {
    NAMESPACE: {},
    "red": {"team": "yes"},
    "blue": {"team": "yes"},
    "noisy": {},
}
ATTACHABLE = 4
GPUS = 5
IMAGE = "registry.example.com/app:1"


def nodes() -> Iterator[Document]:
    """All nodes, pool by pool."""
    names = ((pool, index) for pool, count in POOLS.items() for index in range(count))
    return (_node(pool, index) for pool, index in names)


def _node(pool: str, index: int) -> Document:
    cpu, memory = ("10", "64Gi") if pool == "snug" else SIZES[index % 3]
    made = node(
        f"{pool}-{index:03}",
        *(cpu, memory, 250),
        labels={POOL: pool, **_place(pool, index), "disk": "ssd" if index % 2 else "hdd", "age": str(index % 8)},
        taints=_taints(pool, index),
        extended={GPU: str(GPUS)} if pool == "gpu" else None,
    )
    if pool == "cordoned":
        made["spec"]["unschedulable"] = True
    if index % 5 == 0:
        made["status"]["images"] = [{"names": [IMAGE], "sizeBytes": 700_000_000}]
    return made


def _place(pool: str, index: int) -> dict[str, str]:
    """Racks are in zones and only in the meadow; the vault has its own zone."""
    if pool == "vault":
        return {ZONE: "d"}
    if pool != "meadow":
        return {ZONE: "abc"[index % 3]}
    rack = index // RACK_SIZE
    return {ZONE: "abc"[rack % 3], RACK: f"rack-{rack:02}"}


def _taints(pool: str, index: int) -> list[dict[str, str]]:
    if pool == "meadow":
        return [{"key": "example.com/old", "effect": "PreferNoSchedule"}] if index % 7 == 0 else []
    if pool == "cordoned":
        return []
    effect = "NoExecute" if pool == "edge" else "NoSchedule"
    return [{"key": DEDICATED, "value": pool, "effect": effect}]


def classes() -> Iterator[Document]:
    """Priority classes, a runtime class with overhead, and two storage classes."""
    for name, value, policy in (
        ("urgent", 1000, "PreemptLowerPriority"),
        ("patient", 2000, "Never"),
        ("humble", -5, "PreemptLowerPriority"),
        ("lowest", -1000, "PreemptLowerPriority"),
    ):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
        }
    yield {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "caged"},
        "handler": "caged",
        "overhead": {"podFixed": {"cpu": "50m", "memory": "32Mi"}},
    }
    for name, mode in (("local", "WaitForFirstConsumer"), ("remote", "Immediate")):
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": mode,
        }


def csi_nodes() -> Iterator[Document]:
    """The volume limits of the driver in the attach pool."""
    driver = {"name": DRIVER, "nodeID": "it", "topologyKeys": [], "allocatable": {"count": ATTACHABLE}}
    for index in range(POOLS["attach"]):
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": f"attach-{index:03}"},
            "spec": {"drivers": [driver]},
        }
