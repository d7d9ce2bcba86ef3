"""Index from PersistentVolumeClaim to pending pods, so that storage events requeue only the pods that they may help.

Most storage events are about one claim, and while volumes are bound there are several for each pending pod: to ask every
unschedulable pod each time would not scale. A free volume helps the claims that can bind it; events about storage classes
and nodes may help any pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.volumes import can_bind, claim_names
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, VolumeAttachment

Pods = Set[str] | None  # UIDs; None stands for all pods
NO_PODS: Pods = frozenset()


class PodsByClaim:
    """UIDs of pending pods, in the queue or in their binding cycle, by the claims that they use."""

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
        """The pods that this change of an object may help; an added or deleted object has no `before` or `after`."""
        match after or before:
            case PersistentVolumeClaim() as claim:
                # NodeVolumeLimits counts the claims in use on a node: without this one there may be room for another.
                freed = after is None and claim.key in cluster.node_table.volume_usage.claims
                return None if freed else self._of({claim.key})
            case PersistentVolume() as volume:
                bound = cluster.objects.by_index(PersistentVolumeClaim, "volume").get(volume.name, {})
                free = self._claims(cluster, lambda claim: can_bind(claim, volume)) if volume.claim is None else ()
                return self._of({*bound, *free, *_claim_of(before), *_claim_of(after)})
            case CsiStorageCapacity() as capacity:
                not_grown = after is None or _not_grown(before, after)
                return (
                    NO_PODS if not_grown else self._of(self._claims(cluster, lambda claim: _has_room(capacity, claim)))
                )
            case VolumeAttachment() if before is None:
                return NO_PODS
        return None

    def _claims(self, cluster: Cluster, matches: Callable[[PersistentVolumeClaim], bool]) -> set[str]:
        """The claims of pending pods that match."""
        known = cluster.objects.of_kind(PersistentVolumeClaim)
        return {key for key in self.users if key in known and matches(known[key])}

    def _of(self, claims: set[str]) -> Pods:
        return {uid for key in claims for uid in self.users.get(key, ())}

    def copy(self) -> PodsByClaim:
        copied = PodsByClaim()
        copied.users = {key: users.copy() for key, users in self.users.items()}
        return copied


def _claims(pod: Pod) -> Iterator[str]:
    return (f"{pod.namespace}/{name}" for name, _ in claim_names(pod))


def _claim_of(volume: Object | None) -> Iterator[str]:
    if isinstance(volume, PersistentVolume) and volume.claim is not None:
        yield volume.claim_key


def _has_room(capacity: CsiStorageCapacity, claim: PersistentVolumeClaim) -> bool:
    same = capacity.storage_class == claim.storage_class
    return same and not claim.bound and (claim.requested or 0) <= (capacity.max_volume_size or 0)


def _not_grown(before: Object | None, after: Object | None) -> bool:
    """Whether a driver reports no more free capacity than before for the same nodes and class."""
    if not isinstance(before, CsiStorageCapacity) or not isinstance(after, CsiStorageCapacity):
        return False
    same = (before.storage_class, before.topology) == (after.storage_class, after.topology)
    return same and (after.max_volume_size or 0) <= (before.max_volume_size or 0)
