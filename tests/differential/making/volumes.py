"""Decides which volumes and claims a question has; leaves the pods that use them to `questions`.

A claim is bound to a volume, or waits for one: at once, or until its pod has a node, where a volume that exists may
match or a driver may make one, if it has the room.
"""

from __future__ import annotations

from tests.differential.making.dice import Dice, Thing, kept
from tests.differential.making.nodes import HOSTNAME, REGION, ZONE, ZONES

DRIVERS = ("csi.example", "ebs.csi.aws.com")
SIZES = ("1Gi", "5Gi", "10Gi")
BOUND = "pv.kubernetes.io/bind-completed"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
PLACE_LABELS = (ZONE, REGION, "failure-domain.beta.kubernetes.io/zone")

CLASSES: list[Thing] = [
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


def mounted(pod: Thing, volumes: list[Thing]) -> Thing:
    """The pod with these volumes, named by their place."""
    named = [{"name": f"v{number}", **each} for number, each in enumerate(volumes)]
    return {**pod, "spec": {**pod["spec"], **kept(volumes=named)}}


def of_claims(names: list[str]) -> list[Thing]:
    return [{"persistentVolumeClaim": {"claimName": name}} for name in names]


def claim(dice: Dice, name: str, class_: str | None, volume: str | None, mode: str = "ReadWriteOnce") -> Thing:
    settled = {BOUND: "yes", "pv.kubernetes.io/bound-by-controller": "yes"} if volume else {}
    chosen = {"volume.kubernetes.io/selected-node": "node-0"} if not volume and dice.chance(8) else {}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    spec = kept(volumeName=volume, storageClassName=class_)
    spec |= {
        "accessModes": [mode],
        "resources": {"requests": {"storage": dice.one(*SIZES)}},
        "volumeMode": "Filesystem",
    }
    return {
        "metadata": {**metadata, **kept(annotations={**settled, **chosen})},
        "spec": spec,
        "status": {"phase": "Bound" if volume else "Lost" if dice.chance(5) else "Pending"},
    }


def ephemeral(dice: Dice, pod: Thing, place: int) -> tuple[Thing, Thing]:
    """A volume that lives as long as its pod, and the claim made for it; now and then that belongs to another."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    made = claim(dice, f"{metadata['name']}-v{place}", "late", None)
    made["metadata"]["ownerReferences"] = [{**owner, "uid": "uid-other"} if dice.chance(20) else owner]
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    return {"ephemeral": {"volumeClaimTemplate": template}}, made


def volume(dice: Dice, name: str, class_: str | None, claimed: str | None) -> Thing:
    reference = {"name": claimed, "namespace": "default", "uid": f"uid-{claimed}"} if claimed else None
    return {
        "metadata": {"name": name, "resourceVersion": "1", **kept(labels=place_labels(dice))},
        "spec": {
            "capacity": {"storage": dice.one(*SIZES)},
            "accessModes": dice.one(["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]),
            "volumeMode": "Filesystem",
            **source(dice, name),
            **kept(storageClassName=class_, claimRef=reference, nodeAffinity=reach(dice)),
        },
        "status": {"phase": "Bound" if claimed else "Available"},
    }


def source(dice: Dice, name: str) -> Thing:
    """A driver's volume, or one of the old kinds that a driver took over."""
    kind = dice.between(0, 9)
    if kind == 9:
        return {"awsElasticBlockStore": {"volumeID": f"aws-{name}"}}
    return {"csi": {"driver": dice.one(*DRIVERS), "volumeHandle": f"handle-{name}" if kind < 8 else "shared"}}


def place_labels(dice: Dice) -> Thing:
    if not dice.chance(35):
        return {}
    return {dice.one(*PLACE_LABELS): "__".join(dice.some(("east", *ZONES), 1, 2))}


def reach(dice: Dice) -> Thing | None:
    if not dice.chance(50):
        return None
    key = dice.one(HOSTNAME, ZONE)
    values = dice.some(("node-0", "node-1", "node-2") if key == HOSTNAME else ZONES, 1, 2)
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def claims(dice: Dice, count: int) -> tuple[list[Thing], list[Thing]]:
    """Claims of every state, and the volumes: those that are bound and some that are free."""
    made, volumes = [], []
    for number in range(count):
        class_ = dice.one(*["late", "local", "zonal"] * 4, "now", "unknown", "", None)
        bound = f"pv-{number}" if dice.chance(45) else None
        made.append(claim(dice, f"claim-{number}", class_, bound, dice.one("ReadWriteOnce", "ReadWriteOncePod")))
        if bound and not dice.chance(6):
            volumes.append(volume(dice, bound, class_, f"claim-{number}"))
    free = [volume(dice, f"free-{number}", dice.one("local", "late"), None) for number in range(dice.between(0, 3))]
    return made, volumes + free


def drivers(dice: Dice) -> Thing:
    """Whether the driver says how much room it has, and where it has it."""
    if not dice.chance(50):
        return {}
    driver = {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": dice.chance(80)}}
    rooms = [capacity(dice, number) for number in range(dice.between(0, 3))]
    return {"csiDrivers": [driver], "csiStorageCapacities": rooms}


def capacity(dice: Dice, number: int) -> Thing:
    topology = dice.one({}, {"matchLabels": {ZONE: dice.one(*ZONES)}}, None)
    return {
        "metadata": {"name": f"room-{number}", "namespace": "default"},
        "storageClassName": dice.one("late", "zonal"),
        **kept(capacity=dice.one("20Gi", "2Gi", None), maximumVolumeSize=dice.one(None, "3Gi")),
        **({"nodeTopology": topology} if topology is not None else {}),
    }


def csi_node(dice: Dice, name: str) -> Thing:
    """How many volumes of each driver the node takes."""
    offered = [
        {"name": driver, "nodeID": name, **kept(allocatable=dice.one({"count": 1}, {"count": 2}, None))}
        for driver in DRIVERS
        if not dice.chance(15)
    ]
    migrated = {"annotations": {MIGRATED: "kubernetes.io/aws-ebs"}} if dice.chance(60) else {}
    return {"metadata": {"name": name, **migrated}, "spec": {"drivers": offered}}


def attachment(dice: Dice, number: int, nodes: list[str], volumes: list[Thing]) -> Thing:
    source = {"persistentVolumeName": dice.one(*volumes)["metadata"]["name"]}
    spec = {"attacher": dice.one(*DRIVERS), "nodeName": dice.one(*nodes), "source": source}
    return {"metadata": {"name": f"attached-{number}"}, "spec": spec, "status": {"attached": True}}


def inline(dice: Dice) -> Thing:
    """Volumes that a pod names itself and that two pods may not always share."""
    return dice.one(
        {"gcePersistentDisk": kept(pdName=dice.one("disk-0", "disk-1"), readOnly=dice.one(None, True))},
        {"awsElasticBlockStore": kept(volumeID=dice.one("ebs-0", "ebs-1"), readOnly=dice.one(None, True))},
        {
            "iscsi": {
                "targetPortal": "10.0.0.1",
                "iqn": dice.one("iqn-0", "iqn-1"),
                "lun": 0,
                "readOnly": dice.chance(50),
            }
        },
        {
            "rbd": {
                "monitors": dice.some(("m0", "m1"), 1, 2),
                "image": "disk",
                "pool": dice.one("rbd", "other"),
                "readOnly": dice.chance(50),
            }
        },
    )
