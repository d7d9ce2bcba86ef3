"""Decides which rules a cluster must keep after its pods were bound; leaves each rule to its own function.

It shares no code with the product: what it knows of Kubernetes was written for it alone.
"""

from collections.abc import Callable, Iterator

from tests.live.checker import company, places, storage
from tests.live.checker.scene import Scene

Rule = Callable[[Scene], Iterator[str]]
RULES: tuple[Rule, ...] = (
    places.strays,
    places.choice,
    places.taints,
    places.cordons,
    places.room,
    places.host_ports,
    company.anti_affinity,
    company.affinity,
    company.spread,
    storage.claimed,
    storage.reach,
    storage.zones,
    storage.sharing,
    storage.limits,
)


def violations(scene: Scene) -> list[str]:
    """Every breach of every rule, each with the rule's name."""
    return [f"{rule.__name__}: {found}" for rule in RULES for found in rule(scene)]
