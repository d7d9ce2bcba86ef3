"""Plugin state: tells plugins that keep a state of their own which pods took or left a node.

The state itself is part of the cluster state, so a fork and a replay have it too. A plugin that is new in the settings
observes every pod that has a node, as after a restart.
"""

from __future__ import annotations

from trimtab.core.controllers import EngineState
from trimtab.core.framework.interface import ObservesPods
from trimtab.core.framework.profile import plugin_name
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod


class PodObservers:
    """The plugins of all profiles that observe pods, one of each name."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.by_name: dict[str, ObservesPods] = {}

    def apply_settings(self) -> None:
        before = self.by_name
        profiles = self.state.settings.profiles
        self.by_name = {plugin_name(each): each for profile in profiles for each in profile.observers}
        for name in [name for name in self.by_name if name not in before]:
            for pod in self.state.cluster.pods.values():
                if pod.holds_resources:
                    self._tell(name, pod, added=True)

    def fork(self, state: EngineState) -> PodObservers:
        copied = PodObservers(state)
        copied.by_name = self.by_name
        return copied

    def pod_changed(self, before: Pod | None, after: Pod | None) -> Change:
        """A pod was added, updated or deleted; plugins hear of it only if that concerns the node it holds."""
        if not self.by_name:
            return Change.NOTHING
        removed = before if before is not None and before.holds_resources else None
        added = after if after is not None and after.holds_resources else None
        if removed is not None and added is not None and _same_place(removed, added):
            return Change.NOTHING
        for name in self.by_name:
            if removed is not None:
                self._tell(name, removed, added=False)
            if added is not None:
                self._tell(name, added, added=True)
        return Change.PLUGIN_STATE if removed is not None or added is not None else Change.NOTHING

    def _tell(self, name: str, pod: Pod, *, added: bool) -> None:
        cluster = self.state.cluster
        try:
            cluster.set_plugin_state(name, self.by_name[name].observe_pod(cluster.plugin_state.get(name), pod, added))
        except Exception as error:  # the pod is where it is, whatever a plugin makes of it
            self.state.recorder.plugin_failed(repr(error))


def _same_place(before: Pod, after: Pod) -> bool:
    return (before.node, before.requests, before.labels) == (after.node, after.requests, after.labels)
