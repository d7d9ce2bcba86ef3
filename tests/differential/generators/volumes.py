"""Random volumes and claims.

A claim is bound to a volume, or waits for one: immediately, or until its pod has a node, where an existing volume may match
or a driver may provision one, if it has capacity.
"""

from __future__ import annotations

from tests.differential.generators.nodes import HOSTNAME, REGION, ZONE, ZONES
from tests.differential.generators.rng import JsonObject, Rng, without_empty

DRIVERS = ("csi.example", "ebs.csi.aws.com")
SIZES = ("1Gi", "5Gi", "10Gi")
BOUND = "pv.kubernetes.io/bind-completed"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
PLACE_LABELS = (ZONE, REGION, "failure-domain.beta.kubernetes.io/zone")

CLASSES: list[JsonObject] = [
    {"metadata": {"name": "now"}, "provisioner": "csi.example", "volumeBindingMode": "Immediate"},
    {"metadata": {"name": "late"}, "provisioner": "csi.example", "volumeBindingMode": "WaitForFirstConsumer"},
    {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {
        "metadata": {"name": "zonal"},
        "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-a", "zone-b"]}]}],
    },
]


def mounted(pod: JsonObject, volumes: list[JsonObject]) -> JsonObject:
    """The pod with these volumes, named by their index."""
    named = [{"name": f"v{number}", **each} for number, each in enumerate(volumes)]
    return {**pod, "spec": {**pod["spec"], **without_empty(volumes=named)}}


def of_claims(names: list[str]) -> list[JsonObject]:
    return [{"persistentVolumeClaim": {"claimName": name}} for name in names]


def claim(rng: Rng, name: str, class_: str | None, volume: str | None, mode: str = "ReadWriteOnce") -> JsonObject:
    settled = {BOUND: "yes", "pv.kubernetes.io/bound-by-controller": "yes"} if volume else {}
    chosen = {"volume.kubernetes.io/selected-node": "node-0"} if not volume and rng.chance(8) else {}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    spec = without_empty(volumeName=volume, storageClassName=class_)
    spec |= {
        "accessModes": [mode],
        "resources": {"requests": {"storage": rng.one(*SIZES)}},
        "volumeMode": "Filesystem",
    }
    return {
        "metadata": {**metadata, **without_empty(annotations={**settled, **chosen})},
        "spec": spec,
        "status": {"phase": "Bound" if volume else "Lost" if rng.chance(5) else "Pending"},
    }


def ephemeral(rng: Rng, pod: JsonObject, place: int) -> tuple[JsonObject, JsonObject]:
    """An ephemeral volume and its claim, which sometimes belongs to another pod."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    made = claim(rng, f"{metadata['name']}-v{place}", "late", None)
    made["metadata"]["ownerReferences"] = [{**owner, "uid": "uid-other"} if rng.chance(20) else owner]
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    return {"ephemeral": {"volumeClaimTemplate": template}}, made


def volume(rng: Rng, name: str, class_: str | None, claimed: str | None) -> JsonObject:
    reference = {"name": claimed, "namespace": "default", "uid": f"uid-{claimed}"} if claimed else None
    return {
        "metadata": {"name": name, "resourceVersion": "1", **without_empty(labels=place_labels(rng))},
        "spec": {
            "capacity": {"storage": rng.one(*SIZES)},
            "accessModes": rng.one(["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]),
            "volumeMode": "Filesystem",
            **source(rng, name),
            **without_empty(storageClassName=class_, claimRef=reference, nodeAffinity=reach(rng)),
        },
        "status": {"phase": "Bound" if claimed else "Available"},
    }


def source(rng: Rng, name: str) -> JsonObject:
    """A CSI volume, or one of an in-tree type migrated to CSI."""
    kind = rng.between(0, 9)
    if kind == 9:
        return {"awsElasticBlockStore": {"volumeID": f"aws-{name}"}}
    return {"csi": {"driver": rng.one(*DRIVERS), "volumeHandle": f"handle-{name}" if kind < 8 else "shared"}}


def place_labels(rng: Rng) -> JsonObject:
    if not rng.chance(35):
        return {}
    return {rng.one(*PLACE_LABELS): "__".join(rng.some(("east", *ZONES), 1, 2))}


def reach(rng: Rng) -> JsonObject | None:
    if not rng.chance(50):
        return None
    key = rng.one(HOSTNAME, ZONE)
    values = rng.some(("node-0", "node-1", "node-2") if key == HOSTNAME else ZONES, 1, 2)
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def claims(rng: Rng, count: int) -> tuple[list[JsonObject], list[JsonObject]]:
    """Claims in every state, and volumes: bound ones and some that are available."""
    made, volumes = [], []
    for number in range(count):
        class_ = rng.one(*["late", "local", "zonal"] * 4, "now", "unknown", "", None)
        bound = f"pv-{number}" if rng.chance(45) else None
        made.append(claim(rng, f"claim-{number}", class_, bound, rng.one("ReadWriteOnce", "ReadWriteOncePod")))
        if bound and not rng.chance(6):
            volumes.append(volume(rng, bound, class_, f"claim-{number}"))
    free = [volume(rng, f"free-{number}", rng.one("local", "late"), None) for number in range(rng.between(0, 3))]
    return made, volumes + free


def drivers(rng: Rng) -> JsonObject:
    """CSIDriver with or without storage capacity, and the capacities."""
    if not rng.chance(50):
        return {}
    driver = {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": rng.chance(80)}}
    rooms = [capacity(rng, number) for number in range(rng.between(0, 3))]
    return {"csiDrivers": [driver], "csiStorageCapacities": rooms}


def capacity(rng: Rng, number: int) -> JsonObject:
    topology = rng.one({}, {"matchLabels": {ZONE: rng.one(*ZONES)}}, None)
    return {
        "metadata": {"name": f"room-{number}", "namespace": "default"},
        "storageClassName": rng.one("late", "zonal"),
        **without_empty(capacity=rng.one("20Gi", "2Gi", None), maximumVolumeSize=rng.one(None, "3Gi")),
        **({"nodeTopology": topology} if topology is not None else {}),
    }


def csi_node(rng: Rng, name: str) -> JsonObject:
    """The volume limits of the node by driver."""
    offered = [
        {"name": driver, "nodeID": name, **without_empty(allocatable=rng.one({"count": 1}, {"count": 2}, None))}
        for driver in DRIVERS
        if not rng.chance(15)
    ]
    migrated = {"annotations": {MIGRATED: "kubernetes.io/aws-ebs"}} if rng.chance(60) else {}
    return {"metadata": {"name": name, **migrated}, "spec": {"drivers": offered}}


def attachment(rng: Rng, number: int, nodes: list[str], volumes: list[JsonObject]) -> JsonObject:
    source = {"persistentVolumeName": rng.one(*volumes)["metadata"]["name"]}
    spec = {"attacher": rng.one(*DRIVERS), "nodeName": rng.one(*nodes), "source": source}
    return {"metadata": {"name": f"attached-{number}"}, "spec": spec, "status": {"attached": True}}


def inline(rng: Rng) -> JsonObject:
    """Inline volumes that two pods cannot always share."""
    return rng.one(
        {"gcePersistentDisk": without_empty(pdName=rng.one("disk-0", "disk-1"), readOnly=rng.one(None, True))},
        {"awsElasticBlockStore": without_empty(volumeID=rng.one("ebs-0", "ebs-1"), readOnly=rng.one(None, True))},
        {
            "iscsi": {
                "targetPortal": "10.0.0.1",
                "iqn": rng.one("iqn-0", "iqn-1"),
                "lun": 0,
                "readOnly": rng.chance(50),
            }
        },
        {
            "rbd": {
                "monitors": rng.some(("m0", "m1"), 1, 2),
                "image": "disk",
                "pool": rng.one("rbd", "other"),
                "readOnly": rng.chance(50),
            }
        },
    )
