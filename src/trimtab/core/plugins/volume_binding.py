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
from trimtab.core.framework.interface import (
    Ints,
    Normalise,
    PreFilterResult,
    PreFilterStatus,
    Reject,
    Rows,
    StageResult,
    StageStatus,
    Wait,
    any_node_passes,
)
from trimtab.core.framework.volumes import matching
from trimtab.core.framework.volumes.claims import claim_names, classify
from trimtab.core.framework.volumes.reachability import reachable_nodes
from trimtab.core.framework.volumes.reservations import (
    NO_RESERVATIONS,
    DynamicProvision,
    PodVolumes,
    StaticBinding,
    VolumeReservations,
)
from trimtab.core.model.change import Change
from trimtab.core.model.duration import INT64
from trimtab.core.model.instructions import BindVolume, Instruction, SelectNode
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import Support, setting
from trimtab.core.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

UNUSABLE_CLAIM = -16
REASONS = {
    matching.NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    matching.BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    matching.NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    matching.PV_NOT_EXIST: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


class ReservationLost(Exception):
    """What was promised has come to nothing; the pod must look for a node again."""


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    """Codes are sets of bits below zero: no eviction brings a volume nearer. `shape` is read only to be refused."""

    name: ClassVar[str] = "VolumeBinding"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS | Change.STORAGE | Change.PLUGIN_STATE
    normalise: ClassVar[Normalise] = Normalise.NONE
    needs_kinds: ClassVar[tuple[str, ...]] = tuple(
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

    bind_timeout_seconds: int = setting(600, "600 unless set: how long a pod waits for its volumes", between=(0, INT64))
    shape: tuple[str, ...] = setting(
        (), "storage capacity is not scored (in kube-scheduler an alpha feature, off)", support=Support.REJECTED
    )

    def __post_init__(self) -> None:
        if self.bind_timeout_seconds < 0:
            raise ValueError("bindTimeoutSeconds: must not be below 0")
        if self.shape:
            raise ValueError("shape: storage capacity is not scored; leave it out")

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        if not pod.spec.volumes or next(claim_names(pod), None) is None:
            return PreFilterStatus.SKIP
        claims = classify(view, _reservations(view), pod)
        return claims if isinstance(claims, Reject) else PreFilterStatus.SUCCESS

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        claims = classify(view, _reservations(view), pod)
        if isinstance(claims, Reject):
            return np.full(view.count, UNUSABLE_CLAIM)[rows]
        return -matching.find_volumes(view, _reservations(view), claims).errors[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        claims = classify(view, _reservations(view), pod)
        if isinstance(claims, Reject):
            return (claims.reason,)
        return tuple(words for bit, words in REASONS.items() if -code & bit)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """No opinion: how full volumes would get counts in kube-scheduler only behind a feature gate that is off."""
        return None

    def reserve(
        self, view: View, state: VolumeReservations | None, pod: Pod, node: str
    ) -> tuple[VolumeReservations | None, StageStatus | Reject]:
        if not pod.spec.volumes:
            return state, StageStatus.SUCCESS
        plans = state or NO_RESERVATIONS
        claims = classify(view, plans, pod)
        if isinstance(claims, Reject):
            return state, claims
        if not claims.delayed:
            return state, StageStatus.SUCCESS
        found = matching.find_volumes(view, plans, claims)
        row = view.row(node)
        if row is None:
            return state, Reject(f"node {node} no longer exists", unresolvable=False)
        if found.errors[row]:
            return state, Reject(", ".join(self.reasons(view, pod, -int(found.errors[row]))))
        return _sweep(view, plans).with_pod(pod.uid, _pod_volumes(view, found, node, row)), StageStatus.SUCCESS

    def unreserve(self, state: VolumeReservations | None, pod: Pod, node: str) -> VolumeReservations | None:
        return state and state.without_pods([pod.uid])

    def pre_bind(self, view: View, pod: Pod, node: str) -> StageResult:
        if not pod.spec.volumes:
            return StageStatus.SUCCESS
        plan = _reservations(view).by_pod.get(pod.uid)
        if plan is None:
            claims = classify(view, NO_RESERVATIONS, pod)
            if isinstance(claims, Reject):
                return claims
            return (
                Reject("its volumes are not promised any more", unresolvable=False)
                if claims.delayed
                else StageStatus.SUCCESS
            )
        try:
            done = all([*_static_bindings_done(view, plan), *_provisions_done(view, plan)])
        except ReservationLost as undone:
            return Reject(f"binding volumes: {undone}", unresolvable=False)
        return (
            StageStatus.SUCCESS
            if done
            else Wait(self.bind_timeout_seconds, tuple(_instructions(pod, plan)), Change.STORAGE)
        )


def _reservations(view: View) -> VolumeReservations:
    plans: VolumeReservations | None = view.plugin_state(VolumeBinding.name)
    return plans or NO_RESERVATIONS


def _pod_volumes(view: View, match: matching.MatchResult, node: str, row: int) -> PodVolumes:
    bindings = []
    for claim, volumes, chosen in match.matches:
        if chosen[row] != matching.NO_VOLUME:
            volume = volumes[chosen[row]]
            kept = volume.claim is not None and volume.claim.refers_to(claim)
            told = volume.claim is None or volume.claim.uid != claim.uid
            bindings.append(StaticBinding(volume.name, volume.version, claim, not kept, told))
    seen = view.objects.of_kind(PersistentVolumeClaim)
    made = [claim for claim, needed in match.to_provision if needed[row]]
    return PodVolumes(
        node, tuple(bindings), tuple(DynamicProvision(each, seen[each.key].selected_node != node) for each in made)
    )


def _sweep(view: View, reservations: VolumeReservations) -> VolumeReservations:
    if not reservations.needs_sweep:
        return reservations
    return reservations.without_settled([uid for uid, plan in reservations.by_pod.items() if _settled(view, plan)])


def _settled(view: View, plan: PodVolumes) -> bool:
    """Whether the API server says by itself what the plan said, and a pod that waits for it would see it."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    held = (claims.get(key) for key in plan.claims)
    return all(claim is None or (claim.bound and claim.volume in volumes) for claim in held)


def _instructions(pod: Pod, volumes: PodVolumes) -> Iterator[Instruction]:
    for binding in volumes.static_bindings:
        if binding.needs_write:
            claim = binding.claim
            yield BindVolume(
                pod.uid,
                binding.volume,
                binding.version,
                claim.namespace,
                claim.name,
                claim.uid,
                binding.bound_by_controller,
            )
    for provision in volumes.dynamic_provisions:
        if provision.needs_write:
            claim = provision.claim
            yield SelectNode(pod.uid, claim.namespace, claim.name, claim.version, volumes.node)


def _static_bindings_done(view: View, plan: PodVolumes) -> Iterator[bool]:
    """For each volume that was promised, whether its claim is bound by now."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    for binding in plan.static_bindings:
        volume, claim = volumes.get(binding.volume), claims.get(binding.claim.key)
        if volume is None or claim is None:
            raise ReservationLost(f"{binding.volume if volume is None else binding.claim.key} is gone")
        if binding.needs_write and volume.version == binding.version:
            yield False
            continue
        if volume.claim is None or volume.claim.uid != binding.claim.uid:
            raise ReservationLost(f'ClaimRef got reset for pv "{volume.name}"')
        _check_reachable(view, volume, plan.node)
        yield claim.bound


def _provisions_done(view: View, plan: PodVolumes) -> Iterator[bool]:
    """For each claim whose volume is made, whether it is bound by now."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    for provision in plan.dynamic_provisions:
        claim = claims.get(provision.claim.key)
        if claim is None:
            raise ReservationLost(f"{provision.claim.key} is gone")
        if provision.needs_write and claim.version == provision.claim.version:
            yield False
            continue
        if claim.selected_node != plan.node:  # the provisioner takes it away when it cannot make the volume there
            raise ReservationLost(f'provisioning failed for PVC "{claim.name}"')
        volume = volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            _check_reachable(view, volume, plan.node)
        yield claim.bound and volume is not None


def _check_reachable(view: View, volume: PersistentVolume, node: str) -> None:
    nodes, row = reachable_nodes(view, volume), view.row(node)
    if row is None or (nodes is not None and not nodes[row]):
        raise ReservationLost(f'pv "{volume.name}" node affinity doesn\'t match node "{node}"')
