"""Surges: an owner has one replica more for a while, so that a pod is replaced before it leaves."""

from __future__ import annotations

from trimtab.core.model.pod import Pod
from trimtab.sim.owners import PodOwner
from trimtab.sim.world import World


def owner_of(world: World, uid: str) -> PodOwner | None:
    """Who watches over this pod; None for one that nobody would create again."""
    owner = getattr(world.watcher_of(uid), "__self__", None)
    return owner if isinstance(owner, PodOwner) else None


class Surges:
    """The owners that have one replica more, by the UID of the pod that is to be replaced."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._owners: dict[str, PodOwner] = {}

    def start(self, pod: Pod) -> bool:
        owner = owner_of(self.world, pod.uid)
        if owner is None or not owner.surge():
            return False
        self._owners[pod.uid] = owner
        return True

    def end(self, uid: str, leaves: str) -> None:
        """`leaves` is the namespace/name of the pod that goes; without one the newest."""
        owner = self._owners.pop(uid, None)
        if owner is not None and owner.active:
            named = (pod.uid for pod in owner.active if pod.key == leaves)
            owner.end_surge(next(named, owner.active[-1].uid))
