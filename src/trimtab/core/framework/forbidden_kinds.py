"""Kinds that the API server does not allow to list: what waits for them, and what goes on without.

A plugin that does not see its objects would decide wrongly. Where it says which pods it needs them for
(`NeedsKindsForSomePods`), those pods stay pending with a message that names kind, verb and account, and all others are
scheduled. If one plugin that reads the kind does not say so, nothing is scheduled until the kind can be listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.core.framework.interface import NeedsKinds, NeedsKindsForSomePods
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.model.pod import Pod

Forbidden = Mapping[str, str]  # kinds, each with what the API server said and the remedy


def only_some_pods_need(kind: str, profiles: Iterable[Profile]) -> bool:
    """Whether pods of these profiles can be scheduled without the kind, if they do not need it themselves."""
    readers = [plugin for profile in profiles for plugin in profile.kind_readers.get(kind, ())]
    return bool(readers) and all(isinstance(each, NeedsKindsForSomePods) for each in readers)


def pod_waits_for(pod: Pod, profile: Profile, forbidden: Forbidden) -> str:
    """Why the pod cannot be scheduled without one of these kinds; empty if it can."""
    for kind, problem in forbidden.items():
        for plugin in profile.kind_readers.get(kind, ()):
            if not isinstance(plugin, NeedsKindsForSomePods) or plugin.needs_kinds_for(pod):
                return f"{plugin_name(plugin)} needs {kind}, which this scheduler cannot list: {problem}"
    return ""


def plugin_waits_for(plugin: object, forbidden: Forbidden) -> str:
    """Why this plugin must not be called now; empty if it may."""
    if not forbidden:
        return ""
    needed = plugin.needs_kinds if isinstance(plugin, NeedsKinds) else ()
    missing = next((kind for kind in needed if kind in forbidden), None)
    return f"{missing} cannot be listed: {forbidden[missing]}" if missing is not None else ""
