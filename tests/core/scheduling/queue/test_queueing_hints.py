"""Decides whether a change stirs exactly those parked pods whom it could help, and equal pods one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from tests.core.engine_harness import EngineHarness, node, pod
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Rows
from trimtab.core.model.affinity import Affinity
from trimtab.core.model.change import Change
from trimtab.core.model.events import PodDeleted
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.taints import NO_SCHEDULE, Taint, Toleration
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queue import QueuedPod, QueueState, SchedulingQueue
from trimtab.core.scheduling.queue.unschedulable import MAX_STALE, Equivalence, UnschedulablePods

PORT = PodSpec(ports=(HostPort("TCP", "0.0.0.0", 80),))
CHOOSY = PodSpec(node_selector=(("disk", "ssd"),))
TAINTED = (Taint("gpu", "", NO_SCHEDULE),)


Happening = Callable[[EngineHarness], object]


def gone(name: str) -> Happening:
    return lambda scene: scene.handle(PodDeleted(f"uid-{name}", scene.at))


def shown(*nodes: Node) -> Happening:
    return lambda scene: scene.upsert(*nodes)


@pytest.mark.parametrize(
    ("wants", "happens", "part"),
    [
        (pod("web", 900), gone("big"), QueueState.ACTIVE),
        (pod("web", 900), gone("small"), QueueState.UNSCHEDULABLE),
        (pod("web", 900), shown(node("c", 900)), QueueState.ACTIVE),
        (pod("web", 900), shown(node("c", 800)), QueueState.UNSCHEDULABLE),
        (pod("web", 900), shown(node("c", 900, taints=TAINTED)), QueueState.UNSCHEDULABLE),
        (pod("web", 900), shown(node("b", 5000)), QueueState.ACTIVE),
        (pod("web", 900), shown(node("b", 1001)), QueueState.UNSCHEDULABLE),
        (pod("web", spec=PORT), gone("door"), QueueState.ACTIVE),
        (pod("web", spec=PORT), gone("big"), QueueState.UNSCHEDULABLE),
        (pod("web", spec=CHOOSY), shown(node("a", 1000, labels={"disk": "ssd"})), QueueState.ACTIVE),
        (pod("web", spec=CHOOSY), shown(node("a", 1000, labels={"disk": "hdd"})), QueueState.UNSCHEDULABLE),
        (pod("web", spec=CHOOSY), gone("big"), QueueState.UNSCHEDULABLE),
        (
            pod("web", spec=PodSpec(affinity=Affinity(), node_selector=(("x", "y"),))),
            gone("small"),
            QueueState.UNSCHEDULABLE,
        ),
    ],
)
def test_who_is_stirred(wants: Pod, happens: Happening, part: QueueState) -> None:
    """A deletion, a new node or a change of one wakes a pod only if every plugin that judges rows now passes such a row."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), node("b", 1000), pod("big", 800, node="a"), pod("small", 300, node="b"))
    scene.upsert(pod("hold", 600, node="b"), pod("door", node="a", spec=PORT), pod("gate", node="b", spec=PORT))
    scene.upsert(wants)
    assert {} == scene.binds()
    scene.advance(2.0)
    happens(scene)
    assert part is scene.queue_state(wants)


def test_a_change_that_only_shifts_the_blame_is_remembered() -> None:
    """The label comes first and the room later: the second change wakes the pod, though the first was no help."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), pod("big", 800, node="a"))
    web = pod("web", 900, spec=CHOOSY)
    scene.upsert(web)
    scene.turn()
    scene.advance(2.0)
    scene.upsert(node("a", 1000, labels={"disk": "ssd"}))
    assert QueueState.UNSCHEDULABLE is scene.queue_state(web)
    gone("big")(scene)
    assert {"web": "a"} == scene.binds()


def test_of_equal_pods_only_the_first_is_woken_and_the_next_when_it_was_placed() -> None:
    """Room for two of four: three are tried, in their order, and the fourth is left in peace."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), pod("big", 1000, node="a"))
    equal = [pod(f"web-{i}", 500) for i in range(4)]
    scene.upsert(*equal)
    scene.turn()
    scene.advance(2.0)
    gone("big")(scene)
    assert [QueueState.ACTIVE, QueueState.UNSCHEDULABLE, QueueState.UNSCHEDULABLE, QueueState.UNSCHEDULABLE] == [
        scene.queue_state(each) for each in equal
    ]
    assert {"web-0": "a", "web-1": "a"} == scene.binds()
    assert [2, 2, 2, 1] == [scene.engine.controller(Scheduling).queue.pods[each.uid].attempts for each in equal]


@pytest.mark.parametrize("way", ["deleted", "gated", "edited", "raised"])
def test_the_next_leads_on_when_the_first_leaves_without_being_refused(way: str) -> None:
    """Deleted, gated, edited into another kind, or broken by a plugin: the next of its kind has its chance all the same."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), pod("big", 1000, node="a"))
    first, second = pod("web-0", 500), pod("web-1", 500)
    scene.upsert(first, second)
    scene.turn()
    scene.advance(2.0)
    gone("big")(scene)
    changed = {
        "deleted": replace(first, terminating=True),
        "gated": replace(first, scheduling_gates=("g",)),
        "edited": replace(first, labels={"a": "b"}),
        "raised": first,
    }[way]
    scene.upsert(changed)
    if way == "raised":
        scene.engine.controller(Scheduling).queue.pop()
        scene.engine.controller(Scheduling).queue.add_backoff(first.uid, scene.at)
    assert QueueState.ACTIVE is scene.queue_state(second)


def test_equal_but_for_a_promise() -> None:
    """A pod to whom a node was promised does not stand behind its like: the promise holds for it alone."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), pod("big", 1000, node="a"))
    first, promised = pod("web-0", 1000), pod("web-1", 1000, nominated_node="a", may_preempt=False)
    scene.upsert(first, promised)
    scene.turn()
    scene.advance(2.0)
    gone("big")(scene)
    assert {"web-1": "a"} == scene.binds()


@dataclass(frozen=True)
class Moody:
    """Refuses all nodes while some pod stands anywhere, and knows which changes are none of its business."""

    name: ClassVar[str] = "Moody"
    requeue_on: ClassVar[Change] = Change.POD_DELETED

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return np.full(len(view.pod_count[rows]), int(view.pod_count.sum() > 0), dtype=np.int64)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("moody",)


@dataclass(frozen=True)
class Hinting(Moody):
    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        if "broken" in pod.labels:
            raise RuntimeError("no idea")
        return int(view.pod_count.sum()) == 0


@pytest.mark.parametrize(
    ("plugin", "labels", "part"),
    [
        (Moody(), {}, QueueState.ACTIVE),
        (Hinting(), {}, QueueState.UNSCHEDULABLE),
        (Hinting(), {"broken": "yes"}, QueueState.ACTIVE),
    ],
)
def test_a_plugin_whose_rows_depend_on_each_other(plugin: Moody, labels: dict[str, str], part: QueueState) -> None:
    """It wakes on all that it names, or on what its own hint says; a hint that fails is a doubt, and a doubt wakes."""
    scene = EngineHarness(plugin)
    scene.upsert(node("a", 100), node("b"), pod("one", node="b"), pod("two", node="a"))
    web = pod("web", 500, labels=labels)
    scene.upsert(web)
    scene.turn()
    scene.advance(2.0)
    gone("two")(scene)
    assert part is scene.queue_state(web)


def test_the_newest_refusal_of_one_holds_for_all_of_its_kind() -> None:
    """What would help the one that was tried last would help the others, whatever they were refused for earlier."""
    queue, kind = SchedulingQueue(), Equivalence("alike", "judged")
    for number, woken_by in enumerate((Change.POD_DELETED, Change.LABELS)):
        queue.add(f"p{number}", (float(number),), 0.0)
        queue.pop()
        queue.add_unschedulable(f"p{number}", woken_by, (), 0.0, kind)
    assert [] == queue.wake(Change.POD_DELETED, 5.0)
    assert ["p0"] == queue.wake(Change.LABELS, 5.0)


def test_whose_back_off_is_over_goes_before_who_rests() -> None:
    """The first in order has failed often and rests; its like does not wait for it."""
    queue, kind = SchedulingQueue(), Equivalence("alike", "judged")
    for uid, attempts in (("often", 5), ("once", 1)):
        queue.add(uid, (float(-attempts),), 0.0)
        queue.pop()
        queue.pods[uid].attempts = attempts
        queue.add_unschedulable(uid, Change.POD_DELETED, (), 0.0, kind)
    assert ["once"] == queue.wake(Change.POD_DELETED, 2.0)
    assert ["often"] == queue.wake(Change.POD_DELETED, 2.0)
    assert QueueState.BACKOFF is queue.pods["often"].state


def test_a_group_keeps_no_trace_of_who_left() -> None:
    """However often a pod is parked and woken, what the group remembers of it stays bounded."""
    parked, entry = UnschedulablePods(), QueuedPod("a", (0.0,), 0.0)
    entry.equivalence = Equivalence("alike", "judged")
    for entry.stamp in range(10 * MAX_STALE):
        parked.add(entry, (), 0.0)
        group = parked.groups["alike"]
        assert MAX_STALE + 2 >= len(group.ready) + len(group.backing_off)
        if entry.stamp % 2:
            parked.remove(entry)
    assert ({}, {}, []) == (parked.groups, parked.buckets, list(parked.since))


def test_pods_that_differ_only_in_labels_are_judged_once() -> None:
    """A hundred pods with a label each, as a StatefulSet makes them: one question for all, and all are woken by a yes."""
    asked: list[str] = []

    def no(uid: str, plugins: tuple[str, ...]) -> bool:
        asked.append(uid)
        return False

    queue = SchedulingQueue()
    for number in range(100):
        queue.add(f"p{number}", (0.0,), 0.0)
        queue.pop()
        queue.add_unschedulable(f"p{number}", Change.POD_DELETED, (), 0.0, Equivalence(number, "judged"))
    assert [] == queue.wake(Change.POD_DELETED, 5.0, no)
    assert 1 == len(asked)
    assert 100 == len(queue.wake(Change.POD_DELETED, 5.0))


def test_toleration_is_part_of_the_hint() -> None:
    """A node with a taint helps the pod that tolerates it, and not its neighbour in the queue."""
    scene = EngineHarness()
    meek, brave = pod("meek"), pod("brave", spec=PodSpec(tolerations=(Toleration("gpu", "Exists"),)))
    scene.upsert(meek, brave)
    scene.turn()
    scene.advance(2.0)
    scene.upsert(node("a", taints=TAINTED))
    assert (QueueState.UNSCHEDULABLE, QueueState.ACTIVE) == (scene.queue_state(meek), scene.queue_state(brave))
