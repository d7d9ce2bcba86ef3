"""Proves that what nothing can judge is named."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import pod
from trimtab.core.model.affinity import Spread
from trimtab.core.model.pod import PodSpec, Volume
from trimtab.core.placing.unmodelled import hard

CLAIMS, GROUP = "resource claims (plugin DynamicResources)", "a scheduling group of its spec (plugin GangScheduling)"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (PodSpec(), ()),
        (PodSpec(spread=(Spread("zone"),)), ()),
        (PodSpec(volumes=(Volume("persistentVolumeClaim", "data"),)), ()),
        (PodSpec(claims=("gpu",)), (CLAIMS,)),
        (PodSpec(group="team"), (GROUP,)),
        (PodSpec(claims=("gpu",), group="team"), (CLAIMS, GROUP)),
    ],
)
def test_hard(spec: PodSpec, words: tuple[str, ...]) -> None:
    """Claims and groups are named; what some plugin knows is not."""
    assert words == hard(replace(pod("web"), spec=spec))
