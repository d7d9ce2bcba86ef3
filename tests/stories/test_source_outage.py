"""A source of metrics stops answering while one node is hot: its last samples hold until they are too old."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.core.engine_harness import EngineHarness, node, pod
from trimtab.core.model.events import SamplesRead, SourceFailed
from trimtab.core.model.readings import Reading
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.plugins.lowest_load import LowestLoad
from trimtab.core.plugins.peak_risk import PeakRisk
from trimtab.core.plugins.rescheduler import Rescheduler

HOT, QUERIES = "hot", ("prom/nodeCPU", "prom/nodeMemory")
NODES = (HOT, "warm-1", "warm-2")
GIB = 1 << 30
WITHOUT = ("NodeResourcesBalancedAllocation", "NodeResourcesFit", "PodTopologySpread")  # scores by requests and spread
POLICIES = [(Rescheduler(), PeakRisk()), (LowestLoad(),), (Rescheduler(),)]


def hot_and_empty(*plugins: object) -> EngineHarness:
    """The hot node has no requests at all, and the other two have pods that use less than they request."""
    scene = EngineHarness(*plugins, without=WITHOUT)
    scene.upsert(*(node(name, cpu=8000, memory=16 * GIB) for name in NODES))
    scene.upsert(*(pod(f"on-{name}", cpu=4000, memory=4 * GIB, node=name) for name in NODES[1:]))
    scene.at = 1000.0
    figures = {CPU: (7600.0, 1600.0, 1600.0), MEMORY: tuple(share * 16 * GIB for share in (0.9, 0.3, 0.3))}
    measured = (scene.at,) * len(NODES)
    readings = [
        Reading(query, name, NODES, figures[name], measured) for query, name in zip(QUERIES, (CPU, MEMORY), strict=True)
    ]
    scene.handle(SamplesRead(tuple(readings), scene.at))
    return scene


def fail(scene: EngineHarness, *, discard_samples: bool = False) -> None:
    scene.handle(*(SourceFailed(query, "no connection", scene.at, discard_samples) for query in QUERIES))


def place_nine(scene: EngineHarness, prefix: str = "web") -> Counter[str]:
    """Where nine pods go that arrive together."""
    scene.upsert(*(pod(f"{prefix}-{number}", cpu=100, memory=GIB // 8) for number in range(9)))
    return Counter(scene.binds().values())


@pytest.mark.parametrize("policy", POLICIES)
def test_the_last_samples_of_a_silent_source_keep_pods_off_the_hot_node(policy: tuple[object, ...]) -> None:
    """Ten seconds after it was last heard of, and also when the samples count half."""
    scene = hot_and_empty(*policy)
    fail(scene)
    scene.advance(10.0)
    fresh = place_nine(scene, "soon")
    scene.advance(190.0)
    ageing = place_nine(scene, "later")
    assert (9, 9) == (fresh.total(), ageing.total())
    assert (0, 0) == (fresh[HOT], ageing[HOT])


@pytest.mark.parametrize("policy", POLICIES)
def test_samples_that_are_too_old_are_ignored(policy: tuple[object, ...]) -> None:
    """Then pods go by requests, by which the hot node is empty."""
    scene = hot_and_empty(*policy)
    fail(scene)
    scene.advance(301.0)
    assert 0 < place_nine(scene)[HOT]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_source_that_answers_with_nonsense_is_not_trusted_at_once(policy: tuple[object, ...]) -> None:
    """What it said a second before may be as wrong."""
    scene = hot_and_empty(*policy)
    fail(scene, discard_samples=True)
    assert 0 < place_nine(scene)[HOT]
