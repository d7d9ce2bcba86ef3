"""Labelled volumes are used only in their zones, and which claims are rejected before any node is evaluated."""

from __future__ import annotations

import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.ask_plugin import rejections
from tests.core.plugins.storage_builders import claim, storage_class, uses, volume
from trimtab.core.framework.interface import PreFilterStatus, Reject
from trimtab.core.model.csi_migration import BETA_ZONE
from trimtab.core.model.node import REGION, ZONE
from trimtab.core.model.objects import Object
from trimtab.core.plugins.volume_zone import VolumeZone

NODES = (
    node("a", labels={ZONE: "a"}),
    node("b", labels={ZONE: "b"}),
    node("old", labels={BETA_ZONE: "a"}),
    node("nowhere", labels={"rack": "1"}),
)
AWAY = "! node(s) had no available volume zone"
WEB = pod("web", volumes=uses("data"))
BOUND = claim("data", volume="disk")


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        ({ZONE: "a"}, {"b", "old"}),
        ({BETA_ZONE: "a"}, {"b"}),
        ({ZONE: "a__b"}, {"old"}),
        ({ZONE: "a__"}, set()),
        ({REGION: "x"}, {"a", "b", "old"}),
    ],
)
def test_zones(labels: dict[str, str], refused: set[str]) -> None:
    """Nodes in another zone are rejected; an old label of a volume is met by a new one of a node, not the other way round."""
    told = rejections(VolumeZone(), WEB, *NODES, BOUND, volume("disk", labels=labels))
    assert {each.name: AWAY if each.name in refused else "" for each in NODES} == told


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ((), 'persistentvolumeclaim "data" not found'),
        ((BOUND,), 'persistentvolume "disk" not found'),
        ((claim("data", given=""),), "PersistentVolumeClaim had no pv name and storageClass name"),
        ((claim("data"),), 'storageclass.storage.k8s.io "local" not found'),
        ((claim("data"), storage_class(binding_mode=None)), 'VolumeBindingMode not set for StorageClass "local"'),
        ((claim("data"), storage_class(binding_mode="Immediate")), "PersistentVolume had no name"),
    ],
)
def test_refused_before_any_node(objects: tuple[Object, ...], words: str) -> None:
    """A claim whose volume is unknown is reported with kube-scheduler's message."""
    assert Reject(words) == VolumeZone().pre_filter(cluster(*NODES, *objects).view, WEB)


@pytest.mark.parametrize("objects", [(claim("data"), storage_class()), (BOUND, volume("disk"))])
def test_skipped(objects: tuple[Object, ...]) -> None:
    """A claim that gets its volume with the pod, and a volume without zones, are no business of the plugin."""
    assert VolumeZone().pre_filter(cluster(*NODES, *objects).view, WEB) is PreFilterStatus.SKIP


def test_wakes() -> None:
    """An unschedulable pod is woken by the node that its volume can be used on, not by another one."""
    held = cluster(NODES[1], BOUND, volume("disk", labels={ZONE: "a"}))
    assert not VolumeZone().queueing_hint(held.view, WEB, VolumeZone.requeue_on, slice(None))
    held.upsert_node(NODES[0])
    assert VolumeZone().queueing_hint(held.view, WEB, VolumeZone.requeue_on, slice(None))
