"""Random nodes."""

from __future__ import annotations

from tests.differential.generators.rng import JsonObject, Rng, without_empty

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONES = ("zone-a", "zone-b", "zone-c")
IMAGES = ("registry.example/web:1", "registry.example/ml:cuda", "busybox:1.36", "registry.example/side:2")
MEBIBYTE = 1 << 20


def node(rng: Rng, number: int) -> JsonObject:
    name = f"node-{number}"
    return {
        "metadata": {"name": name, "labels": labels(rng, name)},
        "spec": without_empty(
            taints=rng.several(0, 2, lambda: taint(rng)) if rng.chance(25) else [], unschedulable=_shut(rng)
        ),
        "status": {"allocatable": (room := allocatable(rng)), "capacity": room, "images": images(rng)},
    }


def nodes(rng: Rng, low: int = 1, high: int = 6) -> list[JsonObject]:
    return [node(rng, number) for number in range(rng.between(low, high))]


def open_nodes(rng: Rng, low: int, high: int) -> list[JsonObject]:
    """Nodes without hard taints, so that the pods on them matter."""
    made = nodes(rng, low, high)
    return made if rng.chance(20) else [{**each, "spec": {}} for each in made]


def names(found: list[JsonObject]) -> list[str]:
    return [each["metadata"]["name"] for each in found]


def _shut(rng: Rng) -> bool | None:
    return True if rng.chance(6) else None


def labels(rng: Rng, name: str) -> JsonObject:
    return {
        **without_empty(
            disktype=rng.one(None, "ssd", "hdd"),
            gen=rng.one(None, "1", "3", "13", "x"),
            rack=rng.one("r1", "r2", "r3", None),
        ),
        **({} if rng.chance(5) else {HOSTNAME: name}),
        **({} if rng.chance(12) else {ZONE: rng.one(*ZONES)}),
        **({REGION: rng.one("east", "west")} if rng.chance(40) else {}),
    }


def taint(rng: Rng) -> JsonObject:
    effect = rng.one("PreferNoSchedule", "NoSchedule", "NoExecute")
    key = rng.one("dedicated", "maint", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready")
    return without_empty(key=key, value=rng.one(None, "a", "b"), effect=effect)


def allocatable(rng: Rng) -> JsonObject:
    return {
        "cpu": rng.one("4", "2", "8", "3500m", "1.5"),
        "memory": rng.one("8Gi", "4Gi", "16G", "6291456Ki"),
        "pods": rng.one("110", "110", "4", "2"),
        **({"ephemeral-storage": rng.one("20Gi", "50G")} if rng.chance(60) else {}),
        **({"example.com/gpu": rng.one("1", "4", "0")} if rng.chance(30) else {}),
        **({"hugepages-2Mi": rng.one("64Mi", "512Mi")} if rng.chance(15) else {}),
    }


def images(rng: Rng) -> list[JsonObject]:
    held = rng.some(IMAGES, 0, 3) if rng.chance(60) else []
    return [{"names": _spelled(rng, name), "sizeBytes": rng.one(90, 23, 500, 1200) * MEBIBYTE} for name in held]


def _spelled(rng: Rng, name: str) -> list[str]:
    digest = f"{name.split(':')[0]}@sha256:{'0' * 63}{len(name) % 10}"
    return [name, digest] if rng.chance(30) else [name]
