"""Claims, volumes and what CSI drivers report become model values, or Malformed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.build import term
from tests.wire.json_objects import Json, encoded
from trimtab.core.model.objects import Object
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.storage import (
    ClaimRef,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from trimtab.wire.decoding import Malformed
from trimtab.wire.storage import attachments, capacities, claims, classes, csi_drivers, csi_nodes, volumes

META = {"name": "x", "uid": "u", "resourceVersion": "5"}
KNOWN: dict[str, Any] = {"name": "x", "uid": "u", "version": 5}
IN_ZONE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}]}}
EBS: dict[str, Any] = {"in_tree": "kubernetes.io/aws-ebs", "driver": "ebs.csi.aws.com"}
ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def read(reader: Any, document: Json) -> Object | Malformed:
    found: Object | Malformed = reader().read(encoded({"metadata": META, **document}))
    return found


def annotated(**annotations: str) -> Json:
    return {"metadata": {**META, "annotations": annotations}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, {}),
        ({"spec": None, "status": None}, {}),
        ({"spec": {"volumeName": "pv", "storageClassName": "c"}}, {"volume": "pv", "storage_class": "c"}),
        ({"spec": {"resources": {"requests": {"storage": "1Gi"}}}}, {"requested": 1 << 30}),
        ({"spec": {"resources": {"requests": {"storage": "1500m"}}}}, {"requested": 2}),
        ({"spec": {"resources": {"requests": {"cpu": "1"}}}}, {}),
        (
            {"spec": {"accessModes": ["ReadWriteOncePod"], "volumeMode": "Block", "volumeAttributesClassName": "gold"}},
            {"access_modes": ("ReadWriteOncePod",), "volume_mode": "Block", "volume_attributes_class": "gold"},
        ),
        ({"spec": {"selector": {"matchLabels": {"a": "b"}}}}, {"selector": LabelSelector((("a", "b"),))}),
        ({"status": {"phase": "Lost"}}, {"phase": "Lost"}),
        (annotated(**{"pv.kubernetes.io/bind-completed": ""}), {"bind_completed": True}),
        (annotated(**{"volume.kubernetes.io/selected-node": "n"}), {"selected_node": "n"}),
        (annotated(**{"volume.beta.kubernetes.io/storage-class": "old"}), {"storage_class": "old"}),
        ({"metadata": {**META, "deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"terminating": True}),
        (
            {"metadata": {**META, "ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": True}]}},
            {"controller_uid": "b"},
        ),
    ],
)
def test_claims(document: Json, expected: dict[str, Any]) -> None:
    """A claim is read as far as binding it needs."""
    assert PersistentVolumeClaim(**KNOWN, **expected) == read(claims, document)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {}),
        ({"capacity": {"storage": "2Ki"}, "accessModes": ["A"]}, {"capacity": 2048, "access_modes": ("A",)}),
        ({"claimRef": {"namespace": "n", "name": "c"}}, {"claim": ClaimRef("n", "c")}),
        ({"claimRef": {"namespace": "n", "name": "c", "uid": "u"}}, {"claim": ClaimRef("n", "c", "u")}),
        ({"nodeAffinity": {}}, {}),
        ({"nodeAffinity": IN_ZONE}, {"terms": (term("z In a"),)}),
        ({"nodeAffinity": {"required": {}}}, {"terms": ()}),
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {"driver": "d", "handle": "h"}),
        ({"local": {"path": "/mnt"}}, {}),
        ({"azureFile": {"shareName": "s"}}, {"in_tree": "kubernetes.io/azure-file"}),
    ],
)
def test_volumes(spec: Json, expected: dict[str, Any]) -> None:
    """A volume is read as far as finding and reaching it needs."""
    assert PersistentVolume(**KNOWN, **expected) == read(volumes, {"spec": spec})


@pytest.mark.parametrize(
    ("disk", "handle"),
    [("vol-1", "vol-1"), ("aws://zone/vol-1", "vol-1"), ("aws:///vol-1", "vol-1"), ("aws://zone/disk", "")],
)
def test_handles(disk: str, handle: str) -> None:
    """A disk is one, however it is written; one that its driver would not know has no handle."""
    expected = PersistentVolume(**KNOWN, **EBS, handle=handle)
    assert expected == read(volumes, {"spec": {"awsElasticBlockStore": {"volumeID": disk, "partition": 1}}})


@pytest.mark.parametrize(
    ("zones", "handle"),
    [
        ("", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ("us-a-1", "projects/UNSPECIFIED/zones/us-a-1/disks/d"),
        ("us-a-1__us-a-2", "projects/UNSPECIFIED/regions/us-a/disks/d"),
        ("us-a-1__us-b-2", ""),
    ],
)
def test_regional_handles(zones: str, handle: str) -> None:
    """A disk of Google's is called by its zone, or by the one region of its zones."""
    document = {"metadata": {**META, "labels": {ZONE: zones}}, "spec": {"gcePersistentDisk": {"pdName": "d"}}}
    found = read(volumes, document)
    assert isinstance(found, PersistentVolume)
    assert handle == found.handle


@pytest.mark.parametrize(
    ("labels", "lines", "moved"),
    [
        ({}, [], None),
        ({ZONE: "a__b"}, [], (term(f"{EBS_ZONE} In a,b"),)),
        ({BETA: "a"}, [], (term(f"{EBS_ZONE} In a"),)),
        ({}, [f"{ZONE} In a"], (term(f"{EBS_ZONE} In a"),)),
        ({ZONE: "b"}, [f"{ZONE} In a"], (term(f"{EBS_ZONE} In a"),)),
        ({ZONE: "b"}, ["rack In r"], (term("rack In r", f"{EBS_ZONE} In b"),)),
        (
            {},
            [f"{BETA} In a", "failure-domain.beta.kubernetes.io/region In r"],
            (term(f"{EBS_ZONE} In a", "topology.kubernetes.io/region In r"),),
        ),
    ],
)
def test_migrated_zones(labels: dict[str, str], lines: list[str], moved: object) -> None:
    """Zones are put into the words of the driver; the volume's affinity goes before its labels."""
    parts = [line.split(" ") for line in lines]
    expressions = [{"key": key, "operator": operator, "values": [value]} for key, operator, value in parts]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}} if lines else None
    spec = {"awsElasticBlockStore": {"volumeID": "vol-1"}, "nodeAffinity": affinity}
    found = read(volumes, {"metadata": {**META, "labels": labels}, "spec": spec})
    assert isinstance(found, PersistentVolume)
    assert moved == found.migrated_terms


@pytest.mark.parametrize(
    ("reader", "document", "expected"),
    [
        (classes, {}, StorageClass(**KNOWN)),
        (
            classes,
            {"provisioner": "p", "volumeBindingMode": "Immediate"},
            StorageClass(**KNOWN, provisioner="p", binding_mode="Immediate"),
        ),
        (
            classes,
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a", "b"]}]}]},
            StorageClass(**KNOWN, allowed_topologies=(term("z In a,b"),)),
        ),
        (csi_nodes, {"spec": {"drivers": None}}, CsiNode(**KNOWN)),
        (
            csi_nodes,
            {"spec": {"drivers": [{"name": "d", "allocatable": {"count": 3}}, {"name": "e"}]}},
            CsiNode(**KNOWN, limits=(("d", 3),)),
        ),
        (
            csi_nodes,
            annotated(**{"storage.alpha.kubernetes.io/migrated-plugins": "a,b"}),
            CsiNode(**KNOWN, migrated=("a", "b")),
        ),
        (csi_drivers, {"spec": {}}, CsiDriver(**KNOWN)),
        (csi_drivers, {"spec": {"storageCapacity": True}}, CsiDriver(**KNOWN, tracks_capacity=True)),
        (
            capacities,
            {"storageClassName": "c", "capacity": "2", "nodeTopology": {}},
            CsiStorageCapacity(**KNOWN, storage_class="c", max_volume_size=2, topology=LabelSelector()),
        ),
        (
            capacities,
            {"storageClassName": "c", "capacity": "2", "maximumVolumeSize": "1"},
            CsiStorageCapacity(**KNOWN, storage_class="c", max_volume_size=1),
        ),
        (
            attachments,
            {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}},
            VolumeAttachment(**KNOWN, attacher="d", node="n", volume="pv"),
        ),
    ],
)
def test_others(reader: Any, document: Json, expected: Object) -> None:
    """Of all others only what limits where volumes can go is read."""
    assert expected == read(reader, document)


@pytest.mark.parametrize(
    ("reader", "document", "words"),
    [
        (claims, {"spec": {"resources": {"requests": {"storage": "much"}}}}, "'much' is not a quantity"),
        (volumes, {"spec": {"capacity": 3}}, "spec.capacity"),
        (csi_nodes, {"spec": {"drivers": [{"allocatable": {"count": "x"}}]}}, "drivers[0].allocatable.count"),
    ],
)
def test_malformed(reader: Any, document: Json, words: str) -> None:
    """An object that cannot be read is named, with the field that is wrong."""
    found = read(reader, document)
    assert isinstance(found, Malformed)
    assert ("x", "u") == (found.key, found.uid)
    assert words in found.error
