"""Decides whether the engine decides only when it may, takes facts in at any time, and survives odd histories of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from tests.core.engine.scene import Scene, node, of_kind, pod, profile
from tests.core.engine.stages import permitter
from trimtab.core.cluster.invariants import faults
from trimtab.core.model.change import Change
from trimtab.core.model.event import (
    BindDone,
    BindFailed,
    Event,
    Fault,
    Following,
    Leading,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    RereadDone,
    SamplesRead,
    SettingsRead,
    StageAnswered,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instruction import Bind, Reread, Tell
from trimtab.core.model.pod import HostPort, PodSpec
from trimtab.core.model.resources import CPU
from trimtab.core.model.sample import Reading
from trimtab.core.placing.contract import Wait
from trimtab.core.placing.profile import Profile, everywhere
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queue import Part
from trimtab.core.settings import Settings

WEB = pod("web", cpu=1000)


# --- turns


@pytest.mark.parametrize(
    ("before", "binds"),
    [
        ((), 0),
        ((Synced("pods", 0.0), Synced("nodes", 0.0)), 0),
        ((Leading(1, 0.0),), 0),
        ((Synced("pods", 0.0), Leading(1, 0.0)), 0),
        ((Leading(1, 0.0), Synced("nodes", 0.0), Synced("pods", 0.0)), 1),
        ((Synced("pods", 0.0), Synced("nodes", 0.0), Leading(1, 0.0), Following(0.0)), 0),
        ((Synced("pods", 0.0), Synced("nodes", 0.0), Leading(1, 0.0), Following(0.0), Leading(2, 0.0)), 1),
    ],
)
def test_a_turn_decides_only_when_all_is_synced_and_we_lead(before: tuple[Event, ...], binds: int) -> None:
    """Before that, and as a standby, facts are taken in and nothing is decided."""
    scene = Scene(ready=False)
    scene.tells(*before)
    scene.sees(node("a"), WEB)
    assert bool(binds) == scene.engine.has_work()
    assert binds == len(scene.turn())
    assert [] == faults(scene.engine.cluster)


@dataclass(frozen=True)
class Looks:
    """A plugin that looks at further kinds, and refuses nothing."""

    watches: tuple[str, ...] = ("things",)
    name: ClassVar[str] = "Looks"
    woken_by: ClassVar[Change] = Change.NOTHING


def test_a_turn_waits_for_every_kind_that_some_plugin_looks_at() -> None:
    """Also for kinds that come with new settings, and for none twice."""
    scene = Scene(Looks(), ready=False)
    assert {"pods", "nodes"} == scene.engine.state.unsynced
    scene.tells(Synced("pods", 0.0), Synced("nodes", 0.0), Leading(1, 0.0))
    scene.tells(SettingsRead(Settings((profile(Looks(("things", "others"))),)), 1.0))
    scene.sees(node("a"), WEB)
    assert {"others"} == scene.engine.state.unsynced
    assert {} == scene.binds()
    scene.tells(Synced("others", 2.0))
    assert {"web": "a"} == scene.binds()


def test_a_turn_decides_no_more_than_it_was_given() -> None:
    """One event never decides a backlog."""
    scene = Scene()
    scene.sees(node("a"), *(pod(f"web-{number}", cpu=1) for number in range(5)))
    assert [2, 2, 1, 0] == [len(scene.binds(2)) for _ in range(4)]


def test_no_more_binds_are_under_way_than_the_cap() -> None:
    """A bind counts until its outcome and its confirmation are in."""
    scene = Scene(max_binds_in_flight=2)
    scene.sees(node("a"), *(pod(f"web-{number}", cpu=1) for number in range(4)))
    assert (2, False, 0) == (len(scene.binds()), scene.engine.has_work(), len(scene.binds()))
    scene.bound(pod("web-0", cpu=1), "a")
    assert (True, 1) == (scene.engine.has_work(), len(scene.binds()))


def test_facts_alone_decide_nothing() -> None:
    """However much room there is, nothing but a turn leads to a bind."""
    scene = Scene()
    wishes = scene.sees(node("a"), WEB, node("b"), pod("other"))
    assert [] == wishes + scene.later(100.0)


def test_a_pod_decided_in_a_turn_takes_its_room_from_the_next_one() -> None:
    """The second pod sees the first, though no bind has been answered."""
    scene = Scene()
    scene.sees(node("a", cpu=1500), node("b", cpu=1500), WEB, pod("other", cpu=1000), pod("third", cpu=1000))
    assert {"other": "a", "third": "b"} == scene.binds()
    assert Part.PARKED is scene.part(WEB)


def test_only_pods_of_our_own_scheduler_name_are_decided() -> None:
    """Pods of others count against the room once they have a node, and are otherwise none of our business."""
    scene = Scene()
    scene.sees(node("a"), pod("foreign", cpu=1000, scheduler="default-scheduler"))
    assert ({}, None) == (scene.binds(), scene.part(pod("foreign")))


@pytest.mark.parametrize("fields", [{"deleting": True}, {"phase": "Failed"}, {"gates": ("wait",)}, {"node": "a"}])
def test_a_pod_that_must_not_be_bound_is_not_decided(fields: dict[str, Any]) -> None:
    """Nor when it turned so while it was waiting."""
    scene = Scene()
    scene.sees(node("a"), pod("first", **fields), WEB)
    scene.sees(replace(WEB, **fields))
    assert {} == scene.binds()


def test_a_gated_pod_is_decided_when_its_gates_are_gone() -> None:
    """And not a word is written about it before."""
    scene = Scene()
    scene.sees(node("a"), pod("web", gates=("one", "two")))
    assert [] == scene.turn() + scene.sees(pod("web", gates=("two",))) + scene.turn()
    scene.sees(pod("web"))
    assert {"web": "a"} == scene.binds()


# --- leading and following


def test_a_standby_keeps_state_and_load_warm() -> None:
    """All facts count, so the first turn as leader decides on what is true now."""
    scene = Scene(ready=False)
    scene.sees(node("a", cpu=1500), node("b", cpu=1500))
    scene.bound(pod("old", cpu=1000, scheduler="else"), "a")
    scene.sees(WEB)
    measured = Reading("meter", CPU, ("a",), (900.0,), (0.0,))
    scene.tells(SamplesRead((measured,), 0.0), Synced("pods", 0.0), Synced("nodes", 0.0))
    assert [] == scene.turn()
    scene.tells(Leading(7, 0.0))
    assert {"web": "b"} == scene.binds()
    assert 900.0 == scene.engine.cluster.view.used(CPU)[0]


def test_a_former_leader_sends_nothing_for_pods_still_in_their_stages() -> None:
    """Their room is given back, for somebody else decides on them now; when we lead again they start anew."""
    scene = Scene(permitter("Permit", lambda pod, node: Wait(30.0)))
    scene.sees(node("a"), WEB)
    scene.turn()
    assert ([], 0) == (scene.tells(Following(1.0)), scene.requested("a"))
    assert [] == of_kind(Bind, scene.tells(StageAnswered(WEB.uid, 2.0)) + scene.later(40.0) + scene.turn())
    scene.tells(Leading(2, 41.0))
    assert ([], 1000) == (of_kind(Bind, scene.turn()), scene.requested("a"))


def test_a_former_leader_still_follows_up_what_it_has_sent() -> None:
    """The bind may have happened: its room stays taken until the server says otherwise."""
    scene = Scene()
    scene.sees(node("a"), WEB)
    scene.turn()
    scene.tells(Following(1.0))
    lost = scene.tells(BindFailed(WEB.uid, "a", Fault.UNKNOWN, "", 2.0))
    assert ([Reread(WEB.uid, "default", "web")], 1000) == (lost, scene.requested("a"))
    scene.tells(RereadDone(WEB.uid, scene.engine.cluster.pods[WEB.uid], 3.0))
    assert (1000, {}) == (scene.requested("a"), scene.binds())


# --- settings


def bare(name: str) -> Profile:
    """A profile without a single plugin."""
    return everywhere(name, [])


def test_new_settings_count_from_the_next_decision_on() -> None:
    """Parked pods get another chance, under new names and new plugins."""
    foreign = pod("foreign", scheduler="second")
    scene = Scene()
    scene.sees(node("a", unschedulable=True), WEB, foreign)
    scene.turn()
    assert (Part.PARKED, None) == (scene.part(WEB), scene.part(foreign))
    scene.at = 5.0
    scene.tells(SettingsRead(Settings((bare("trimtab"), bare("second"))), 5.0))
    assert {"web": "a", "foreign": "a"} == scene.binds()


def test_pods_of_a_name_that_is_no_longer_ours_are_let_go() -> None:
    """Waiting, parked or gated alike."""
    scene = Scene()
    scene.sees(node("a", cpu=500), WEB)
    scene.turn()
    scene.sees(pod("ready"), pod("gated", gates=("wait",)))
    scene.tells(SettingsRead(Settings((bare("other"),)), 1.0))
    assert (0, {}) == (len(scene.engine.controller(Scheduling).queue), scene.binds())


def test_gates_are_looked_at_again_under_new_settings() -> None:
    """A pod that was held by a gate of the old profile is free when the new one has none, and the other way round."""
    gated = pod("gated", gates=("wait",))
    scene = Scene()
    scene.sees(node("a", cpu=500), gated)
    scene.tells(SettingsRead(Settings((bare("trimtab"),)), 1.0))
    assert Part.READY is scene.part(gated)
    scene.tells(SettingsRead(Settings((profile(),)), 2.0))
    assert (Part.GATED, {}) == (scene.part(gated), scene.binds())


def test_patience_and_cap_are_settings_too() -> None:
    """They are in force at once."""
    scene = Scene()
    scene.sees(node("a"), WEB, pod("other"))
    scene.tells(SettingsRead(Settings((profile(),), max_binds_in_flight=1, bind_timeout=3.0), 0.0))
    assert (1, [Reread]) == (len(scene.binds()), [type(wish) for wish in scene.later(3.0)])


# --- odd histories


class Orphans(MetricsRecorder):
    """Counts pods that were bound to nodes gone in the meantime."""

    def __init__(self) -> None:
        self.count = 0

    def bound_to_missing_node(self) -> None:
        self.count += 1


def test_a_pod_bound_to_a_node_that_has_gone_is_told_as_an_orphan() -> None:
    """The server accepts such a bind; people must hear of it, for no kubelet will ever run the pod."""
    orphans = Orphans()
    scene = Scene(tally=orphans)
    scene.sees(node("a"), WEB)
    scene.turn()
    scene.tells(NodeGone("a", 1.0), BindDone(WEB.uid, "a", 1.0))
    told = of_kind(Tell, scene.bound(WEB, "a"))
    assert (["NodeGone"], 1) == ([tell.reason for tell in told], orphans.count)
    assert [] == faults(scene.engine.cluster)


def test_pods_on_an_unknown_node_count_when_it_appears() -> None:
    """Pods may be listed before their node is."""
    scene = Scene()
    scene.bound(pod("old", cpu=3500, scheduler="else"), "a")
    scene.sees(node("a"), WEB)
    assert ({}, 3500) == (scene.binds(), scene.requested("a"))


@pytest.mark.parametrize("deletion_seen", [True, False])
def test_a_node_made_anew_and_smaller_under_its_old_name_keeps_the_pods_it_has(deletion_seen: bool) -> None:
    """Room is what the new node offers, less what still stands there; what was measured on the old one is forgotten."""
    scene = Scene()
    scene.sees(node("a"))
    scene.bound(pod("old", cpu=1500, scheduler="else"), "a")
    scene.tells(SamplesRead((Reading("meter", CPU, ("a",), (900.0,), (0.0,)),), 0.0))
    if deletion_seen:
        scene.tells(NodeGone("a", 0.0, "uid-a"))
    scene.sees(node("a", cpu=2000, uid="uid-new"), WEB)
    assert ({}, 1500) == (scene.binds(), scene.requested("a"))
    assert [True] == [value != value for value in scene.engine.cluster.view.used(CPU)]
    assert [] == faults(scene.engine.cluster)


def test_a_pod_in_flight_to_a_node_made_anew_keeps_its_room_there() -> None:
    """The bind goes by name, so the pod will stand on the new node."""
    scene = Scene()
    scene.sees(node("a"), WEB)
    scene.turn()
    scene.tells(NodeGone("a", 0.0))
    scene.sees(node("a", uid="uid-new", cpu=1500), pod("other", cpu=1000))
    assert ({}, 1000) == (scene.binds(), scene.requested("a"))


def test_a_pod_that_ends_or_shrinks_gives_room_to_those_who_wait() -> None:
    """Ended pods keep their node's name and none of its room."""
    old = pod("old", cpu=3500, scheduler="else")
    scene = Scene()
    scene.sees(node("a"))
    scene.bound(old, "a")
    scene.sees(WEB)
    scene.turn()
    scene.at = 5.0
    scene.bound(old, "a", phase="Succeeded")
    assert {"web": "a"} == scene.binds()


def test_a_host_port_is_taken_by_a_pod_in_flight() -> None:
    """Two pods that want the same port get two nodes, in one turn."""
    spec = PodSpec(ports=(HostPort("TCP", "0.0.0.0", 80),))
    scene = Scene()
    scene.sees(node("a"), node("b"), *(pod(name, spec=spec) for name in ("x", "y", "z")))
    assert {"x": "a", "y": "b"} == scene.binds()


# --- what is not news


@pytest.mark.parametrize(
    "stale",
    [
        PodSeen(pod("web", cpu=4000, version=5), 9.0),
        PodSeen(pod("web", cpu=4000, version=4, node="a"), 9.0),
        PodSeen(pod("web", version=3, deleting=True), 9.0),
        PodGone("uid-web", 9.0, version=4),
        NodeSeen(node("a", cpu=1, version=7), 9.0),
        NodeSeen(node("a", cpu=1, version=6, uid="uid-older"), 9.0),
        NodeGone("a", 9.0, "uid-a", version=6),
        NodeGone("a", 9.0, "uid-older"),
        PodSeen(pod("dead", cpu=1000, version=99), 9.0),
        PodSeen(pod("dead", cpu=1000, version=99, node="a"), 9.0),
        PodGone("uid-dead", 9.0, version=99),
        NodeSeen(node("z", version=99), 9.0),
        NodeGone("z", 9.0, "uid-z", version=99),
    ],
)
def test_what_is_not_newer_or_of_a_dead_uid_changes_nothing(stale: Event) -> None:
    """The pod is held at version 5 and the node at 7; pod `dead` and node `z` have been deleted."""
    scene = Scene()
    scene.tells(NodeSeen(node("a", version=7), 0.0), NodeSeen(node("z", version=8), 0.0))
    scene.tells(PodSeen(replace(WEB, version=5), 0.0), PodSeen(pod("dead", version=6), 0.0))
    scene.tells(PodGone("uid-dead", 0.0, 9), NodeGone("z", 0.0, "uid-z", 10))
    assert [] == scene.tells(stale)
    assert (["a"], ["uid-web"], 0) == (
        [each.name for each in scene.engine.cluster.columns.nodes],
        list(scene.engine.cluster.pods),
        scene.requested("a"),
    )
    assert {"web": "a"} == scene.binds()


def test_a_pod_of_an_old_name_and_a_new_uid_is_another_pod() -> None:
    """A StatefulSet's replacement is decided afresh, and its bind carries its own UID."""
    scene = Scene()
    scene.sees(node("a"), WEB)
    scene.turn()
    scene.tells(PodGone(WEB.uid, 1.0))
    scene.sees(pod("web", cpu=1000, uid="uid-second"))
    assert ["uid-second"] == [bind.uid for bind in of_kind(Bind, scene.turn())]


def test_time_alone_brings_everybody_back() -> None:
    """Ticks end back-offs and the longest wait, without any other event: a pod is tried again within a minute."""
    scene = Scene()
    scene.sees(node("a", cpu=500), WEB)
    scene.turn()
    attempts = []
    for _ in range(130):
        scene.tells(Tick(scene.at), Turn(1, scene.at))
        attempts.append(scene.engine.controller(Scheduling).decisions.total)
        scene.at += 1.0
    assert (1, 2, 3) == (attempts[59], attempts[60], attempts[120])
