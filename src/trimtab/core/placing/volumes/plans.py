"""Which volumes and nodes were promised to whose claims, until the API server says so itself; chooses nothing.

A promise counts only as long as the object it is about has the version it was made on: what the API server says later
goes over it, and a promise that was made on something old is refused by the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.storage import ClaimRef, PersistentVolume, PersistentVolumeClaim

SPARE = 64  # settled plans that may stand around: they change nothing


class Binding(Struct, frozen=True):
    """The volume shall be bound to the claim; `told` says whether the API server needs to be told."""

    volume: str
    version: int
    claim: PersistentVolumeClaim
    by_us: bool  # whether nobody else had promised the volume to the claim before
    told: bool


class Provision(Struct, frozen=True):
    """A volume for the claim shall be made where the pod goes; `told` says whether that must still be asked for."""

    claim: PersistentVolumeClaim
    told: bool


class Plan(Struct, frozen=True):
    """All that must be bound before the pod may be bound to the node."""

    node: str
    bindings: tuple[Binding, ...] = ()
    provisions: tuple[Provision, ...] = ()

    @property
    def claims(self) -> Iterable[str]:
        return [*(each.claim.key for each in self.bindings), *(each.claim.key for each in self.provisions)]


class Plans(Struct, frozen=True):
    """Plans by the UID of their pod, and what they promise by volume and by claim; a value, never changed in place."""

    of: Mapping[str, Plan] = {}
    volumes: Mapping[str, Binding] = {}
    claims: Mapping[str, tuple[int, str]] = {}  # version and node
    swept: int = 0  # how many were left when those that are settled were last taken out

    @property
    def crowded(self) -> bool:
        """Whether there may be enough settled ones to be worth a look at all."""
        return len(self.of) > 2 * self.swept + SPARE

    def made(self, uid: str, plan: Plan) -> Plans:
        return Plans(
            {**self.of, uid: plan},
            {**self.volumes, **_volumes(plan)},
            {**self.claims, **_claims(plan)},
            self.swept,
        )

    def undone(self, uids: Iterable[str]) -> Plans:
        gone = set(uids) & self.of.keys()
        left = {uid: plan for uid, plan in self.of.items() if uid not in gone}
        return _indexed(left, self.swept) if gone else self

    def without(self, settled: Iterable[str]) -> Plans:
        """Undone, too, but because the API server says by itself what these plans said."""
        left = self.undone(settled)
        return Plans(left.of, left.volumes, left.claims, len(left.of))

    def promised(self, volume: PersistentVolume) -> ClaimRef | None:
        """Whose the volume is, promises included."""
        binding = self.volumes.get(volume.name)
        if binding is None or binding.version != volume.version:
            return volume.claim
        return ClaimRef(binding.claim.namespace, binding.claim.name, binding.claim.uid)

    def claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """The claim as it will be."""
        version, node = self.claims.get(claim.key, (-1, ""))
        return replace(claim, selected_node=node) if version == claim.version else claim


NONE = Plans()


def _indexed(plans: Mapping[str, Plan], swept: int) -> Plans:
    volumes: dict[str, Binding] = {}
    claims: dict[str, tuple[int, str]] = {}
    for plan in plans.values():
        volumes |= _volumes(plan)
        claims |= _claims(plan)
    return Plans(plans, volumes, claims, swept)


def _volumes(plan: Plan) -> dict[str, Binding]:
    return {binding.volume: binding for binding in plan.bindings}


def _claims(plan: Plan) -> dict[str, tuple[int, str]]:
    return {each.claim.key: (each.claim.version, plan.node) for each in plan.provisions}
