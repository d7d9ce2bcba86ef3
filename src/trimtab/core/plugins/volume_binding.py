"""VolumeBinding: finds nodes where the pod's claims have or can get volumes, and sees to it that they do before it is bound.

    filter ─▶ reserve: volumes and nodes are promised to claims ─▶ pre_bind: the API server is told once, then
                 │                                                   │ waits while the volume controller works
                 │ a refusal, or the pod is gone                     ├─ every claim bound ─▶ Go
                 └◀──────────────────────────────────────────────────┴─ undone, or the wrong node, or too late ─▶ Refuse

What was told stays told: a volume that was promised to a claim will be found as kept for it by the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.instruction import BindVolume, Instruction, SelectNode
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from trimtab.core.placing.contract import (
    Ahead,
    Go,
    Ints,
    Normalise,
    Prefiltered,
    Refuse,
    Rows,
    Staged,
    Wait,
    passes_somewhere,
)
from trimtab.core.placing.volumes import matching
from trimtab.core.placing.volumes.claims import names, sort
from trimtab.core.placing.volumes.plans import NONE, Binding, Plan, Plans, Provision
from trimtab.core.placing.volumes.reach import reachable

UNUSABLE = -16
WORDS = {
    matching.OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    matching.NOTHING_TO_BIND: "node(s) didn't find available persistent volumes to bind",
    matching.NO_SPACE: "node(s) did not have enough free storage",
    matching.VOLUME_GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


class Undone(Exception):
    """What was promised has come to nothing; the pod must look for a node again."""


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    """Codes are sets of bits below zero: no eviction brings a volume nearer. `shape` is read only to be refused."""

    name: ClassVar[str] = "VolumeBinding"
    woken_by: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS | Change.STORAGE | Change.MEMORY
    normalise: ClassVar[Normalise] = Normalise.NONE
    watches: ClassVar[tuple[str, ...]] = tuple(
        kind.kind
        for kind in (
            PersistentVolumeClaim,
            PersistentVolume,
            StorageClass,
            CsiNode,
            CsiDriver,
            CsiStorageCapacity,
        )
    )

    bind_timeout_seconds: int = 600
    shape: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.bind_timeout_seconds < 0:
            raise ValueError("bindTimeoutSeconds: must not be below 0")
        if self.shape:
            raise ValueError("shape: storage capacity is not scored; leave it out")

    def prefilter(self, view: View, pod: Pod) -> Prefiltered:
        if not pod.spec.volumes or next(names(pod), None) is None:
            return Ahead.SKIP
        claims = sort(view, _plans(view), pod)
        return claims if isinstance(claims, Refuse) else Ahead.GO

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        claims = sort(view, _plans(view), pod)
        if isinstance(claims, Refuse):
            return np.full(view.count, UNUSABLE)[rows]
        return -matching.find(view, _plans(view), claims).faults[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        claims = sort(view, _plans(view), pod)
        if isinstance(claims, Refuse):
            return (claims.reason,)
        return tuple(words for bit, words in WORDS.items() if -code & bit)

    def wakes(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return passes_somewhere(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """No opinion: how full volumes would get counts in kube-scheduler only behind a feature gate that is off."""
        return None

    def reserve(self, view: View, memory: Plans | None, pod: Pod, node: str) -> tuple[Plans | None, Go | Refuse]:
        if not pod.spec.volumes:
            return memory, Go.GO
        plans = memory or NONE
        claims = sort(view, plans, pod)
        if isinstance(claims, Refuse):
            return memory, claims
        if not claims.delayed:
            return memory, Go.GO
        found = matching.find(view, plans, claims)
        row = view.row(node)
        if row is None:
            return memory, Refuse(f"node {node} no longer exists", final=False)
        if found.faults[row]:
            return memory, Refuse(", ".join(self.reasons(view, pod, -int(found.faults[row]))))
        return _swept(view, plans).made(pod.uid, _plan(view, found, node, row)), Go.GO

    def unreserve(self, memory: Plans | None, pod: Pod, node: str) -> Plans | None:
        return memory and memory.undone([pod.uid])

    def pre_bind(self, view: View, pod: Pod, node: str) -> Staged:
        if not pod.spec.volumes:
            return Go.GO
        plan = _plans(view).of.get(pod.uid)
        if plan is None:
            claims = sort(view, NONE, pod)
            if isinstance(claims, Refuse):
                return claims
            return Refuse("its volumes are not promised any more", final=False) if claims.delayed else Go.GO
        try:
            done = all([*_bound(view, plan), *_made(view, plan)])
        except Undone as undone:
            return Refuse(f"binding volumes: {undone}", final=False)
        return Go.GO if done else Wait(self.bind_timeout_seconds, tuple(_wishes(pod, plan)), Change.STORAGE)


def _plans(view: View) -> Plans:
    plans: Plans | None = view.memory(VolumeBinding.name)
    return plans or NONE


def _plan(view: View, found: matching.Found, node: str, row: int) -> Plan:
    bindings = []
    for claim, volumes, chosen in found.matches:
        if chosen[row] != matching.NONE:
            volume = volumes[chosen[row]]
            kept = volume.claim is not None and volume.claim.means(claim)
            told = volume.claim is None or volume.claim.uid != claim.uid
            bindings.append(Binding(volume.name, volume.version, claim, not kept, told))
    seen = view.objects.of(PersistentVolumeClaim)
    made = [claim for claim, needed in found.made if needed[row]]
    return Plan(node, tuple(bindings), tuple(Provision(each, seen[each.key].selected_node != node) for each in made))


def _swept(view: View, plans: Plans) -> Plans:
    if not plans.crowded:
        return plans
    return plans.without([uid for uid, plan in plans.of.items() if _settled(view, plan)])


def _settled(view: View, plan: Plan) -> bool:
    """Whether the API server says by itself what the plan said, and a pod that waits for it would see it."""
    claims, volumes = view.objects.of(PersistentVolumeClaim), view.objects.of(PersistentVolume)
    held = (claims.get(key) for key in plan.claims)
    return all(claim is None or (claim.bound and claim.volume in volumes) for claim in held)


def _wishes(pod: Pod, plan: Plan) -> Iterator[Instruction]:
    for binding in plan.bindings:
        if binding.told:
            claim = binding.claim
            yield BindVolume(
                pod.uid, binding.volume, binding.version, claim.namespace, claim.name, claim.uid, binding.by_us
            )
    for provision in plan.provisions:
        if provision.told:
            claim = provision.claim
            yield SelectNode(pod.uid, claim.namespace, claim.name, claim.version, plan.node)


def _bound(view: View, plan: Plan) -> Iterator[bool]:
    """For each volume that was promised, whether its claim is bound by now."""
    claims, volumes = view.objects.of(PersistentVolumeClaim), view.objects.of(PersistentVolume)
    for binding in plan.bindings:
        volume, claim = volumes.get(binding.volume), claims.get(binding.claim.key)
        if volume is None or claim is None:
            raise Undone(f"{binding.volume if volume is None else binding.claim.key} is gone")
        if binding.told and volume.version == binding.version:
            yield False
            continue
        if volume.claim is None or volume.claim.uid != binding.claim.uid:
            raise Undone(f'ClaimRef got reset for pv "{volume.name}"')
        _check_reach(view, volume, plan.node)
        yield claim.bound


def _made(view: View, plan: Plan) -> Iterator[bool]:
    """For each claim whose volume is made, whether it is bound by now."""
    claims, volumes = view.objects.of(PersistentVolumeClaim), view.objects.of(PersistentVolume)
    for provision in plan.provisions:
        claim = claims.get(provision.claim.key)
        if claim is None:
            raise Undone(f"{provision.claim.key} is gone")
        if provision.told and claim.version == provision.claim.version:
            yield False
            continue
        if claim.selected_node != plan.node:  # the provisioner takes it away when it cannot make the volume there
            raise Undone(f'provisioning failed for PVC "{claim.name}"')
        volume = volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            _check_reach(view, volume, plan.node)
        yield claim.bound and volume is not None


def _check_reach(view: View, volume: PersistentVolume, node: str) -> None:
    nodes, row = reachable(view, volume), view.row(node)
    if row is None or (nodes is not None and not nodes[row]):
        raise Undone(f'pv "{volume.name}" node affinity doesn\'t match node "{node}"')
