"""Which volumes and nodes were promised to whose claims, until the API server says so itself; chooses nothing.

A promise counts only as long as the object it is about has the version it was made on: what the API server says later
goes over it, and a promise that was made on something old is refused by the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.storage import ClaimRef, PersistentVolume, PersistentVolumeClaim

SWEEP_SLACK = 64  # settled plans that may stand around: they change nothing


class StaticBinding(Struct, frozen=True):
    """The volume shall be bound to the claim; `told` says whether the API server needs to be told."""

    volume: str
    version: int
    claim: PersistentVolumeClaim
    bound_by_controller: bool  # whether nobody else had promised the volume to the claim before
    needs_write: bool


class DynamicProvision(Struct, frozen=True):
    """A volume for the claim shall be made where the pod goes; `told` says whether that must still be asked for."""

    claim: PersistentVolumeClaim
    needs_write: bool


class PodVolumes(Struct, frozen=True):
    """All that must be bound before the pod may be bound to the node."""

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
    """Plans by the UID of their pod, and what they promise by volume and by claim; a value, never changed in place."""

    by_pod: Mapping[str, PodVolumes] = {}
    volumes: Mapping[str, StaticBinding] = {}
    claims: Mapping[str, tuple[int, str]] = {}  # version and node
    count_after_sweep: int = 0  # how many were left when those that are settled were last taken out

    @property
    def needs_sweep(self) -> bool:
        """Whether there may be enough settled ones to be worth a look at all."""
        return len(self.by_pod) > 2 * self.count_after_sweep + SWEEP_SLACK

    def with_pod(self, uid: str, volumes: PodVolumes) -> VolumeReservations:
        return VolumeReservations(
            {**self.by_pod, uid: volumes},
            {**self.volumes, **_volumes(volumes)},
            {**self.claims, **_claims(volumes)},
            self.count_after_sweep,
        )

    def without_pods(self, uids: Iterable[str]) -> VolumeReservations:
        gone = set(uids) & self.by_pod.keys()
        left = {uid: plan for uid, plan in self.by_pod.items() if uid not in gone}
        return _index(left, self.count_after_sweep) if gone else self

    def without_settled(self, settled: Iterable[str]) -> VolumeReservations:
        """Undone, too, but because the API server says by itself what these plans said."""
        left = self.without_pods(settled)
        return VolumeReservations(left.by_pod, left.volumes, left.claims, len(left.by_pod))

    def claim_ref_of(self, volume: PersistentVolume) -> ClaimRef | None:
        """Whose the volume is, promises included."""
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
