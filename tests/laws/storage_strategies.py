"""Hypothesis strategies for claims, volumes, classes and drivers, from a few names each so that they match.

Volumes of a pod never change, so they depend on its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.build import term
from tests.core.plugins.storage_builders import claim, claim_ref, storage_class, uses, volume
from trimtab.core.model.node import ZONE
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Volume
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.storage import READ_WRITE_ONCE_POD, CsiDriver, CsiNode, CsiStorageCapacity, VolumeAttachment

VOLUMES: Mapping[str, tuple[Volume, ...]] = {
    "p1": uses("c0"),
    "p2": uses("c1", "c2"),
    "p3": (Volume("gcePersistentDisk", "v", (("pdName", "x"),)), *uses("c1")),
    "p4": (Volume("gcePersistentDisk", "v", (("pdName", "x"),), read_only=True),),
    "p5": (Volume("ephemeral", "tmp"),),
}
CLAIMS = ("c0", "c1", "c2", "p5-tmp")
DISKS = ("d0", "d1", "d2")
CLASSES = ("local", "made")
TERMS = (None, (term("zone In z1"),), (term("zone In z2"), term("disk Exists")))


@st.composite
def claims(draw: Any) -> Object:
    name = draw(st.sampled_from(CLAIMS))
    mode = draw(st.sampled_from(("ReadWriteOnce", READ_WRITE_ONCE_POD)))
    bound = draw(st.sampled_from(("", "", *DISKS)))
    given, node = draw(st.sampled_from(CLASSES)), draw(st.sampled_from((None, None, "a")))
    return claim(
        name,
        gib=draw(st.integers(0, 2)),
        volume=bound,
        given=given,
        access_modes=(mode,),
        selected_node=node,
        controller_uid="uid-p5",
    )


@st.composite
def volumes(draw: Any) -> Object:
    return volume(
        draw(st.sampled_from(DISKS)),
        gib=draw(st.integers(0, 2)),
        given=draw(st.sampled_from(CLASSES)),
        terms=draw(st.sampled_from(TERMS)),
        claim=draw(st.none() | st.sampled_from(CLAIMS).map(claim_ref)),
        access_modes=("ReadWriteOnce", READ_WRITE_ONCE_POD),
        driver="disks",
        handle=draw(st.sampled_from(("h0", "h1"))),
        labels=draw(st.sampled_from(({}, {ZONE: "z1"}))),
    )


def classes() -> st.SearchStrategy[Object]:
    makers = st.sampled_from(("", "disks"))
    return st.builds(lambda name, maker: storage_class(name, maker), st.sampled_from(CLASSES), makers)


def driver_objects(names: tuple[str, ...]) -> st.SearchStrategy[Object]:
    """What drivers and nodes say."""
    node = st.sampled_from(names)
    tracked = st.booleans().map(lambda tracks: CsiDriver(name="disks", uid="disks", tracks_capacity=tracks))
    limited = st.builds(
        lambda name, most: CsiNode(name=name, uid=f"csi-{name}", limits=(("disks", most),)), node, st.integers(0, 2)
    )
    left = st.builds(
        lambda largest: CsiStorageCapacity(
            name="left",
            uid="left",
            storage_class="made",
            topology=LabelSelector((("zone", "z1"),)),
            max_volume_size=largest,
        ),
        st.none() | st.integers(0, 3 << 30),
    )
    attached = st.builds(
        lambda name, disk: VolumeAttachment(name="x", uid="x", attacher="disks", node=name, volume=disk),
        node,
        st.sampled_from(DISKS),
    )
    return tracked | limited | left | attached


def storage(names: tuple[str, ...]) -> st.SearchStrategy[Object]:
    """Anything of all these; `names` are those of nodes."""
    return claims() | volumes() | classes() | driver_objects(names)
