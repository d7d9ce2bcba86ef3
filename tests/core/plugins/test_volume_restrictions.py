"""Proves which disks and claims pods may share."""

from __future__ import annotations

import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.storage import claim, uses
from tests.core.plugins.verdicts import PASSES, refusal, refusals
from trimtab.core.model.pod import Volume
from trimtab.core.model.storage import READ_WRITE_ONCE_POD
from trimtab.core.placing.contract import ALL, Ahead, Refuse
from trimtab.core.plugins.volume_restrictions import WORDS, VolumeRestrictions

TAKEN, CLAIMED = WORDS[1], WORDS[2]
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
    assert expected == refusal(plugin, pod("web", volumes=[wanted]), node("a"), standing)
    assert PASSES == refusal(plugin, pod("web", volumes=[wanted]), node("a"))


def test_a_claim_for_one_pod() -> None:
    """It is refused everywhere while another pod uses it, and by words that an eviction could help against."""
    old = pod("old", volumes=uses("data"), on="a")
    assert {"a": CLAIMED, "b": CLAIMED} == refusals(VolumeRestrictions(), WEB, node("a"), node("b"), old, ALONE)
    shared = claim("data")
    assert {"a": "", "b": ""} == refusals(VolumeRestrictions(), WEB, node("a"), node("b"), old, shared)


def test_what_is_pretended_concerns_its_node_alone() -> None:
    """Without the pod in the way its own node would do; another node would not, for the pod is still there."""
    old = pod("old", volumes=uses("data"), on="a")
    view = cluster(node("a"), node("b"), old, ALONE).view
    assert [0, 2] == VolumeRestrictions().filter(view.with_pods({}, {"a": [old]}), WEB, ALL).tolist()
    assert [2, 2] == VolumeRestrictions().filter(view, WEB, ALL).tolist()
    free = cluster(node("a"), node("b"), ALONE).view
    assert [2, 0] == VolumeRestrictions().filter(free.with_pods({"a": [old]}), WEB, ALL).tolist()


def test_looked_at_only_if_need_be() -> None:
    """Pods without such volumes are not looked at, and a claim that is not there is told of."""
    view = cluster(node("a"), ALONE).view
    assert VolumeRestrictions().prefilter(view, pod("plain")) is Ahead.SKIP
    assert VolumeRestrictions().prefilter(view, WEB) is Ahead.SKIP
    gone = pod("web", volumes=uses("lost"))
    assert Refuse('persistentvolumeclaim "lost" not found') == VolumeRestrictions().prefilter(view, gone)
