"""How volumes are counted against a driver's limit on a node."""

from __future__ import annotations

import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.ask_plugin import PASSES, rejection
from tests.core.plugins.storage_builders import claim, storage_class, uses, volume
from trimtab.core.framework.interface import PreFilterStatus
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod, Volume
from trimtab.core.model.storage import CsiNode, VolumeAttachment
from trimtab.core.plugins.node_volume_limits import NodeVolumeLimits

FULL = "node(s) exceed max volume count"
EBS = "ebs.csi.aws.com"


def limited(most: int, driver: str = "disks") -> CsiNode:
    return CsiNode(name="a", uid="csi-a", limits=((driver, most),))


def stored(name: str, driver: str = "disks") -> tuple[Object, Object]:
    """A claim and the volume it is bound to."""
    return claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", driver=driver, handle=f"h-{name}")


STORED = [each for name in ("one", "two", "three") for each in stored(name)]
WEB = pod("web", volumes=uses("one"))


@pytest.mark.parametrize(
    ("most", "standing", "expected"),
    [
        (1, (), ""),
        (0, (), FULL),
        (1, (pod("old", volumes=uses("two"), on="a"),), FULL),
        (2, (pod("old", volumes=uses("two"), on="a"),), ""),
        (2, (pod("old", volumes=uses("two", "three"), on="a"),), FULL),
        (1, (pod("old", volumes=uses("one"), on="a"),), ""),
        (1, (pod("old", volumes=uses("nosuch"), on="a"),), ""),
        (2, (pod("o", volumes=uses("two"), on="a"), pod("p", volumes=uses("two"), on="a")), ""),
    ],
)
def test_pods(most: int, standing: tuple[Pod, ...], expected: str) -> None:
    """Each volume counts once, however many pods use it, and one that is attached already adds nothing."""
    assert expected == rejection(NodeVolumeLimits(), WEB, node("a"), limited(most), *STORED, *standing)


@pytest.mark.parametrize(("volume_name", "expected"), [("pv-two", FULL), ("pv-gone", "")])
def test_attachments(volume_name: str, expected: str) -> None:
    """An attached volume counts although no pod uses it any more, if it can be identified."""
    left = VolumeAttachment(name="x", uid="x", attacher="disks", node="a", volume=volume_name)
    assert expected == rejection(NodeVolumeLimits(), WEB, node("a"), limited(1), *STORED, left)


def test_drivers_are_counted_apart() -> None:
    """Volumes of another driver do not count."""
    others = stored("other", "tapes")
    old = pod("old", volumes=uses("other"), on="a")
    assert PASSES == rejection(NodeVolumeLimits(), WEB, node("a"), limited(1), *STORED, *others, old)


def test_a_claim_without_a_volume_counts_by_its_class() -> None:
    """What will be made is counted as if it were there."""
    unbound, given = claim("new", given="fast"), storage_class("fast", "disks")
    web = pod("web", volumes=uses("new"))
    assert FULL == rejection(NodeVolumeLimits(), web, node("a"), limited(0), unbound, given)
    old_plugin = storage_class("fast", "kubernetes.io/aws-ebs")
    assert FULL == rejection(NodeVolumeLimits(), web, node("a"), limited(0, EBS), unbound, old_plugin)
    never_counted = storage_class("fast", "kubernetes.io/azure-file")
    assert PASSES == rejection(
        NodeVolumeLimits(), web, node("a"), limited(0, "file.csi.azure.com"), unbound, never_counted
    )


def test_a_disk_named_in_the_pod_counts_for_the_driver_that_took_over() -> None:
    """The same disk is one, whether it is named by itself or with its zone."""
    web = pod("web", volumes=[Volume("awsElasticBlockStore", "v", (("volumeID", "vol-1"),))])
    old = pod("old", volumes=[Volume("awsElasticBlockStore", "v", (("volumeID", "aws://zone/vol-1"),))], on="a")
    other = pod("old", volumes=[Volume("awsElasticBlockStore", "v", (("volumeID", "vol-2"),))], on="a")
    assert PASSES == rejection(NodeVolumeLimits(), web, node("a"), limited(1, EBS), old)
    assert FULL == rejection(NodeVolumeLimits(), web, node("a"), limited(1, EBS), other)


def test_looked_at_only_if_need_be() -> None:
    """Pods without attachable volumes are skipped; a missing claim rejects every node."""
    view = cluster(node("a")).view
    assert NodeVolumeLimits().pre_filter(view, pod("plain", volumes=[Volume("csi", "v")])) is PreFilterStatus.SKIP
    words = '! looking up PVC default/one: persistentvolumeclaim "one" not found'
    assert words == rejection(NodeVolumeLimits(), WEB, node("a"))
