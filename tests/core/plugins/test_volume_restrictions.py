"""Which disks and claims pods may share."""

from __future__ import annotations

import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.ask_plugin import PASSES, rejection, rejections
from tests.core.plugins.storage_builders import claim, uses
from trimtab.core.framework.interface import ALL_ROWS, PreFilterStatus, Reject
from trimtab.core.model.pod import Volume
from trimtab.core.model.storage import READ_WRITE_ONCE_POD
from trimtab.core.plugins.volume_restrictions import REASONS, VolumeRestrictions

TAKEN, CLAIMED = REASONS[1], REASONS[2]
ALONE = claim("data", access_modes=(READ_WRITE_ONCE_POD,))
WEB = pod("web", volumes=uses("data"))


def disk(kind: str, read_only: bool = False, **source: str) -> Volume:
    return Volume(kind, "v", tuple(sorted(source.items())), read_only)


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        (disk("gcePersistentDisk", pdName="x"), disk("gcePersistentDisk", pdName="x"), TAKEN),
        (disk("gcePersistentDisk", pdName="x"), disk("gcePersistentDisk", pdName="y"), ""),
        (disk("gcePersistentDisk", pdName="x"), disk("gcePersistentDisk", True, pdName="x"), TAKEN),
        (disk("gcePersistentDisk", True, pdName="x"), disk("gcePersistentDisk", True, pdName="x"), ""),
        (disk("awsElasticBlockStore", True, volumeID="x"), disk("awsElasticBlockStore", True, volumeID="x"), TAKEN),
        (disk("iscsi", iqn="x"), disk("iscsi", True, iqn="x"), TAKEN),
        (disk("rbd", monitors="m,n", image="i"), disk("rbd", monitors="n,o", image="i"), TAKEN),
        (disk("rbd", monitors="m,n", image="i"), disk("rbd", monitors="o", image="i"), ""),
        (disk("rbd", monitors="m", image="i"), disk("rbd", monitors="m", image="j"), ""),
        (disk("rbd", monitors="", image="i"), disk("rbd", monitors="", image="i"), ""),
    ],
)
def test_disks(held: Volume, wanted: Volume, expected: str) -> None:
    """The same disk is shared only by pods that read it, and some not even then."""
    plugin, standing = VolumeRestrictions(), pod("old", volumes=[held], on="a")
    assert expected == rejection(plugin, pod("web", volumes=[wanted]), node("a"), standing)
    assert PASSES == rejection(plugin, pod("web", volumes=[wanted]), node("a"))


def test_a_claim_for_one_pod() -> None:
    """It is rejected everywhere while another pod uses it, and an eviction could help."""
    old = pod("old", volumes=uses("data"), on="a")
    assert {"a": CLAIMED, "b": CLAIMED} == rejections(VolumeRestrictions(), WEB, node("a"), node("b"), old, ALONE)
    shared = claim("data")
    assert {"a": "", "b": ""} == rejections(VolumeRestrictions(), WEB, node("a"), node("b"), old, shared)


def test_what_is_pretended_concerns_its_node_alone() -> None:
    """Without the pod in the way its own node would do; another node would not, for the pod is still there."""
    old = pod("old", volumes=uses("data"), on="a")
    view = cluster(node("a"), node("b"), old, ALONE).view
    assert [0, 2] == VolumeRestrictions().filter(view.with_pods({}, {"a": [old]}), WEB, ALL_ROWS).tolist()
    assert [2, 2] == VolumeRestrictions().filter(view, WEB, ALL_ROWS).tolist()
    free = cluster(node("a"), node("b"), ALONE).view
    assert [2, 0] == VolumeRestrictions().filter(free.with_pods({"a": [old]}), WEB, ALL_ROWS).tolist()


def test_looked_at_only_if_need_be() -> None:
    """Pods without such volumes are skipped, and a missing claim is reported."""
    view = cluster(node("a"), ALONE).view
    assert VolumeRestrictions().pre_filter(view, pod("plain")) is PreFilterStatus.SKIP
    assert VolumeRestrictions().pre_filter(view, WEB) is PreFilterStatus.SKIP
    gone = pod("web", volumes=uses("lost"))
    assert Reject('persistentvolumeclaim "lost" not found') == VolumeRestrictions().pre_filter(view, gone)
