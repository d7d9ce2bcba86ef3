"""Which kinds a process lists and watches: what its plugins and guards need, each with who needs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trimtab.config.registry import NODE_ANNOTATIONS
from trimtab.core.framework.forbidden_kinds import only_some_pods_need
from trimtab.core.settings import Settings
from trimtab.kube import kinds
from trimtab.kube.kinds import IfForbidden
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader

CORE_KINDS = ("pods", "nodes")
RESCHEDULER_ROLE = "components/rescheduler/rescheduler.yaml"  # in deploy/


def watched_kinds(settings: Settings, reader: PodReader) -> Iterator[kinds.WatchedKind[Any]]:
    """Pods and nodes as far as they are needed, and the kinds that some plugin needs."""
    core = (kinds.pod_kind(reader), kinds.node_kind(NodeReader(NODE_ANNOTATIONS)))
    yield from (kind for kind in core if kind.name in settings.kinds)
    yield from extra_watched_kinds(settings)


def extra_watched_kinds(settings: Settings) -> Iterator[kinds.WatchedKind[Any]]:
    """The kinds beyond pods and nodes that some profile or the rescheduler needs, each with who needs it."""
    for name in (kind for kind in settings.kinds if kind not in CORE_KINDS):
        plugins = dict.fromkeys(
            plugin
            for profile in (*settings.profiles, *settings.other_profiles)
            for plugin in profile.needed_kinds.get(name, ())
        )
        some = only_some_pods_need(name, settings.profiles)
        # Guards refuse all moves without their kinds; pods are scheduled all the same.
        missing = IfForbidden.REPORT if some or not plugins else IfForbidden.WAIT
        for kind in kinds.extra_kinds(name, plugins or ("rescheduling",), missing):
            granted_together = not settings.profiles and not kind.optional
            yield replace(kind, role=RESCHEDULER_ROLE, wanted_by="") if granted_together else kind
