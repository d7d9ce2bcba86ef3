"""Decides whether a change stirs exactly those parked pods whom it could help, and equal pods one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from tests.core.engine.scene import Scene, node, pod
from trimtab.core.cluster.view import View
from trimtab.core.model.affinity import Affinity
from trimtab.core.model.change import Change
from trimtab.core.model.event import PodGone
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.taints import NO_SCHEDULE, Taint, Toleration
from trimtab.core.placing.contract import Ints, Rows
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queue import Part, Queue, Waiting
from trimtab.core.scheduling.queue.unschedulable import SLACK, Kind, Parked

PORT = PodSpec(ports=(HostPort("TCP", "0.0.0.0", 80),))
CHOOSY = PodSpec(node_selector=(("disk", "ssd"),))
TAINTED = (Taint("gpu", "", NO_SCHEDULE),)


Happening = Callable[[Scene], object]


def gone(name: str) -> Happening:
    return lambda scene: scene.tells(PodGone(f"uid-{name}", scene.at))


def shown(*nodes: Node) -> Happening:
    return lambda scene: scene.sees(*nodes)


@pytest.mark.parametrize(
    ("wants", "happens", "part"),
    [
        (pod("web", 900), gone("big"), Part.READY),
        (pod("web", 900), gone("small"), Part.PARKED),
        (pod("web", 900), shown(node("c", 900)), Part.READY),
        (pod("web", 900), shown(node("c", 800)), Part.PARKED),
        (pod("web", 900), shown(node("c", 900, taints=TAINTED)), Part.PARKED),
        (pod("web", 900), shown(node("b", 5000)), Part.READY),
        (pod("web", 900), shown(node("b", 1001)), Part.PARKED),
        (pod("web", spec=PORT), gone("door"), Part.READY),
        (pod("web", spec=PORT), gone("big"), Part.PARKED),
        (pod("web", spec=CHOOSY), shown(node("a", 1000, labels={"disk": "ssd"})), Part.READY),
        (pod("web", spec=CHOOSY), shown(node("a", 1000, labels={"disk": "hdd"})), Part.PARKED),
        (pod("web", spec=CHOOSY), gone("big"), Part.PARKED),
        (pod("web", spec=PodSpec(affinity=Affinity(), node_selector=(("x", "y"),))), gone("small"), Part.PARKED),
    ],
)
def test_who_is_stirred(wants: Pod, happens: Happening, part: Part) -> None:
    """A deletion, a new node or a change of one wakes a pod only if every plugin that judges rows now passes such a row."""
    scene = Scene()
    scene.sees(node("a", 1000), node("b", 1000), pod("big", 800, node="a"), pod("small", 300, node="b"))
    scene.sees(pod("hold", 600, node="b"), pod("door", node="a", spec=PORT), pod("gate", node="b", spec=PORT))
    scene.sees(wants)
    assert {} == scene.binds()
    scene.later(2.0)
    happens(scene)
    assert part is scene.part(wants)


def test_a_change_that_only_shifts_the_blame_is_remembered() -> None:
    """The label comes first and the room later: the second change wakes the pod, though the first was no help."""
    scene = Scene()
    scene.sees(node("a", 1000), pod("big", 800, node="a"))
    web = pod("web", 900, spec=CHOOSY)
    scene.sees(web)
    scene.turn()
    scene.later(2.0)
    scene.sees(node("a", 1000, labels={"disk": "ssd"}))
    assert Part.PARKED is scene.part(web)
    gone("big")(scene)
    assert {"web": "a"} == scene.binds()


def test_of_equal_pods_only_the_first_is_woken_and_the_next_when_it_was_placed() -> None:
    """Room for two of four: three are tried, in their order, and the fourth is left in peace."""
    scene = Scene()
    scene.sees(node("a", 1000), pod("big", 1000, node="a"))
    equal = [pod(f"web-{i}", 500) for i in range(4)]
    scene.sees(*equal)
    scene.turn()
    scene.later(2.0)
    gone("big")(scene)
    assert [Part.READY, Part.PARKED, Part.PARKED, Part.PARKED] == [scene.part(each) for each in equal]
    assert {"web-0": "a", "web-1": "a"} == scene.binds()
    assert [2, 2, 2, 1] == [scene.engine.controller(Scheduling).queue.waiting[each.uid].attempts for each in equal]


@pytest.mark.parametrize("way", ["deleted", "gated", "edited", "raised"])
def test_the_next_leads_on_when_the_first_leaves_without_being_refused(way: str) -> None:
    """Deleted, gated, edited into another kind, or broken by a plugin: the next of its kind has its chance all the same."""
    scene = Scene()
    scene.sees(node("a", 1000), pod("big", 1000, node="a"))
    first, second = pod("web-0", 500), pod("web-1", 500)
    scene.sees(first, second)
    scene.turn()
    scene.later(2.0)
    gone("big")(scene)
    changed = {
        "deleted": replace(first, deleting=True),
        "gated": replace(first, gates=("g",)),
        "edited": replace(first, labels={"a": "b"}),
        "raised": first,
    }[way]
    scene.sees(changed)
    if way == "raised":
        scene.engine.controller(Scheduling).queue.pop()
        scene.engine.controller(Scheduling).queue.back_off(first.uid, scene.at)
    assert Part.READY is scene.part(second)


def test_equal_but_for_a_promise() -> None:
    """A pod to whom a node was promised does not stand behind its like: the promise holds for it alone."""
    scene = Scene()
    scene.sees(node("a", 1000), pod("big", 1000, node="a"))
    first, promised = pod("web-0", 1000), pod("web-1", 1000, nominated="a", preempts=False)
    scene.sees(first, promised)
    scene.turn()
    scene.later(2.0)
    gone("big")(scene)
    assert {"web-1": "a"} == scene.binds()


@dataclass(frozen=True)
class Moody:
    """Refuses all nodes while some pod stands anywhere, and knows which changes are none of its business."""

    name: ClassVar[str] = "Moody"
    woken_by: ClassVar[Change] = Change.POD_LEFT

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return np.full(len(view.pod_count[rows]), int(view.pod_count.sum() > 0), dtype=np.int64)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("moody",)


@dataclass(frozen=True)
class Hinting(Moody):
    def wakes(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        if "broken" in pod.labels:
            raise RuntimeError("no idea")
        return int(view.pod_count.sum()) == 0


@pytest.mark.parametrize(
    ("plugin", "labels", "part"),
    [
        (Moody(), {}, Part.READY),
        (Hinting(), {}, Part.PARKED),
        (Hinting(), {"broken": "yes"}, Part.READY),
    ],
)
def test_a_plugin_whose_rows_depend_on_each_other(plugin: Moody, labels: dict[str, str], part: Part) -> None:
    """It wakes on all that it names, or on what its own hint says; a hint that fails is a doubt, and a doubt wakes."""
    scene = Scene(plugin)
    scene.sees(node("a", 100), node("b"), pod("one", node="b"), pod("two", node="a"))
    web = pod("web", 500, labels=labels)
    scene.sees(web)
    scene.turn()
    scene.later(2.0)
    gone("two")(scene)
    assert part is scene.part(web)


def test_the_newest_refusal_of_one_holds_for_all_of_its_kind() -> None:
    """What would help the one that was tried last would help the others, whatever they were refused for earlier."""
    queue, kind = Queue(), Kind("alike", "judged")
    for number, woken_by in enumerate((Change.POD_LEFT, Change.LABELS)):
        queue.admit(f"p{number}", (float(number),), 0.0)
        queue.pop()
        queue.park(f"p{number}", woken_by, (), 0.0, kind)
    assert [] == queue.wake(Change.POD_LEFT, 5.0)
    assert ["p0"] == queue.wake(Change.LABELS, 5.0)


def test_whose_back_off_is_over_goes_before_who_rests() -> None:
    """The first in order has failed often and rests; its like does not wait for it."""
    queue, kind = Queue(), Kind("alike", "judged")
    for uid, attempts in (("often", 5), ("once", 1)):
        queue.admit(uid, (float(-attempts),), 0.0)
        queue.pop()
        queue.waiting[uid].attempts = attempts
        queue.park(uid, Change.POD_LEFT, (), 0.0, kind)
    assert ["once"] == queue.wake(Change.POD_LEFT, 2.0)
    assert ["often"] == queue.wake(Change.POD_LEFT, 2.0)
    assert Part.BACKING_OFF is queue.waiting["often"].part


def test_a_group_keeps_no_trace_of_who_left() -> None:
    """However often a pod is parked and woken, what the group remembers of it stays bounded."""
    parked, entry = Parked(), Waiting("a", (0.0,), 0.0)
    entry.kind = Kind("alike", "judged")
    for entry.stamp in range(10 * SLACK):
        parked.add(entry, (), 0.0)
        group = parked.groups["alike"]
        assert SLACK + 2 >= len(group.rested) + len(group.resting)
        if entry.stamp % 2:
            parked.remove(entry)
    assert ({}, {}, []) == (parked.groups, parked.buckets, list(parked.since))


def test_pods_that_differ_only_in_labels_are_judged_once() -> None:
    """A hundred pods with a label each, as a StatefulSet makes them: one question for all, and all are woken by a yes."""
    asked: list[str] = []

    def no(uid: str, plugins: tuple[str, ...]) -> bool:
        asked.append(uid)
        return False

    queue = Queue()
    for number in range(100):
        queue.admit(f"p{number}", (0.0,), 0.0)
        queue.pop()
        queue.park(f"p{number}", Change.POD_LEFT, (), 0.0, Kind(number, "judged"))
    assert [] == queue.wake(Change.POD_LEFT, 5.0, no)
    assert 1 == len(asked)
    assert 100 == len(queue.wake(Change.POD_LEFT, 5.0))


def test_toleration_is_part_of_the_hint() -> None:
    """A node with a taint helps the pod that tolerates it, and not its neighbour in the queue."""
    scene = Scene()
    meek, brave = pod("meek"), pod("brave", spec=PodSpec(tolerations=(Toleration("gpu", "Exists"),)))
    scene.sees(meek, brave)
    scene.turn()
    scene.later(2.0)
    scene.sees(node("a", taints=TAINTED))
    assert (Part.PARKED, Part.READY) == (scene.part(meek), scene.part(brave))
