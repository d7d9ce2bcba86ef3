"""Compaction: as few nodes as the pods fit on, in every order of nodes, and what does not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from trimtab.config.kube_scheduler import default_configuration
from trimtab.sim.compaction import TRIALS, Compaction, compact
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file import parse_scenario

CLUSTER = """
apiVersion: trimtab.dev/v1alpha1
kind: Scenario
name: cluster
duration: 10m
step: 1m
nodes:
- {count: 6, namePrefix: node-, cpu: 4, memory: 8Gi}
workloads:
- {name: web, replicas: 5, created: 2m, deleted: 7m, requests: {cpu: 1500m, memory: 1Gi}, usage: {cpu: 50%}}
- {name: early, replicas: 2, deleted: 2m, requests: {cpu: 1, memory: 1Gi}, usage: {cpu: 50%}}
"""
MORE = """
- {name: agent, kind: DaemonSet, requests: {cpu: 100m, memory: 64Mi}, usage: {cpu: 50%}}
- {name: huge, kind: Pod, requests: {cpu: 64, memory: 1Gi}, usage: {cpu: 50%}}
"""


def scenario(text: str = CLUSTER) -> Scenario:
    return parse_scenario(text, "cluster.yaml", Path())


def compaction_of(given: Scenario) -> Compaction:
    return compact(given, default_configuration().settings, 1)


def test_as_few_nodes_as_the_pods_need() -> None:
    """Two pods of 1.5 CPU fit on a node of 4: five need three nodes, whichever they are."""
    found = compaction_of(scenario())
    assert [3] * TRIALS == found.needed
    assert (6, 5, 0, 3) == (found.nodes, found.pods, found.unplaceable, found.percentile)
    assert 120 <= found.at <= 420


def test_what_does_not_count() -> None:
    """DaemonSets come with their nodes, and a pod that is too large for all of them is left out."""
    found = compaction_of(scenario(CLUSTER + MORE))
    assert [3] * TRIALS == found.needed
    assert (5, 1) == (found.pods, found.unplaceable)


def test_nodes_of_two_sizes_make_trials_differ() -> None:
    """The order of nodes is random, and the 90th percentile one of the numbers."""
    mixed = CLUSTER.replace("{count: 6, namePrefix: node-, cpu: 4,", "{count: 3, namePrefix: big-, cpu: 8, memory: 8Gi}\n- "
                            "{count: 3, namePrefix: node-, cpu: 2,")  # fmt: skip
    found = compaction_of(scenario(mixed))
    assert len({*found.needed}) > 1
    assert found.percentile in found.needed
    assert found == compaction_of(scenario(mixed))


@pytest.mark.parametrize(("needed", "expected"), [([2] * 10 + [9], 2), ([2] * 9 + [5, 9], 5), ([], 0)])
def test_the_percentile_is_a_number_of_nodes(needed: list[int], expected: int) -> None:
    """One that some trial needed, never in between."""
    assert expected == replace(compaction_of_nothing(), needed=needed).percentile


def compaction_of_nothing() -> Compaction:
    return Compaction(9, 0.0, 0, 0, [])
