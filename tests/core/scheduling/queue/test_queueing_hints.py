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
from trimtab.core.model.affinity import Affinity, PodAffinity, PodAffinityTerm
from trimtab.core.model.change import Change
from trimtab.core.model.events import ObjectUpserted, PodDeleted
from trimtab.core.model.node import HOSTNAME, Node
from trimtab.core.model.objects import POD_GROUP_LABEL, PodGroup
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.taints import NO_SCHEDULE, Taint, Toleration
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.plugins.inter_pod_affinity import InterPodAffinity
from trimtab.core.plugins.taint_toleration import TaintToleration
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queue import SchedulingQueue
from trimtab.core.scheduling.queue.queued_pod import QueuedPod, QueueState
from trimtab.core.scheduling.queue.queueing_hints import ChangedRows, LogReader, may_help
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


@pytest.mark.parametrize("everything", [False, True], ids=["both rows", "everything"])
def test_one_row_has_to_pass_every_filter(everything: bool) -> None:
    """Of two changed nodes one has the label and the other the room: that helps nobody, until one of them has both."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), node("b", 1000, labels={"disk": "ssd"}), pod("big", 800, node="b"))
    scene.upsert(web := pod("web", 900, spec=CHOOSY))
    assert {} == scene.binds()
    engine = scene.engine
    plugins, changed = engine.controller(Scheduling).queue.pods[web.uid].plugins, Change.LABELS | Change.POD_DELETED

    def helps() -> bool:
        rows = ChangedRows(None if everything else [(int(changed), 0), (int(changed), 1)])
        return may_help(engine.cluster.view, web, engine.state.settings.profiles[0], plugins, changed, rows)

    assert not helps()
    gone("big")(scene)
    assert helps()


def test_the_log_of_changes_is_read_once() -> None:
    """A row that was read is not asked about again at the next change; one that changes later is."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), node("b", 1000))
    table, reader = scene.engine.cluster.node_table, LogReader()
    assert reader.read(table).entries is None, "what happened before is not known"
    for changed in ("a", "b"):
        scene.upsert(node(changed, 1000, labels={"disk": "ssd"}))
        assert {table.row[changed]} == {row for _, row in reader.read(table).entries or ()}
    assert [] == reader.read(table).entries


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
        scene.engine.controller(Scheduling).queue.pop(0.0)
        scene.engine.controller(Scheduling).queue.add_backoff(first.uid, scene.at)
    assert QueueState.ACTIVE is scene.queue_state(second)


def test_equal_but_for_a_promise() -> None:
    """A pod to whom a node was promised does not stand behind its like: the promise holds for it alone."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), pod("big", 1000, node="a"))
    first, promised = (
        pod("web-0", 1000, may_preempt=False),
        pod("web-1", 1000, may_preempt=False, nominated_node="a"),
    )
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


@pytest.mark.parametrize(
    ("happens", "part"),
    [
        (gone("two"), QueueState.UNSCHEDULABLE),
        (shown(node("a", 5000)), QueueState.UNSCHEDULABLE),
        (shown(node("a", labels={"disk": "ssd"})), QueueState.UNSCHEDULABLE),
        (shown(node("c", 100)), QueueState.UNSCHEDULABLE),
        (shown(node("c")), QueueState.ACTIVE),
    ],
)
def test_rejected_by_such_a_plugin_alone(happens: Happening, part: QueueState) -> None:
    """Its hint alone speaks for the nodes that it rejected, whatever room they get; only a new node is another matter."""
    scene = EngineHarness(Hinting())
    scene.upsert(node("a"), node("b"), pod("one", node="b"), pod("two", node="a"))
    scene.upsert(web := pod("web", 500))
    scene.turn()
    assert ("Moody",) == scene.engine.controller(Scheduling).queue.pods[web.uid].plugins
    scene.advance(2.0)
    happens(scene)
    assert part is scene.queue_state(web)


@dataclass(frozen=True)
class NeverShy(Moody):
    """Refuses pods with the label `shy` for ever."""

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return Moody.filter(self, view, pod, rows) | int("shy" in pod.labels)


def test_pods_with_other_labels_do_not_wait_for_each_other() -> None:
    """A plugin may read labels, so the refusal of the first says nothing about the second."""
    scene = EngineHarness(NeverShy())
    scene.upsert(node("a"), pod("one", node="a"))
    scene.upsert(pod("web-0", labels={"shy": "yes"}), pod("web-1"))
    scene.turn()
    scene.advance(2.0)
    gone("one")(scene)
    assert {"web-1": "a"} == scene.binds()


def test_the_newest_refusal_of_one_holds_for_all_of_its_kind() -> None:
    """What would help the one that was tried last would help the others, whatever they were refused for earlier."""
    queue, kind = SchedulingQueue(), Equivalence("alike", "judged")
    for number, woken_by in enumerate((Change.POD_DELETED, Change.LABELS)):
        queue.add(f"p{number}", (float(number),), 0.0)
        queue.pop(0.0)
        queue.add_unschedulable(f"p{number}", woken_by, (), 0.0, kind)
    assert [] == queue.wake(Change.POD_DELETED, 5.0)
    assert ["p0"] == queue.wake(Change.LABELS, 5.0)


def test_whose_back_off_is_over_goes_before_who_rests() -> None:
    """The first in order has failed often and rests; its like does not wait for it."""
    queue, kind = SchedulingQueue(), Equivalence("alike", "judged")
    for uid, attempts in (("often", 5), ("once", 1)):
        queue.add(uid, (float(-attempts),), 0.0)
        queue.pop(0.0)
        queue.pods[uid].failures = attempts - 1
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
        queue.pop(0.0)
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


def test_a_change_that_lets_one_pod_of_a_gang_go_elsewhere_helps_the_other() -> None:
    """`b` wants to be beside `db` and away from `a`, which a taint keeps off the other node: until that is gone."""
    scene = EngineHarness(Coscheduling(), TaintToleration(), InterPodAffinity())
    other = node("n2", 4000, labels={HOSTNAME: "n2"}, taints=(Taint("x", "", NO_SCHEDULE),))
    scene.upsert(node("n1", 4000, labels={HOSTNAME: "n1"}), other, pod("db", 100, labels={"app": "db"}))
    scene.bound(scene.engine.cluster.pods["uid-db"], scene.binds()["db"])
    scene.handle(ObjectUpserted(PodGroup(name="train", uid="g", namespace="default", min_member=2), scene.at))
    large, small = (
        pod(name, cpu, labels={POD_GROUP_LABEL: "train", "app": name}) for name, cpu in (("a", 1000), ("b", 500))
    )
    beside, away = (
        PodAffinity(required=(PodAffinityTerm(HOSTNAME, LabelSelector((("app", app),))),)) for app in ("db", "a")
    )
    affinity = Affinity(pod_affinity=beside, pod_anti_affinity=away)
    tolerations = (Toleration(operator="Exists"),)
    scene.upsert(large, replace(small, spec=replace(small.spec, affinity=affinity, tolerations=tolerations)))
    assert {} == scene.binds()
    scene.advance(5.0)
    scene.upsert(replace(other, taints=()))
    assert {"a": "n2", "b": "n1"} == scene.binds()
