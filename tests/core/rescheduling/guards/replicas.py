"""Builders for tests of guards: ready pods with an owner, and a context around a cluster; judge nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object, PodDisruptionBudget
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.rescheduling.guards import GuardContext, refusal
from trimtab.core.rescheduling.settings import ReschedulingSettings

NOW = 10_000.0


def replica(name: str, *, owner: str = "web-1", kind: str = "ReplicaSet", on: str = "a", **fields: Any) -> Pod:
    """A ready pod that has run for hours; the hash of a ReplicaSet is what follows the last dash of its name."""
    known = {"app": owner.rpartition("-")[0] or owner}
    if kind == "ReplicaSet":
        known["pod-template-hash"] = owner.rpartition("-")[2]
    given = {"owner": Owner(kind, owner, f"uid-{owner}"), "labels": known, "ready": True, "started": 100.0}
    return replace(pod(name, on=on), **{**given, **fields})


def replicas(count: int, **fields: Any) -> list[Pod]:
    """web-1-0, web-1-1 and so on."""
    return [replica(f"{fields.get('owner', 'web-1')}-{number}", **fields) for number in range(count)]


def budget(name: str = "web", app: str = "web", **fields: Any) -> PodDisruptionBudget:
    """A budget that allows one eviction."""
    given = {"selector": LabelSelector((("app", app),)), "disruptions_allowed": 1, "namespace": "default"}
    return PodDisruptionBudget(name=name, uid=f"uid-of-{name}", **{**given, **fields})


def context(*objects: Node | Pod | Object, settings: Mapping[str, Any] | None = None, **fields: Any) -> GuardContext:
    """Around a cluster with two nodes, a and b, and these objects."""
    found = cluster(node("a"), node("b"), *objects)
    return GuardContext(found, ReschedulingSettings(**(settings or {})), **{"now": NOW, **fields})


def refused(context: GuardContext, pod: Pod) -> tuple[str, str] | None:
    """The guard and its reason; None if the pod may be moved."""
    found = refusal(context, pod)
    return None if found is None else (found.guard, found.reason)
