"""Proves that what nothing can judge is named."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import pod
from trimtab.core.framework.unsupported import unsupported_features
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.pod import PodSpec, Volume

CLAIMS, GROUP = "resource claims (plugin DynamicResources)", "a scheduling group of its spec (plugin GangScheduling)"


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
