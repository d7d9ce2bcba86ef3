"""Proves that a topology key that no node carries is named with its field."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.core.model.affinity import Affinity, PodAffinity, PodTerm, Spread
from trimtab.core.model.pod import PodSpec
from trimtab.core.placing.nowhere import words

AFFINITY = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), ""),
        (PodSpec(spread=(Spread("zone"),)), ""),
        (
            PodSpec(spread=(Spread("zone"), Spread("zoen"))),
            " (spec.topologySpreadConstraints[1].topologyKey: no node has the label 'zoen')",
        ),
        (PodSpec(spread=(Spread("zoen", hard=False),)), ""),
        (
            PodSpec(affinity=Affinity(pods=PodAffinity(required=(PodTerm("zoen"),)))),
            f" ({AFFINITY}[0].topologyKey: no node has the label 'zoen')",
        ),
        (PodSpec(affinity=Affinity(anti_pods=PodAffinity(required=(PodTerm("zoen"),)))), ""),
    ],
)
def test_words(spec: PodSpec, expected: str) -> None:
    """Hard wishes only, and only keys that nobody has."""
    held = cluster(node("a", labels={"zone": "z1"}), node("b"))
    assert expected == words(held.view, replace(pod("web"), spec=spec))
