"""Decides whether news of storage ever leaves a pod parked that has a place to go; nobody is retried for waiting long."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import pod
from tests.core.engine.scene import OURS, Scene, node
from tests.laws.storing import VOLUMES, claims, classes, said, volumes
from trimtab.core.model.event import ObjectGone, ObjectSeen
from trimtab.core.model.objects import Object
from trimtab.core.model.verdict import Placement
from trimtab.core.placing.choose import choose
from trimtab.core.scheduling.controller import Scheduling

NEVER_LATE = 1e9
PODS = [pod(name, volumes=each, scheduler=OURS) for name, each in VOLUMES.items()]
SOME = st.one_of(claims(), claims(), volumes(), volumes(), classes(), said(("a", "b")))
STEPS = st.lists(st.tuples(SOME, st.integers(0, 4)), min_size=5, max_size=25)


def news(scene: Scene, seen: Object, how: int) -> None:
    """The object comes, changes or goes, and then everything that can be decided is decided."""
    scene.version += 1
    if how == 0:
        scene.tells(ObjectGone(seen.kind, seen.key, scene.at))
    else:
        scene.tells(ObjectSeen(replace(seen, uid=f"{seen.uid}-{scene.version}", version=scene.version), scene.at))
    for _ in range(8):
        scene.later(11.0)
        scene.turn(50)


def overlooked(scene: Scene) -> list[str]:
    """Pods that are parked, and have a place to go."""
    engine = scene.engine
    profile, view = engine.state.settings.profiles[0], engine.cluster.view
    parked = [engine.cluster.pods[entry.uid] for entry in engine.controller(Scheduling).queue.parked()]
    return [each.name for each in parked if isinstance(choose(view, each, profile, []), Placement)]


def forgotten(scene: Scene) -> list[str]:
    """Pods in their stages that would go on, or back, if they were asked again."""
    twin = scene.engine.fork().controller(Scheduling)
    return [each.pod.name for each in twin.bindings.waiting() if twin._resume(each, scene.at)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STEPS)
def test_whoever_has_a_place_to_go_is_woken(steps: list[tuple[Object, int]]) -> None:
    """After news of any claim, volume, class or driver nobody is parked who has a place, or waits who could go on."""
    scene = Scene(max_unschedulable_wait=NEVER_LATE)
    scene.sees(node("a", labels={"zone": "z1", "disk": "ssd"}), node("b", labels={"zone": "z2"}), *PODS)
    for seen, how in steps:
        news(scene, seen, how)
        assert ([], []) == (overlooked(scene), forgotten(scene))
