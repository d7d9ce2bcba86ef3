"""Nodes that are about to be removed, or are not ready, take no part in moves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import node
from tests.core.rescheduling.guards.replicas import context, refused, replicas
from trimtab.core.rescheduling.guards.nodes import possible_targets

TAINTS = [
    "ToBeDeletedByClusterAutoscaler=1:NoSchedule",
    "DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule",
    "karpenter.sh/disrupted:NoSchedule",
    "karpenter.sh/disruption=disrupting:NoSchedule",
]


@pytest.mark.parametrize("taint", TAINTS)
def test_pods_stay_on_a_node_that_is_removed(taint: str) -> None:
    """Its autoscaler drains it, and would compete with us."""
    first, *others = replicas(3, on="leaving")
    found = refused(context(node("leaving", taints=[taint]), first, *others), first)
    key = taint.partition(":")[0].partition("=")[0]
    assert ("node removal", f"its node leaving is about to be removed (taint {key})") == found


def test_targets_are_ready_and_stay() -> None:
    """By row: a and b, then one that is not ready, and those with a taint."""
    down = replace(node("down"), ready=False)
    found = context(down, *(node(f"leaving-{each}", taints=[taint]) for each, taint in enumerate(TAINTS)))
    assert [True, True, False, *[False] * len(TAINTS)] == possible_targets(found).tolist()
