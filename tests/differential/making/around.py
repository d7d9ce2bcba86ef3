"""Decides which objects stand around the pods: namespaces, what owns pods, budgets; leaves storage to `volumes`."""

from __future__ import annotations

from tests.differential.making import terms
from tests.differential.making.dice import Dice, Thing, kept

OWNERS = {"ReplicaSet": "replicaSets", "StatefulSet": "statefulSets", "ReplicationController": "replicationControllers"}
GROUPS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


def namespaces(dice: Dice) -> list[Thing]:
    """All that pods live in, unless one is not known yet."""
    known = [name for name in terms.NAMESPACES if not dice.chance(6)]
    teams = {"team-a": {"team": "a"}, "team-b": {"team": "b"}}
    return [{"metadata": {"name": name, "labels": teams.get(name, {})}} for name in known]


def services(dice: Dice) -> list[Thing]:
    return [
        {"metadata": {"name": f"svc-{number}", "namespace": "default"}, "spec": kept(selector=terms.pod_labels(dice))}
        for number in range(dice.between(0, 2))
    ]


def owner(dice: Dice, pod: Thing) -> tuple[Thing, Thing]:
    """The pod with a controller, and the controller itself by its kind; now and then it is not there."""
    kind, name = dice.one(*OWNERS), "owner"
    reference = {"apiVersion": GROUPS[kind], "kind": kind, "name": name, "uid": "uid-owner", "controller": True}
    owned = {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}
    chosen = terms.pod_labels(dice)
    selector = chosen if kind == "ReplicationController" else {"matchLabels": chosen}
    metadata = {"name": name, "namespace": pod["metadata"]["namespace"], "uid": "uid-owner"}
    return owned, {OWNERS[kind]: [] if dice.chance(10) else [{"metadata": metadata, "spec": {"selector": selector}}]}


def budgets(dice: Dice, running: list[Thing]) -> list[Thing]:
    return [budget(dice, number, running) for number in range(dice.between(1, 3))]


def budget(dice: Dice, number: int, running: list[Thing]) -> Thing:
    gone = dice.one(*running)["metadata"]["name"] if running and dice.chance(15) else None
    selector = terms.label_selector(dice)
    return {
        "metadata": {"name": f"pdb-{number}", "namespace": dice.one("default", *terms.NAMESPACES)},
        "spec": {} if selector is None else {"selector": selector},
        "status": {
            "disruptionsAllowed": dice.between(0, 2),
            **({"disruptedPods": {gone: "2024-01-01T00:00:00Z"}} if gone else {}),
        },
    }
