"""Decides whether gangs go together or not at all, hold nothing while they wait, and say why they wait."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import EngineHarness, node, of_kind, pod
from tests.core.stub_plugins import permitter, reserver, staged
from trimtab.core.framework.interface import Reject, StageStatus
from trimtab.core.model.events import BindDone, BindFailed, BindFailure, ObjectDeleted, ObjectUpserted, PodDeleted
from trimtab.core.model.instructions import Bind, EmitEvent, Instruction
from trimtab.core.model.objects import LEGACY_POD_GROUP_LABEL, POD_GROUP_LABEL, PodGroup
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, PodRequests
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState


def group(least: int, name: str = "train", **fields: Any) -> PodGroup:
    return PodGroup(name=name, uid=f"group-{name}", namespace="default", min_member=least, **fields)


def member(number: int, cpu: int = 500, name: str = "train", **fields: Any) -> Pod:
    return pod(f"{name}-{number}", cpu, labels={POD_GROUP_LABEL: name}, **fields)


def gang(scene: EngineHarness, count: int, least: int, cpu: int = 500, name: str = "train", **fields: Any) -> list[Pod]:
    """The group and so many members are seen."""
    made = [member(number, cpu, name) for number in range(count)]
    scene.handle(ObjectUpserted(group(least, name, **fields), scene.at))
    scene.upsert(*made)
    return made


def scene_of(*nodes: int, plugins: tuple[Any, ...] = (), **settings: Any) -> EngineHarness:
    """Nodes with so many thousandths of CPU, and Coscheduling."""
    scene = EngineHarness(settings.pop("coscheduling", Coscheduling()), *plugins, **settings)
    scene.upsert(*(node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    return scene


def notes(instructions: list[Instruction], reason: str = "FailedScheduling") -> dict[str, str]:
    return {tell.name: tell.note for tell in of_kind(EmitEvent, instructions) if tell.reason == reason}


def land(scene: EngineHarness, instructions: list[Instruction]) -> list[str]:
    """All binds are answered and seen."""
    binds = of_kind(Bind, instructions)
    for bind in binds:
        scene.handle(BindDone(bind.uid, bind.node, scene.at))
        scene.bound(scene.engine.cluster.pods[bind.uid], bind.node)
    return [bind.name for bind in binds]


def test_all_members_go_in_one_turn() -> None:
    """One decision binds the whole gang, though it is for one pod that the turn asks."""
    scene = scene_of(1000, 1000)
    gang(scene, 4, 4)
    assert {"train-0", "train-1", "train-2", "train-3"} == scene.binds(1).keys()


def test_none_goes_where_not_all_fit() -> None:
    """Three of five fit: nobody is bound, nothing is held, and each member is told so with what stands in the way."""
    scene = scene_of(1000, 500)
    members = gang(scene, 5, 5)
    wishes = scene.turn()
    words = "pod group default/train: 3 of 5 members fit; 0/2 nodes are available: 2 Insufficient cpu."
    assert ([], dict.fromkeys((each.name for each in members), words)) == (of_kind(Bind, wishes), notes(wishes))
    assert (0, 0, 0) == (
        scene.requested("n0"),
        scene.requested("n1"),
        len(scene.engine.controller(Scheduling).bindings),
    )
    assert {QueueState.UNSCHEDULABLE} == {scene.queue_state(each) for each in members}


def test_beyond_the_quorum_members_are_ordinary_pods() -> None:
    """Two are enough and three fit: three are bound in the turn, and the fourth waits by itself."""
    scene = scene_of(1500)
    members = gang(scene, 4, 2)
    wishes = scene.turn(1)
    assert 3 == len(land(scene, wishes))
    assert notes(wishes)["train-3"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    scene.advance(2.0)
    scene.handle(PodDeleted(members[0].uid, scene.at))
    assert {"train-3": "n0"} == scene.binds()


def test_of_two_gangs_that_each_want_more_than_half_one_is_placed() -> None:
    """The other waits without holding anything, and goes when the first has gone."""
    scene = scene_of(1000, 1000)
    first, second = gang(scene, 3, 3, name="one"), gang(scene, 3, 3, name="two")
    assert {each.name for each in first} == set(land(scene, scene.turn()))
    assert {QueueState.UNSCHEDULABLE} == {scene.queue_state(each) for each in second}
    scene.advance(2.0)
    for each in first:
        scene.handle(PodDeleted(each.uid, scene.at))
    scene.advance(9.0)
    assert {each.name for each in second} == set(scene.binds())


def test_a_member_that_lands_is_no_reason_to_look_at_the_gang_for_each_fellow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gang is looked at once at most for each that lands: thousands do, one after the other."""
    scene = scene_of(4000)
    members = gang(scene, 8, 8)
    wishes = of_kind(Bind, scene.turn())
    gangs, looks = scene.engine.controller(Scheduling).gangs, list[str]()
    look = gangs.gang
    monkeypatch.setattr(gangs, "gang", lambda cluster, key, at: looks.append(key) or look(cluster, key, at))
    for bind in wishes:
        scene.bound(scene.engine.cluster.pods[bind.uid], bind.node)
    assert (8, True) == (len(wishes), len(looks) <= len(members))


@pytest.mark.parametrize(("leaves", "stirred"), [(1, True), (2, False)])
def test_a_gang_is_stirred_for_those_who_are_still_there(leaves: int, stirred: bool) -> None:
    """Room for a small member stirs the gang each time, and no more when that member has gone."""
    scene = scene_of(1000)
    scene.upsert(pod("most", 600, node="n0"), pod("first", 100, node="n0"), pod("second", 100, node="n0"))
    members = [member(0, 900), member(1, 900), member(2, 300)]
    scene.handle(ObjectUpserted(group(2), 0.0))
    scene.upsert(*members)
    scene.turn()
    scene.advance(20.0)
    scene.handle(PodDeleted("uid-first", scene.at))
    scene.turn()
    scene.advance(20.0)
    scene.handle(PodDeleted(members.pop(leaves).uid, scene.at), PodDeleted("uid-second", scene.at))
    assert stirred is any(scene.queue_state(each) is not QueueState.UNSCHEDULABLE for each in members)


def test_the_last_one_whose_bind_is_refused_goes_before_others() -> None:
    """The rest of the gang is bound already: what it was refused for, it gets next, whoever has waited longer."""
    scene = scene_of(1000)
    scene.advance(10.0)
    gang(scene, 2, 2)
    first, last = of_kind(Bind, scene.turn())
    scene.handle(BindDone(first.uid, first.node, scene.at))
    scene.bound(scene.engine.cluster.pods[first.uid], first.node)
    scene.upsert(pod("early", 500))
    scene.advance(1.0)
    scene.handle(BindFailed(last.uid, last.node, BindFailure.REFUSED, "over quota", scene.at))
    scene.advance(1.0)
    assert {last.name: "n0"} == scene.binds(1)


def test_larger_members_are_placed_first() -> None:
    """A small one must not take the only node that a large one fits on."""
    scene = scene_of(1000, 400)
    scene.handle(ObjectUpserted(group(2), 0.0))
    scene.upsert(member(0, 400), member(1, 1000))
    assert {"train-0": "n1", "train-1": "n0"} == scene.binds()


def test_a_group_that_nobody_has_made() -> None:
    """The pod waits, names what it waits for, and is tried as soon as that is there."""
    scene = scene_of(1000)
    scene.upsert(member(0))
    assert {"train-0": "pod group default/train does not exist"} == notes(scene.turn())
    scene.advance(2.0)
    scene.handle(ObjectUpserted(group(1), scene.at))
    assert {"train-0": "n0"} == scene.binds()


@pytest.mark.parametrize("gates", [(), ("gate",)])
def test_too_few_members(gates: tuple[str, ...]) -> None:
    """A member that is missing, or held back by its gate, keeps all waiting; when it comes they all go at once."""
    scene = scene_of(2000)
    gang(scene, 2, 3)
    if gates:
        scene.upsert(member(2, scheduling_gates=gates))
    wishes = scene.turn()
    held = "cannot proceed due to gated pods" if gates else "cannot find enough sibling pods, current pods number: 2"
    assert {"train-0", "train-1"} == {name for name, words in notes(wishes).items() if held in words}
    scene.advance(2.0)
    scene.upsert(member(2))
    assert 3 == len(scene.binds(1))


def test_members_that_are_not_ours_to_place() -> None:
    """All of ours fit and do not suffice: they wait and say for whom; when another scheduler has placed its own, they go."""
    scene = scene_of(2000)
    theirs = member(2, scheduler_name="other")
    scene.handle(ObjectUpserted(group(3), 0.0))
    scene.upsert(member(0), member(1), theirs)
    told = "pod group default/train: 2 of 3 members fit; 0/1 nodes are available: the other members are gated"
    words = notes(scene.turn())
    assert (["train-0", "train-1"], True) == (sorted(words), words["train-0"].startswith(told))
    assert (QueueState.UNSCHEDULABLE, 0) == (scene.queue_state(member(0)), scene.requested("n0"))
    scene.advance(2.0)
    scene.bound(theirs, "n0")
    assert {"train-0", "train-1"} == scene.binds(1).keys()


def test_resources_that_the_cluster_lacks() -> None:
    """`minResources` that all nodes together cannot give is refused before any node is looked at, and says which."""
    scene = scene_of(1000, 1000)
    wanted = PodRequests(amounts=((CPU, 3000),))
    members = gang(scene, 2, 2, min_resources=wanted)
    words = "pod group default/train: resource gap: cpu"
    assert dict.fromkeys((each.name for each in members), words) == notes(scene.turn())
    scene.advance(2.0)
    scene.upsert(node("n2", 1000))
    assert 2 == len(scene.binds())


def test_what_helps_a_gang_wakes_all_of_it() -> None:
    """Room that is freed wakes the gang once, as a whole; room where no member could go does not."""
    scene = scene_of(1000, 300)
    scene.upsert(pod("big", 900, node="n0"), pod("tiny", 100, node="n1"))
    members = gang(scene, 2, 2)
    scene.turn()
    scene.advance(2.0)
    scene.handle(PodDeleted("uid-tiny", scene.at))
    assert {QueueState.UNSCHEDULABLE} == {scene.queue_state(each) for each in members}
    scene.handle(PodDeleted("uid-big", scene.at))
    assert [QueueState.UNSCHEDULABLE, QueueState.ACTIVE] == sorted(
        (scene.queue_state(each) or "" for each in members), reverse=True
    )
    assert 2 == len(scene.binds(1))


def test_a_gang_that_does_not_come_together_in_time_is_told_of_once() -> None:
    """After its PodGroup's own limit, counted from the first failed try; it is tried further all the same."""
    scene = scene_of(500)
    gang(scene, 2, 2, timeout=30)
    scene.turn()
    assert {} == notes(scene.advance(29.0), "PodGroupTimeout")
    words = "pod group default/train was not scheduled within 30 s, retrying: "
    (told,) = notes(scene.advance(1.0), "PodGroupTimeout").values()
    assert told.startswith(words + "pod group default/train: 1 of 2 members fit; 0/1")
    assert {} == notes(scene.advance(100.0), "PodGroupTimeout")
    scene.upsert(node("n1", 500))
    assert 2 == len(scene.binds())


def test_the_rest_of_a_gang_that_is_partly_bound_goes_first() -> None:
    """A successor finds two of five bound, and lets the other three go before pods that came earlier."""
    scene = scene_of(1500, 1000)
    scene.at = 10.0
    earlier = [pod(f"early-{number}", 500) for number in range(3)]
    scene.upsert(*earlier)
    members = gang(scene, 5, 5)
    scene.bound(members[1], "n0")
    scene.bound(members[3], "n1")
    assert {"train-0", "train-2", "train-4"} == scene.binds(1).keys()
    assert {} == scene.binds()


def test_a_rest_that_does_not_fit_waits_whole() -> None:
    """Two of five are bound and two more would fit: none of them goes."""
    scene = scene_of(2000)
    members = gang(scene, 5, 5)
    scene.bound(members[0], "n0")
    scene.bound(members[1], "n0")
    wishes = scene.turn()
    assert ([], 3) == (of_kind(Bind, wishes), len(notes(wishes)))
    assert "pod group default/train: 4 of 5 members fit; " in notes(wishes)["train-2"]


def test_a_member_whose_bind_failed_completes_its_gang_again() -> None:
    """Its room is given back alone, the others stay, and it is bound later."""
    scene = scene_of(1000)
    gang(scene, 2, 2)
    first, second = of_kind(Bind, scene.turn())
    scene.handle(BindDone(first.uid, first.node, scene.at))
    scene.handle(BindFailed(second.uid, second.node, BindFailure.REFUSED, "no", scene.at))
    scene.advance(2.0)
    assert {second.name: "n0"} == scene.binds()


def test_members_are_ordered_by_their_group_where_the_plugin_orders_the_queue() -> None:
    """A gang whose group is older goes before pods that came earlier than its members did."""
    scene = EngineHarness(Coscheduling(), without=("PrioritySort",))
    scene.at = 50.0
    scene.upsert(node("n0", 1000), pod("early", 600))
    scene.at = 60.0
    gang(scene, 2, 2, created=10.0)
    assert {"train-0": "n0", "train-1": "n0"} == scene.binds(1)


def test_a_refused_reservation_undoes_all_in_reverse() -> None:
    """What was reserved for the members before is given back, last first."""
    answers = iter([StageStatus.SUCCESS, StageStatus.SUCCESS, Reject("taken")])
    scene = scene_of(4000, plugins=(reserver("Keeper", lambda pod: next(answers, StageStatus.SUCCESS)),))
    gang(scene, 3, 3)
    wishes = scene.turn()
    assert "3 members fit; 0/1 nodes are available: taken." in notes(wishes)["train-0"]
    log = ("train-0", "train-1", "train-2", "-train-2", "-train-1", "-train-0")
    assert (log, 0) == (scene.engine.cluster.plugin_state["Keeper"], scene.requested("n0"))


def test_a_stage_that_refuses_one_at_once_keeps_all_from_going() -> None:
    """No member is bound while another was turned back in the same turn."""
    scene = scene_of(4000, plugins=(permitter("Guard", staged(StageStatus.SUCCESS, Reject("not you"))),))
    gang(scene, 3, 3)
    wishes = scene.turn()
    assert ([], 0, 3) == (of_kind(Bind, wishes), scene.requested("n0"), len(notes(wishes)))
    scene.advance(60.0)
    assert 3 == len(scene.binds())


def test_a_plugin_that_raises_puts_all_members_back() -> None:
    """Nothing is held, and the gang is tried again after its back-off."""
    broken = iter([True])
    scene = scene_of(
        4000, plugins=(permitter("Guard", lambda pod, node: 1 / 0 if next(broken, False) else StageStatus.SUCCESS),)
    )
    members = gang(scene, 2, 2)
    scene.turn()
    assert (0, {QueueState.BACKOFF}) == (scene.requested("n0"), {scene.queue_state(each) for each in members})
    scene.advance(1.0)
    assert 2 == len(scene.binds())


def test_seconds_between_two_failed_tries() -> None:
    """`podGroupBackoffSeconds`: neither freed room nor a new member brings the next try sooner."""
    scene = scene_of(500, coscheduling=Coscheduling(pod_group_backoff_seconds=20))
    gang(scene, 2, 2)
    scene.turn()
    scene.advance(15.0)
    scene.upsert(node("n1", 500), member(2))
    assert {} == scene.binds()
    scene.advance(4.0)
    assert {} == scene.binds()
    scene.advance(1.0)
    assert 2 == len(scene.binds())


def test_the_older_label_is_read_with_a_note() -> None:
    """Once for a gang, on its first try."""
    scene = scene_of(1000)
    scene.handle(ObjectUpserted(group(1), 0.0))
    scene.upsert(pod("old", 100, labels={LEGACY_POD_GROUP_LABEL: "train"}))
    wishes = scene.turn()
    assert ["old"] == [bind.name for bind in of_kind(Bind, wishes)]
    assert [f"use {POD_GROUP_LABEL}"] == [each.split(": ")[1] for each in notes(wishes, "OlderLabel").values()]


def test_without_the_plugin_the_label_means_nothing() -> None:
    """A profile that does not enable Coscheduling places such a pod as kube-scheduler does."""
    scene = EngineHarness()
    scene.upsert(node("n0"), member(0))
    assert {"train-0": "n0"} == scene.binds()


def test_what_is_remembered_of_a_gang_goes_with_its_last_member() -> None:
    """Nothing is left behind when its pods have gone, nor of a pod whose label was changed."""
    scene = scene_of(500)
    members = gang(scene, 2, 2)
    scene.turn()
    scene.upsert(replace(members[0], labels={}))
    scene.handle(PodDeleted(members[1].uid, scene.at), ObjectDeleted("podgroups", "default/train", scene.at))
    gangs = scene.engine.controller(Scheduling).gangs
    assert ({}, {}) == (gangs.members, gangs.history)


def test_a_fork_decides_on_as_the_original_would() -> None:
    """Members, failed tries and the hints of a gang are the twin's own."""
    scene = scene_of(500)
    gang(scene, 2, 2)
    scene.turn()
    twin = EngineHarness()
    twin.engine, twin.at, twin.version = scene.engine.fork(), 60.0, 200
    twin.advance(0.0)
    twin.upsert(node("n1", 500))
    assert (2, 0) == (len(twin.binds()), len(scene.engine.controller(Scheduling).bindings))


def test_a_label_that_no_plugin_heeds_gets_a_word() -> None:
    """Once for each group, on its first pod, whichever of the labels it is; the pods are scheduled all the same."""
    scene = EngineHarness()
    scene.upsert(node("a", 8000))
    labels = [{POD_GROUP_LABEL: "train"}, {POD_GROUP_LABEL: "train"}, {LEGACY_POD_GROUP_LABEL: "other"}, {"app": "web"}]
    scene.upsert(*(pod(f"p{number}", cpu=100, labels=each) for number, each in enumerate(labels)))
    wishes = scene.turn()
    assert ["default/train", "default/other"] == [
        wish.note.split("pod group ")[1].split()[0]
        for wish in of_kind(EmitEvent, wishes)
        if wish.reason == "PodGroupIgnored"
    ]
    assert 4 == len(of_kind(Bind, wishes))
    scene.upsert(pod("late", cpu=100, labels=labels[0]))
    assert [] == of_kind(EmitEvent, scene.turn())
