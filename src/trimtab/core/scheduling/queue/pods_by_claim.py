"""Which waiting pods news of storage can help, as far as the objects alone tell; whether it does is left to the plugins.

Most such news is about one claim, and while volumes are bound there are several for each pod that waits: to ask every
pod each time would be work without end. A free volume helps those who could have it; news of classes and nodes, anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.volumes.claims import claim_names
from trimtab.core.framework.volumes.matching import can_bind
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, VolumeAttachment

Pods = Set[str] | None  # UIDs; None stands for anybody
NOBODY: Pods = frozenset()


class PodsByClaim:
    """UIDs of the pods that wait for a node, in the queue or in their stages, by the claims that they use."""

    def __init__(self) -> None:
        self.users: dict[str, set[str]] = {}

    def update(self, pod: Pod, *, pending: bool) -> None:
        for key in _claims(pod) if pod.spec.volumes else ():
            if pending:
                self.users.setdefault(key, set()).add(pod.uid)
            elif key in self.users:
                self.users[key].discard(pod.uid)
                if not self.users[key]:
                    del self.users[key]

    def affected_by(self, cluster: Cluster, before: Object | None, after: Object | None) -> Pods:
        """Whom it may help that the one became the other; None for one that is not there."""
        match after or before:
            case PersistentVolumeClaim() as claim:
                # NodeVolumeLimits counts what pods on a node claim: without it there may be room for one more.
                freed = after is None and claim.key in cluster.node_table.volume_usage.claims
                return None if freed else self._of({claim.key})
            case PersistentVolume() as volume:
                bound = cluster.objects.by_index(PersistentVolumeClaim, "volume").get(volume.name, {})
                free = self._claims(cluster, lambda claim: can_bind(claim, volume)) if volume.claim is None else ()
                return self._of({*bound, *free, *_promised(before), *_promised(after)})
            case CsiStorageCapacity() as left:
                fewer = after is None or _no_more(before, after)
                return NOBODY if fewer else self._of(self._claims(cluster, lambda claim: _has_room(left, claim)))
            case VolumeAttachment() if before is None:
                return NOBODY
        return None

    def _claims(self, cluster: Cluster, which: Callable[[PersistentVolumeClaim], bool]) -> set[str]:
        """Such claims of waiting pods."""
        known = cluster.objects.of_kind(PersistentVolumeClaim)
        return {key for key in self.users if key in known and which(known[key])}

    def _of(self, claims: set[str]) -> Pods:
        return {uid for key in claims for uid in self.users.get(key, ())}

    def copy(self) -> PodsByClaim:
        twin = PodsByClaim()
        twin.users = {key: users.copy() for key, users in self.users.items()}
        return twin


def _claims(pod: Pod) -> Iterator[str]:
    return (f"{pod.namespace}/{name}" for name, _ in claim_names(pod))


def _promised(volume: Object | None) -> Iterator[str]:
    if isinstance(volume, PersistentVolume) and volume.claim is not None:
        yield volume.claim_key


def _has_room(left: CsiStorageCapacity, claim: PersistentVolumeClaim) -> bool:
    same = left.storage_class == claim.storage_class
    return same and not claim.bound and (claim.requested or 0) <= (left.max_volume_size or 0)


def _no_more(before: Object | None, after: Object | None) -> bool:
    """Whether a driver says of the same nodes and class that it has no more left than it had."""
    if not isinstance(before, CsiStorageCapacity) or not isinstance(after, CsiStorageCapacity):
        return False
    same = (before.storage_class, before.topology) == (after.storage_class, after.topology)
    return same and (after.max_volume_size or 0) <= (before.max_volume_size or 0)
