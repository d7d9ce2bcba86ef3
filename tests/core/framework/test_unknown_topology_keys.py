"""Proves that a topology key that no node carries is named with its field."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.core.framework.unknown_topology_keys import hint
from trimtab.core.model.affinity import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from trimtab.core.model.pod import PodSpec

AFFINITY = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), ""),
        (PodSpec(topology_spread=(TopologySpreadConstraint("zone"),)), ""),
        (
            PodSpec(topology_spread=(TopologySpreadConstraint("zone"), TopologySpreadConstraint("zoen"))),
            " (spec.topologySpreadConstraints[1].topologyKey: no node has the label 'zoen')",
        ),
        (PodSpec(topology_spread=(TopologySpreadConstraint("zoen", hard=False),)), ""),
        (
            PodSpec(affinity=Affinity(pod_affinity=PodAffinity(required=(PodAffinityTerm("zoen"),)))),
            f" ({AFFINITY}[0].topologyKey: no node has the label 'zoen')",
        ),
        (PodSpec(affinity=Affinity(pod_anti_affinity=PodAffinity(required=(PodAffinityTerm("zoen"),)))), ""),
    ],
)
def test_words(spec: PodSpec, expected: str) -> None:
    """Hard wishes only, and only keys that nobody has."""
    held = cluster(node("a", labels={"zone": "z1"}), node("b"))
    assert expected == hint(held.view, replace(pod("web"), spec=spec))
