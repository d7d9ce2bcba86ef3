"""Decides what the nodes of a question look like; leaves the pods on them to `pods`."""

from __future__ import annotations

from tests.differential.making.dice import Dice, Thing, kept

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONES = ("zone-a", "zone-b", "zone-c")
IMAGES = ("registry.example/web:1", "registry.example/ml:cuda", "busybox:1.36", "registry.example/side:2")
MEBIBYTE = 1 << 20


def node(dice: Dice, number: int) -> Thing:
    name = f"node-{number}"
    return {
        "metadata": {"name": name, "labels": labels(dice, name)},
        "spec": kept(
            taints=dice.several(0, 2, lambda: taint(dice)) if dice.chance(25) else [], unschedulable=_shut(dice)
        ),
        "status": {"allocatable": (room := allocatable(dice)), "capacity": room, "images": images(dice)},
    }


def nodes(dice: Dice, low: int = 1, high: int = 6) -> list[Thing]:
    return [node(dice, number) for number in range(dice.between(low, high))]


def open_nodes(dice: Dice, low: int, high: int) -> list[Thing]:
    """Nodes that keep nobody away by taints, so that it is the pods on them that matter."""
    made = nodes(dice, low, high)
    return made if dice.chance(20) else [{**each, "spec": {}} for each in made]


def names(found: list[Thing]) -> list[str]:
    return [each["metadata"]["name"] for each in found]


def _shut(dice: Dice) -> bool | None:
    return True if dice.chance(6) else None


def labels(dice: Dice, name: str) -> Thing:
    return {
        **kept(
            disktype=dice.one(None, "ssd", "hdd"),
            gen=dice.one(None, "1", "3", "13", "x"),
            rack=dice.one("r1", "r2", "r3", None),
        ),
        **({} if dice.chance(5) else {HOSTNAME: name}),
        **({} if dice.chance(12) else {ZONE: dice.one(*ZONES)}),
        **({REGION: dice.one("east", "west")} if dice.chance(40) else {}),
    }


def taint(dice: Dice) -> Thing:
    effect = dice.one("PreferNoSchedule", "NoSchedule", "NoExecute")
    key = dice.one("dedicated", "maint", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready")
    return kept(key=key, value=dice.one(None, "a", "b"), effect=effect)


def allocatable(dice: Dice) -> Thing:
    return {
        "cpu": dice.one("4", "2", "8", "3500m", "1.5"),
        "memory": dice.one("8Gi", "4Gi", "16G", "6291456Ki"),
        "pods": dice.one("110", "110", "4", "2"),
        **({"ephemeral-storage": dice.one("20Gi", "50G")} if dice.chance(60) else {}),
        **({"example.com/gpu": dice.one("1", "4", "0")} if dice.chance(30) else {}),
        **({"hugepages-2Mi": dice.one("64Mi", "512Mi")} if dice.chance(15) else {}),
    }


def images(dice: Dice) -> list[Thing]:
    held = dice.some(IMAGES, 0, 3) if dice.chance(60) else []
    return [{"names": _spelled(dice, name), "sizeBytes": dice.one(90, 23, 500, 1200) * MEBIBYTE} for name in held]


def _spelled(dice: Dice, name: str) -> list[str]:
    digest = f"{name.split(':')[0]}@sha256:{'0' * 63}{len(name) % 10}"
    return [name, digest] if dice.chance(30) else [name]
