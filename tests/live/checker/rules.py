"""The rules that a cluster must satisfy once its pods are bound.

The checker shares no code with the product.
"""

from collections.abc import Callable, Iterator

from tests.live.checker import affinity, node_fit, storage
from tests.live.checker.cluster_objects import ClusterObjects

Rule = Callable[[ClusterObjects], Iterator[str]]
RULES: tuple[Rule, ...] = (
    node_fit.strays,
    node_fit.choice,
    node_fit.taints,
    node_fit.cordons,
    node_fit.room,
    node_fit.host_ports,
    affinity.anti_affinity,
    affinity.affinity,
    affinity.spread,
    storage.claimed,
    storage.reach,
    storage.zones,
    storage.sharing,
    storage.limits,
)


def violations(cluster: ClusterObjects) -> list[str]:
    """All violations, each with the name of its rule."""
    return [f"{rule.__name__}: {found}" for rule in RULES for found in rule(cluster)]
