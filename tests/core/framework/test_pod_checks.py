"""Unsupported requirements and unknown topology keys of a pod are named."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.core.framework.pod_checks import unknown_topology_keys, unsupported_features
from trimtab.core.model.affinity import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from trimtab.core.model.pod import PodSpec, Volume

CLAIMS, GROUP = "resource claims (plugin DynamicResources)", "a scheduling group (plugin GangScheduling)"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (PodSpec(), ()),
        (PodSpec(topology_spread=(TopologySpreadConstraint("zone"),)), ()),
        (PodSpec(volumes=(Volume("persistentVolumeClaim", "data"),)), ()),
        (PodSpec(resource_claims=("gpu",)), (CLAIMS,)),
        (PodSpec(scheduling_group="team"), (GROUP,)),
        (PodSpec(resource_claims=("gpu",), scheduling_group="team"), (CLAIMS, GROUP)),
    ],
)
def test_hard(spec: PodSpec, words: tuple[str, ...]) -> None:
    """Claims and groups are named; what some plugin knows is not."""
    assert words == unsupported_features(replace(pod("web"), spec=spec))


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
    """Required keys only, and only those that no node has."""
    held = cluster(node("a", labels={"zone": "z1"}), node("b"))
    assert expected == unknown_topology_keys(held.view, replace(pod("web"), spec=spec))
