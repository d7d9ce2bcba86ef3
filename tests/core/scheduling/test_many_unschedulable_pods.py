"""Many unschedulable pods that are tried again after a minute: how much of that a turn does, beside a pod that just came."""

from __future__ import annotations

from tests.core.engine_harness import EngineHarness, node, pod
from trimtab.core.scheduling.controller import Scheduling

PARKED = 150


def test_a_turn_tries_one_of_them_again_and_others_first() -> None:
    """All have waited for a minute: a turn of eight decisions makes one about them, and none before a new pod's."""
    scene = EngineHarness()
    scene.upsert(node("a", 4_000), *(pod(f"large-{number}", cpu=9_000) for number in range(PARKED)))
    scene.turn(PARKED)
    assert PARKED == attempts(scene)
    scene.advance(61.0)
    scene.turn(8)
    assert PARKED + 1 == attempts(scene)
    scene.upsert(pod("new", cpu=100))
    assert {"new": "a"} == scene.binds(1)
    assert PARKED + 1 == attempts(scene)


def test_all_of_them_are_tried_again() -> None:
    """Turn by turn, as long as there is work, each of them once."""
    scene = EngineHarness()
    scene.upsert(node("a", 4_000), *(pod(f"large-{number}", cpu=9_000) for number in range(PARKED)))
    scene.turn(PARKED)
    scene.advance(61.0)
    while scene.engine.has_work():
        scene.turn(8)
    assert 2 * PARKED == attempts(scene)


def attempts(scene: EngineHarness) -> int:
    """Of the unschedulable pods."""
    queued = scene.engine.controller(Scheduling).queue.pods.values()
    return sum(each.attempts for each in queued if each.uid != "uid-new")
