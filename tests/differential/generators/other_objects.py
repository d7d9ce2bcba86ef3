"""Random namespaces, owners of pods and disruption budgets."""

from __future__ import annotations

from tests.differential.generators import terms
from tests.differential.generators.rng import JsonObject, Rng, without_empty

OWNERS = {"ReplicaSet": "replicaSets", "StatefulSet": "statefulSets", "ReplicationController": "replicationControllers"}
GROUPS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


def namespaces(rng: Rng) -> list[JsonObject]:
    """The namespaces of pods, sometimes without one of them."""
    known = [name for name in terms.NAMESPACES if not rng.chance(6)]
    teams = {"team-a": {"team": "a"}, "team-b": {"team": "b"}}
    return [{"metadata": {"name": name, "labels": teams.get(name, {})}} for name in known]


def services(rng: Rng) -> list[JsonObject]:
    return [
        {
            "metadata": {"name": f"svc-{number}", "namespace": "default"},
            "spec": without_empty(selector=terms.pod_labels(rng)),
        }
        for number in range(rng.between(0, 2))
    ]


def owner(rng: Rng, pod: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The pod with an owner, and the owner by its kind; sometimes it is missing."""
    kind, name = rng.one(*OWNERS), "owner"
    reference = {"apiVersion": GROUPS[kind], "kind": kind, "name": name, "uid": "uid-owner", "controller": True}
    owned = {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}
    chosen = terms.pod_labels(rng)
    selector = chosen if kind == "ReplicationController" else {"matchLabels": chosen}
    metadata = {"name": name, "namespace": pod["metadata"]["namespace"], "uid": "uid-owner"}
    return owned, {OWNERS[kind]: [] if rng.chance(10) else [{"metadata": metadata, "spec": {"selector": selector}}]}


def budgets(rng: Rng, running: list[JsonObject]) -> list[JsonObject]:
    return [budget(rng, number, running) for number in range(rng.between(1, 3))]


def budget(rng: Rng, number: int, running: list[JsonObject]) -> JsonObject:
    gone = rng.one(*running)["metadata"]["name"] if running and rng.chance(15) else None
    selector = terms.label_selector(rng)
    return {
        "metadata": {"name": f"pdb-{number}", "namespace": rng.one("default", *terms.NAMESPACES)},
        "spec": {} if selector is None else {"selector": selector},
        "status": {
            "disruptionsAllowed": rng.between(0, 2),
            **({"disruptedPods": {gone: "2024-01-01T00:00:00Z"}} if gone else {}),
        },
    }
