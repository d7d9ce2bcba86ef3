"""Storage events never leave a pod unschedulable that has a feasible node; the periodic flush is off here."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import pod
from tests.core.engine_harness import OURS, EngineHarness, node
from tests.laws.storage_strategies import VOLUMES, claims, classes, driver_objects, volumes
from trimtab.core.framework.choose import choose
from trimtab.core.model.events import ObjectDeleted, ObjectUpserted
from trimtab.core.model.objects import Object
from trimtab.core.model.schedule_result import Placement
from trimtab.core.scheduling.controller import Scheduling

NEVER_LATE = 1e9
PODS = [pod(name, volumes=each, scheduler=OURS) for name, each in VOLUMES.items()]
SOME = st.one_of(claims(), claims(), volumes(), volumes(), classes(), driver_objects(("a", "b")))
STEPS = st.lists(st.tuples(SOME, st.integers(0, 4)), min_size=5, max_size=25)


def news(scene: EngineHarness, seen: Object, how: int) -> None:
    """The object comes, changes or goes, and then everything that can be decided is decided."""
    scene.version += 1
    if how == 0:
        scene.handle(ObjectDeleted(seen.kind, seen.key, scene.at))
    else:
        scene.handle(ObjectUpserted(replace(seen, uid=f"{seen.uid}-{scene.version}", version=scene.version), scene.at))
    for _ in range(8):
        scene.advance(11.0)
        scene.turn(50)


def overlooked(scene: EngineHarness) -> list[str]:
    """Pods that are unschedulable, and have a place to go."""
    engine = scene.engine
    profile, view = engine.state.settings.profiles[0], engine.cluster.view
    parked = [engine.cluster.pods[entry.uid] for entry in engine.controller(Scheduling).queue.unschedulable()]
    return [each.name for each in parked if isinstance(choose(view, each, profile, []), Placement)]


def forgotten(scene: EngineHarness) -> list[str]:
    """Pods waiting in a stage that would continue, or be rejected, if it ran again."""
    twin = scene.engine.fork().controller(Scheduling)
    return [each.pod.name for each in twin.bindings.waiting() if twin._resume(each, scene.at)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STEPS)
def test_whoever_has_a_place_to_go_is_woken(steps: list[tuple[Object, int]]) -> None:
    """After any storage event no schedulable pod is left unschedulable, and no pod waits that could continue."""
    scene = EngineHarness(max_unschedulable_wait=NEVER_LATE)
    scene.upsert(node("a", labels={"zone": "z1", "disk": "ssd"}), node("b", labels={"zone": "z2"}), *PODS)
    for seen, how in steps:
        news(scene, seen, how)
        assert ([], []) == (overlooked(scene), forgotten(scene))
