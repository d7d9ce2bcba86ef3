"""Tells plugins that keep a memory which pods took or left a place; what they make of it is theirs alone.

The memory itself is cluster state, so a fork and a replay have it too. A plugin that is new in the settings is told of
every pod that holds a place, as after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.core.cluster.state import Cluster
from trimtab.core.engine.tally import Tally
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import Observe
from trimtab.core.placing.profile import Profile, plugin_name


class Observers:
    """All plugins of all profiles that want to hear of places, one of each name."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.by_name: dict[str, Observe] = {}

    def adopt(self, profiles: Iterable[Profile], cluster: Cluster) -> None:
        before = self.by_name
        self.by_name = {plugin_name(each): each for profile in profiles for each in profile.observers}
        for name in [name for name in self.by_name if name not in before]:
            for pod in cluster.pods.values():
                if pod.occupies:
                    self._tell(cluster, name, pod, came=True)

    def moved(self, cluster: Cluster, before: Pod | None, after: Pod | None) -> Change:
        """A pod is not what it was; whether that concerns its place is seen here."""
        if not self.by_name:
            return Change.NOTHING
        left = before if before is not None and before.occupies else None
        came = after if after is not None and after.occupies else None
        if left is not None and came is not None and _stays(left, came):
            return Change.NOTHING
        for name in self.by_name:
            if left is not None:
                self._tell(cluster, name, left, came=False)
            if came is not None:
                self._tell(cluster, name, came, came=True)
        return Change.MEMORY if left is not None or came is not None else Change.NOTHING

    def _tell(self, cluster: Cluster, name: str, pod: Pod, *, came: bool) -> None:
        try:
            cluster.remember(name, self.by_name[name].observed(cluster.memory.get(name), pod, came))
        except Exception as error:  # the pod is where it is, whatever a plugin thinks of it
            self.tally.faulted(repr(error))


def _stays(before: Pod, after: Pod) -> bool:
    return (before.node, before.demand, before.labels) == (after.node, after.demand, after.labels)
