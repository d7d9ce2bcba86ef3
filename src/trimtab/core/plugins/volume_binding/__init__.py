"""VolumeBinding: finds nodes where the pod's claims have or can get volumes, and binds those before the pod.

    filter ─▶ reserve: volumes and nodes are reserved for claims ─▶ pre_bind: write to the API server once, then
                 │                                                    │ wait for the volume controller
                 │ a rejection, or the pod was deleted                ├─ every claim bound ─▶ success
                 └◀───────────────────────────────────────────────────┴─ lost, wrong node or timeout ─▶ Reject

Writes are not undone: a volume whose claimRef was written is found as reserved for the claim by the next attempt.
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
from trimtab.core.framework.volumes import claim_names
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
from trimtab.core.plugins.volume_binding import matching
from trimtab.core.plugins.volume_binding.claims import classify
from trimtab.core.plugins.volume_binding.reachability import reachable_nodes
from trimtab.core.plugins.volume_binding.reservations import (
    NO_RESERVATIONS,
    DynamicProvision,
    PodVolumes,
    StaticBinding,
    VolumeReservations,
)

UNUSABLE_CLAIM = -16
REASONS = {
    matching.NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    matching.BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    matching.NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    matching.PV_NOT_EXIST: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


class ReservationLost(Exception):
    """A reservation can no longer be kept; the pod has to be scheduled again."""


@dataclass(frozen=True, slots=True)
class VolumeBinding:
    """Codes are sets of bits below zero: no eviction brings a volume nearer. `shape` is read only to be rejected."""

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
            raise ValueError("bindTimeoutSeconds must not be negative")
        if self.shape:
            raise ValueError("shape is not supported: storage capacity is not scored")

    def needs_kinds_for(self, pod: Pod) -> bool:
        return bool(pod.spec.volumes)

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
        return tuple(reason for bit, reason in REASONS.items() if -code & bit)

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return any_node_passes(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """Storage capacity scoring is behind a feature gate in kube-scheduler, off by default; not implemented."""
        return None

    def reserve(
        self, view: View, state: VolumeReservations | None, pod: Pod, node: str
    ) -> tuple[VolumeReservations | None, StageStatus | Reject]:
        if not pod.spec.volumes:
            return state, StageStatus.SUCCESS
        reservations = state or NO_RESERVATIONS
        claims = classify(view, reservations, pod)
        if isinstance(claims, Reject):
            return state, claims
        if not claims.delayed:
            return state, StageStatus.SUCCESS
        match = matching.find_volumes(view, reservations, claims)
        row = view.row(node)
        if row is None:
            return state, Reject(f"node {node} no longer exists", unresolvable=False)
        if match.errors[row]:
            return state, Reject(", ".join(self.reasons(view, pod, -int(match.errors[row]))))
        volumes = _pod_volumes(view, match, node, row)
        return _sweep(view, reservations).with_pod(pod.uid, volumes), StageStatus.SUCCESS

    def unreserve(self, state: VolumeReservations | None, pod: Pod, node: str) -> VolumeReservations | None:
        return state and state.without_pods([pod.uid])

    def pre_bind(self, view: View, pod: Pod, node: str) -> StageResult:
        if not pod.spec.volumes:
            return StageStatus.SUCCESS
        volumes = _reservations(view).by_pod.get(pod.uid)
        if volumes is None:
            claims = classify(view, NO_RESERVATIONS, pod)
            if isinstance(claims, Reject):
                return claims
            lost = Reject("the volumes are no longer reserved", unresolvable=False)
            return lost if claims.delayed else StageStatus.SUCCESS
        try:
            done = all([*_static_bindings_done(view, volumes), *_provisions_done(view, volumes)])
        except ReservationLost as lost:
            return Reject(f"binding volumes: {lost}", unresolvable=False)
        if done:
            return StageStatus.SUCCESS
        return Wait(self.bind_timeout_seconds, tuple(_instructions(pod, volumes)), Change.STORAGE)


def _reservations(view: View) -> VolumeReservations:
    reservations: VolumeReservations | None = view.plugin_state(VolumeBinding.name)
    return reservations or NO_RESERVATIONS


def _pod_volumes(view: View, match: matching.MatchResult, node: str, row: int) -> PodVolumes:
    bindings = []
    for claim, volumes, chosen in match.matches:
        if chosen[row] != matching.NO_VOLUME:
            volume = volumes[chosen[row]]
            reserved = volume.claim is not None and volume.claim.refers_to(claim)
            needs_write = volume.claim is None or volume.claim.uid != claim.uid
            bindings.append(StaticBinding(volume.name, volume.version, claim, not reserved, needs_write))
    observed = view.objects.of_kind(PersistentVolumeClaim)
    to_provision = [claim for claim, needed in match.to_provision if needed[row]]
    provisions = [DynamicProvision(each, observed[each.key].selected_node != node) for each in to_provision]
    return PodVolumes(node, tuple(bindings), tuple(provisions))


def _sweep(view: View, reservations: VolumeReservations) -> VolumeReservations:
    if not reservations.needs_sweep:
        return reservations
    return reservations.without_settled([uid for uid, each in reservations.by_pod.items() if _settled(view, each)])


def _settled(view: View, reserved: PodVolumes) -> bool:
    """Whether the API server already reports what was reserved."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    current = (claims.get(key) for key in reserved.claims)
    return all(claim is None or (claim.bound and claim.volume in volumes) for claim in current)


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


def _static_bindings_done(view: View, reserved: PodVolumes) -> Iterator[bool]:
    """For each statically bound volume, whether its claim is bound by now."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    for binding in reserved.static_bindings:
        volume, claim = volumes.get(binding.volume), claims.get(binding.claim.key)
        if volume is None or claim is None:
            raise ReservationLost(f"{binding.volume if volume is None else binding.claim.key} no longer exists")
        if binding.needs_write and volume.version == binding.version:
            yield False
            continue
        if volume.claim is None or volume.claim.uid != binding.claim.uid:
            raise ReservationLost(f'ClaimRef got reset for pv "{volume.name}"')
        _check_reachable(view, volume, reserved.node)
        yield claim.bound


def _provisions_done(view: View, reserved: PodVolumes) -> Iterator[bool]:
    """For each provisioned claim, whether it is bound by now."""
    claims, volumes = view.objects.of_kind(PersistentVolumeClaim), view.objects.of_kind(PersistentVolume)
    for provision in reserved.dynamic_provisions:
        claim = claims.get(provision.claim.key)
        if claim is None:
            raise ReservationLost(f"{provision.claim.key} no longer exists")
        if provision.needs_write and claim.version == provision.claim.version:
            yield False
            continue
        if claim.selected_node != reserved.node:  # the provisioner removes it when it cannot provision there
            raise ReservationLost(f'provisioning failed for PVC "{claim.name}"')
        volume = volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            _check_reachable(view, volume, reserved.node)
        yield claim.bound and volume is not None


def _check_reachable(view: View, volume: PersistentVolume, node: str) -> None:
    nodes, row = reachable_nodes(view, volume), view.row(node)
    if row is None or (nodes is not None and not nodes[row]):
        raise ReservationLost(f'pv "{volume.name}" node affinity doesn\'t match node "{node}"')
