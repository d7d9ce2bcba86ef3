"""Proves which waiting pods are asked when something about storage changes, and that nobody is left out whom it helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from tests.core.engine_harness import OURS, EngineHarness
from tests.core.engine_harness import node as plain_node
from tests.core.plugins.storage_builders import GIB, claim, claim_ref, storage_class, uses, volume
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Rows
from trimtab.core.model.change import Change
from trimtab.core.model.events import ObjectUpserted, PodDeleted
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod, Volume
from trimtab.core.model.storage import CsiNode, CsiStorageCapacity, VolumeAttachment
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.pods_by_claim import PodsByClaim
from trimtab.core.scheduling.queue.queued_pod import QueueState

WEB = pod("web", volumes=uses("data"), scheduler=OURS)
OTHER = pod("other", volumes=[*uses("wish"), Volume("ephemeral", "scratch")], scheduler=OURS)
KEPT = volume("disk", claim=claim_ref("data"))
LEFT = CsiStorageCapacity(name="left", uid="left", storage_class="local", max_volume_size=2 * GIB)
ATTACHED = VolumeAttachment(name="at", uid="at", attacher="disks", node="a", volume="disk")
ANYBODY = None


@pytest.mark.parametrize(
    ("before", "after", "pods"),
    [
        (None, claim("data"), {"uid-web"}),
        (claim("data"), claim("data", volume="disk"), {"uid-web"}),
        (None, claim("other-scratch"), {"uid-other"}),
        (None, claim("strange"), set()),
        (claim("data"), None, {"uid-web"}),
        (claim("used"), None, ANYBODY),
        (None, volume("disk"), {"uid-web"}),
        (volume("disk"), None, {"uid-web"}),
        (None, volume("disk", given="made"), set()),
        (None, volume("disk", gib=0), set()),
        (None, volume("disk", access_modes=("ReadOnlyMany",)), set()),
        (volume("disk", claim=claim_ref("other-scratch")), volume("disk"), {"uid-web", "uid-other"}),
        (volume("disk"), KEPT, {"uid-web"}),
        (None, KEPT, {"uid-web"}),
        (KEPT, None, {"uid-web"}),
        (KEPT, volume("disk", claim=claim_ref("wish")), {"uid-web", "uid-other"}),
        (None, volume("named", claim=claim_ref("strange")), {"uid-other"}),
        (None, storage_class(), ANYBODY),
        (None, CsiNode(name="a", uid="a"), ANYBODY),
        (None, ATTACHED, set()),
        (ATTACHED, None, ANYBODY),
        (None, LEFT, {"uid-web"}),
        (None, replace(LEFT, max_volume_size=1), set()),
        (LEFT, None, set()),
        (LEFT, replace(LEFT, max_volume_size=GIB), set()),
        (LEFT, replace(LEFT, max_volume_size=3 * GIB), {"uid-web"}),
        (replace(LEFT, max_volume_size=3 * GIB, storage_class="other"), LEFT, {"uid-web"}),
        (LEFT, replace(LEFT, max_volume_size=3 * GIB, storage_class="other"), set()),
    ],
)
def test_whom_it_may_help(before: Object | None, after: Object | None, pods: set[str] | None) -> None:
    """A claim and its volume concern those who use the claim; what is free, those who could have it; the rest, anybody."""
    user = pod("user", volumes=uses("used"), on="a")
    known = cluster(node("a"), user, claim("wish", volume="named"), claim("data"))
    claimants = PodsByClaim()
    for each in (WEB, OTHER):
        claimants.update(each, pending=True)
    assert pods == claimants.affected_by(known, before, after)


def test_nobody_who_has_stopped_waiting_is_kept() -> None:
    """A pod that is bound or gone is no claimant any more."""
    scene = EngineHarness()
    scene.upsert(WEB, OTHER)
    scene.bound(WEB, "elsewhere")
    scene.handle(PodDeleted(OTHER.uid, 1.0))
    assert {} == scene.engine.controller(Scheduling).pods_by_claim.users


@dataclass(frozen=True)
class Never:
    """Refuses every node, and is woken by everything about storage."""

    name: ClassVar[str] = "Never"
    requeue_on: ClassVar[Change] = Change.STORAGE

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return np.full(view.count, -1)[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("never",)


def test_only_those_are_woken() -> None:
    """News of another pod's claim leaves a parked pod alone; news of its own, and of a free volume, wakes it."""
    scene = EngineHarness(Never())
    scene.upsert(plain_node("a"), WEB)
    scene.handle(
        ObjectUpserted(storage_class(), 0.0), ObjectUpserted(claim("data"), 0.0), ObjectUpserted(volume("spare"), 0.0)
    )
    parts = []
    for version, news in enumerate((claim("strange"), claim("data", phase="Pending"), volume("free")), start=1):
        scene.turn()
        scene.advance(11.0)
        scene.handle(ObjectUpserted(replace(news, version=version), scene.at))
        parts.append(scene.queue_state(WEB))
    assert [QueueState.UNSCHEDULABLE, QueueState.ACTIVE, QueueState.ACTIVE] == parts
