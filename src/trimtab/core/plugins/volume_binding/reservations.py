"""Volumes and nodes reserved for claims of pods that are being bound, until the API server reports them itself.

A reservation counts only while its object still has the version it was made for: later versions override it, and a
write based on an old version is rejected by the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.storage import ClaimRef, PersistentVolume, PersistentVolumeClaim

SWEEP_SLACK = 64  # settled reservations that may pile up; they have no effect


class StaticBinding(Struct, frozen=True):
    """The volume will be bound to the claim; `needs_write` says whether its claimRef must still be written."""

    volume: str
    version: int
    claim: PersistentVolumeClaim
    bound_by_controller: bool  # Trimtab sets the claimRef
    needs_write: bool


class DynamicProvision(Struct, frozen=True):
    """A volume will be provisioned for the claim on the pod's node; `needs_write` as above, for the annotation."""

    claim: PersistentVolumeClaim
    needs_write: bool


class PodVolumes(Struct, frozen=True):
    """Everything that must be bound before the pod can be bound to the node."""

    node: str
    static_bindings: tuple[StaticBinding, ...] = ()
    dynamic_provisions: tuple[DynamicProvision, ...] = ()

    @property
    def claims(self) -> Iterable[str]:
        return [
            *(each.claim.key for each in self.static_bindings),
            *(each.claim.key for each in self.dynamic_provisions),
        ]


class VolumeReservations(Struct, frozen=True):
    """Reservations by pod UID, and indexed by volume and claim; an immutable value."""

    by_pod: Mapping[str, PodVolumes] = {}
    volumes: Mapping[str, StaticBinding] = {}
    claims: Mapping[str, tuple[int, str]] = {}  # version and node
    count_after_sweep: int = 0  # after the last sweep

    @property
    def needs_sweep(self) -> bool:
        """Whether enough settled reservations may have piled up to be worth removing."""
        return len(self.by_pod) > 2 * self.count_after_sweep + SWEEP_SLACK

    def with_pod(self, uid: str, volumes: PodVolumes) -> VolumeReservations:
        return VolumeReservations(
            {**self.by_pod, uid: volumes},
            {**self.volumes, **_volumes(volumes)},
            {**self.claims, **_claims(volumes)},
            self.count_after_sweep,
        )

    def without_pods(self, uids: Iterable[str]) -> VolumeReservations:
        removed = set(uids) & self.by_pod.keys()
        remaining = {uid: volumes for uid, volumes in self.by_pod.items() if uid not in removed}
        return _index(remaining, self.count_after_sweep) if removed else self

    def without_settled(self, settled: Iterable[str]) -> VolumeReservations:
        """Without reservations that the API server already reports as done."""
        left = self.without_pods(settled)
        return VolumeReservations(left.by_pod, left.volumes, left.claims, len(left.by_pod))

    def claim_ref_of(self, volume: PersistentVolume) -> ClaimRef | None:
        """The claim a volume belongs to, reservations included."""
        binding = self.volumes.get(volume.name)
        if binding is None or binding.version != volume.version:
            return volume.claim
        return ClaimRef(binding.claim.namespace, binding.claim.name, binding.claim.uid)

    def with_selected_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """The claim as it will be."""
        version, node = self.claims.get(claim.key, (-1, ""))
        return replace(claim, selected_node=node) if version == claim.version else claim


NO_RESERVATIONS = VolumeReservations()


def _index(by_pod: Mapping[str, PodVolumes], count_after_sweep: int) -> VolumeReservations:
    volumes: dict[str, StaticBinding] = {}
    claims: dict[str, tuple[int, str]] = {}
    for plan in by_pod.values():
        volumes |= _volumes(plan)
        claims |= _claims(plan)
    return VolumeReservations(by_pod, volumes, claims, count_after_sweep)


def _volumes(pod_volumes: PodVolumes) -> dict[str, StaticBinding]:
    return {binding.volume: binding for binding in pod_volumes.static_bindings}


def _claims(pod_volumes: PodVolumes) -> dict[str, tuple[int, str]]:
    return {each.claim.key: (each.claim.version, pod_volumes.node) for each in pod_volumes.dynamic_provisions}
