"""Decides whether the engine decides only when it may, takes facts in at any time, and survives odd histories of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import EngineHarness, node, of_kind, pod, profile
from tests.core.stub_plugins import permitter
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.framework.interface import Wait
from trimtab.core.framework.profile import Profile, multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    LeaseAcquired,
    LeaseLost,
    NodeDeleted,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    SettingsRead,
    StageAnswered,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind, EmitEvent, GetPod
from trimtab.core.model.pod import HostPort, PodSpec
from trimtab.core.model.readings import Reading
from trimtab.core.model.resources import CPU
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState
from trimtab.core.settings import Settings

WEB = pod("web", cpu=1000)


# --- turns


@pytest.mark.parametrize(
    ("before", "binds"),
    [
        ((), 0),
        ((Synced("pods", 0.0), Synced("nodes", 0.0)), 0),
        ((LeaseAcquired(1, 0.0),), 0),
        ((Synced("pods", 0.0), LeaseAcquired(1, 0.0)), 0),
        ((LeaseAcquired(1, 0.0), Synced("nodes", 0.0), Synced("pods", 0.0)), 1),
        ((Synced("pods", 0.0), Synced("nodes", 0.0), LeaseAcquired(1, 0.0), LeaseLost(0.0)), 0),
        ((Synced("pods", 0.0), Synced("nodes", 0.0), LeaseAcquired(1, 0.0), LeaseLost(0.0), LeaseAcquired(2, 0.0)), 1),
    ],
)
def test_a_turn_decides_only_when_all_is_synced_and_we_lead(before: tuple[Event, ...], binds: int) -> None:
    """Before that, and as a standby, facts are taken in and nothing is decided."""
    scene = EngineHarness(ready=False)
    scene.handle(*before)
    scene.upsert(node("a"), WEB)
    assert bool(binds) == scene.engine.has_work()
    assert binds == len(scene.turn())
    assert [] == check_invariants(scene.engine.cluster)


@dataclass(frozen=True)
class Looks:
    """A plugin that looks at further kinds, and refuses nothing."""

    needs_kinds: tuple[str, ...] = ("things",)
    name: ClassVar[str] = "Looks"
    requeue_on: ClassVar[Change] = Change.NOTHING


def test_a_turn_waits_for_every_kind_that_some_plugin_looks_at() -> None:
    """Also for kinds that come with new settings, and for none twice."""
    scene = EngineHarness(Looks(), ready=False)
    assert {"pods", "nodes"} == scene.engine.state.unsynced
    scene.handle(Synced("pods", 0.0), Synced("nodes", 0.0), LeaseAcquired(1, 0.0))
    scene.handle(SettingsRead(Settings((profile(Looks(("things", "others"))),)), 1.0))
    scene.upsert(node("a"), WEB)
    assert {"others"} == scene.engine.state.unsynced
    assert {} == scene.binds()
    scene.handle(Synced("others", 2.0))
    assert {"web": "a"} == scene.binds()


def test_a_turn_decides_no_more_than_it_was_given() -> None:
    """One event never decides a backlog."""
    scene = EngineHarness()
    scene.upsert(node("a"), *(pod(f"web-{number}", cpu=1) for number in range(5)))
    assert [2, 2, 1, 0] == [len(scene.binds(2)) for _ in range(4)]


def test_no_more_binds_are_under_way_than_the_cap() -> None:
    """A bind counts until its outcome and its confirmation are in."""
    scene = EngineHarness(max_binds_in_flight=2)
    scene.upsert(node("a"), *(pod(f"web-{number}", cpu=1) for number in range(4)))
    assert (2, False, 0) == (len(scene.binds()), scene.engine.has_work(), len(scene.binds()))
    scene.bound(pod("web-0", cpu=1), "a")
    assert (True, 1) == (scene.engine.has_work(), len(scene.binds()))


def test_facts_alone_decide_nothing() -> None:
    """However much room there is, nothing but a turn leads to a bind."""
    scene = EngineHarness()
    wishes = scene.upsert(node("a"), WEB, node("b"), pod("other"))
    assert [] == wishes + scene.advance(100.0)


def test_a_pod_decided_in_a_turn_takes_its_room_from_the_next_one() -> None:
    """The second pod sees the first, though no bind has been answered."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=1500), node("b", cpu=1500), WEB, pod("other", cpu=1000), pod("third", cpu=1000))
    assert {"other": "a", "third": "b"} == scene.binds()
    assert QueueState.UNSCHEDULABLE is scene.queue_state(WEB)


def test_only_pods_of_our_own_scheduler_name_are_decided() -> None:
    """Pods of others count against the room once they have a node, and are otherwise none of our business."""
    scene = EngineHarness()
    scene.upsert(node("a"), pod("foreign", cpu=1000, scheduler_name="default-scheduler"))
    assert ({}, None) == (scene.binds(), scene.queue_state(pod("foreign")))


@pytest.mark.parametrize(
    "fields", [{"terminating": True}, {"phase": "Failed"}, {"scheduling_gates": ("wait",)}, {"node": "a"}]
)
def test_a_pod_that_must_not_be_bound_is_not_decided(fields: dict[str, Any]) -> None:
    """Nor when it turned so while it was waiting."""
    scene = EngineHarness()
    scene.upsert(node("a"), pod("first", **fields), WEB)
    scene.upsert(replace(WEB, **fields))
    assert {} == scene.binds()


def test_a_gated_pod_is_decided_when_its_gates_are_gone() -> None:
    """And not a word is written about it before."""
    scene = EngineHarness()
    scene.upsert(node("a"), pod("web", scheduling_gates=("one", "two")))
    assert [] == scene.turn() + scene.upsert(pod("web", scheduling_gates=("two",))) + scene.turn()
    scene.upsert(pod("web"))
    assert {"web": "a"} == scene.binds()


# --- leading and following


def test_a_standby_keeps_state_and_load_warm() -> None:
    """All facts count, so the first turn as leader decides on what is true now."""
    scene = EngineHarness(ready=False)
    scene.upsert(node("a", cpu=1500), node("b", cpu=1500))
    scene.bound(pod("old", cpu=1000, scheduler_name="else"), "a")
    scene.upsert(WEB)
    measured = Reading("meter", CPU, ("a",), (900.0,), (0.0,))
    scene.handle(SamplesRead((measured,), 0.0), Synced("pods", 0.0), Synced("nodes", 0.0))
    assert [] == scene.turn()
    scene.handle(LeaseAcquired(7, 0.0))
    assert {"web": "b"} == scene.binds()
    assert 900.0 == scene.engine.cluster.view.used(CPU)[0]


def test_a_former_leader_sends_nothing_for_pods_still_in_their_stages() -> None:
    """Their room is given back, for somebody else decides on them now; when we lead again they start anew."""
    scene = EngineHarness(permitter("Permit", lambda pod, node: Wait(30.0)))
    scene.upsert(node("a"), WEB)
    scene.turn()
    assert ([], 0) == (scene.handle(LeaseLost(1.0)), scene.requested("a"))
    assert [] == of_kind(Bind, scene.handle(StageAnswered(WEB.uid, 2.0)) + scene.advance(40.0) + scene.turn())
    scene.handle(LeaseAcquired(2, 41.0))
    assert ([], 1000) == (of_kind(Bind, scene.turn()), scene.requested("a"))


def test_a_former_leader_still_follows_up_what_it_has_sent() -> None:
    """The bind may have happened: its room stays taken until the server says otherwise."""
    scene = EngineHarness()
    scene.upsert(node("a"), WEB)
    scene.turn()
    scene.handle(LeaseLost(1.0))
    lost = scene.handle(BindFailed(WEB.uid, "a", BindFailure.UNKNOWN, "", 2.0))
    assert ([GetPod(WEB.uid, "default", "web")], 1000) == (lost, scene.requested("a"))
    scene.handle(GetPodDone(WEB.uid, scene.engine.cluster.pods[WEB.uid], 3.0))
    assert (1000, {}) == (scene.requested("a"), scene.binds())


# --- settings


def bare(name: str) -> Profile:
    """A profile without a single plugin."""
    return multipoint(name, [])


def test_new_settings_count_from_the_next_decision_on() -> None:
    """Parked pods get another chance, under new names and new plugins."""
    foreign = pod("foreign", scheduler_name="second")
    scene = EngineHarness()
    scene.upsert(node("a", unschedulable=True), WEB, foreign)
    scene.turn()
    assert (QueueState.UNSCHEDULABLE, None) == (scene.queue_state(WEB), scene.queue_state(foreign))
    scene.at = 5.0
    scene.handle(SettingsRead(Settings((bare("trimtab"), bare("second"))), 5.0))
    assert {"web": "a", "foreign": "a"} == scene.binds()


def test_pods_of_a_name_that_is_no_longer_ours_are_let_go() -> None:
    """Waiting, parked or gated alike."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=500), WEB)
    scene.turn()
    scene.upsert(pod("ready"), pod("gated", scheduling_gates=("wait",)))
    scene.handle(SettingsRead(Settings((bare("other"),)), 1.0))
    assert (0, {}) == (len(scene.engine.controller(Scheduling).queue), scene.binds())


def test_gates_are_looked_at_again_under_new_settings() -> None:
    """A pod that was held by a gate of the old profile is free when the new one has none, and the other way round."""
    gated = pod("gated", scheduling_gates=("wait",))
    scene = EngineHarness()
    scene.upsert(node("a", cpu=500), gated)
    scene.handle(SettingsRead(Settings((bare("trimtab"),)), 1.0))
    assert QueueState.ACTIVE is scene.queue_state(gated)
    scene.handle(SettingsRead(Settings((profile(),)), 2.0))
    assert (QueueState.GATED, {}) == (scene.queue_state(gated), scene.binds())


def test_patience_and_cap_are_settings_too() -> None:
    """They are in force at once."""
    scene = EngineHarness()
    scene.upsert(node("a"), WEB, pod("other"))
    scene.handle(SettingsRead(Settings((profile(),), max_binds_in_flight=1, bind_timeout=3.0), 0.0))
    assert (1, [GetPod]) == (len(scene.binds()), [type(wish) for wish in scene.advance(3.0)])


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
    scene = EngineHarness(recorder=orphans)
    scene.upsert(node("a"), WEB)
    scene.turn()
    scene.handle(NodeDeleted("a", 1.0), BindDone(WEB.uid, "a", 1.0))
    told = of_kind(EmitEvent, scene.bound(WEB, "a"))
    assert (["NodeGone"], 1) == ([tell.reason for tell in told], orphans.count)
    assert [] == check_invariants(scene.engine.cluster)


def test_pods_on_an_unknown_node_count_when_it_appears() -> None:
    """Pods may be listed before their node is."""
    scene = EngineHarness()
    scene.bound(pod("old", cpu=3500, scheduler_name="else"), "a")
    scene.upsert(node("a"), WEB)
    assert ({}, 3500) == (scene.binds(), scene.requested("a"))


@pytest.mark.parametrize("deletion_seen", [True, False])
def test_a_node_made_anew_and_smaller_under_its_old_name_keeps_the_pods_it_has(deletion_seen: bool) -> None:
    """Room is what the new node offers, less what still stands there; what was measured on the old one is forgotten."""
    scene = EngineHarness()
    scene.upsert(node("a"))
    scene.bound(pod("old", cpu=1500, scheduler_name="else"), "a")
    scene.handle(SamplesRead((Reading("meter", CPU, ("a",), (900.0,), (0.0,)),), 0.0))
    if deletion_seen:
        scene.handle(NodeDeleted("a", 0.0, "uid-a"))
    scene.upsert(node("a", cpu=2000, uid="uid-new"), WEB)
    assert ({}, 1500) == (scene.binds(), scene.requested("a"))
    assert [True] == [value != value for value in scene.engine.cluster.view.used(CPU)]
    assert [] == check_invariants(scene.engine.cluster)


def test_a_pod_in_flight_to_a_node_made_anew_keeps_its_room_there() -> None:
    """The bind goes by name, so the pod will stand on the new node."""
    scene = EngineHarness()
    scene.upsert(node("a"), WEB)
    scene.turn()
    scene.handle(NodeDeleted("a", 0.0))
    scene.upsert(node("a", uid="uid-new", cpu=1500), pod("other", cpu=1000))
    assert ({}, 1000) == (scene.binds(), scene.requested("a"))


def test_a_pod_that_ends_or_shrinks_gives_room_to_those_who_wait() -> None:
    """Ended pods keep their node's name and none of its room."""
    old = pod("old", cpu=3500, scheduler_name="else")
    scene = EngineHarness()
    scene.upsert(node("a"))
    scene.bound(old, "a")
    scene.upsert(WEB)
    scene.turn()
    scene.at = 5.0
    scene.bound(old, "a", phase="Succeeded")
    assert {"web": "a"} == scene.binds()


def test_a_host_port_is_taken_by_a_pod_in_flight() -> None:
    """Two pods that want the same port get two nodes, in one turn."""
    spec = PodSpec(ports=(HostPort("TCP", "0.0.0.0", 80),))
    scene = EngineHarness()
    scene.upsert(node("a"), node("b"), *(pod(name, spec=spec) for name in ("x", "y", "z")))
    assert {"x": "a", "y": "b"} == scene.binds()


# --- what is not news


@pytest.mark.parametrize(
    "stale",
    [
        PodUpserted(pod("web", cpu=4000, version=5), 9.0),
        PodUpserted(pod("web", cpu=4000, version=4, node="a"), 9.0),
        PodUpserted(pod("web", version=3, terminating=True), 9.0),
        PodDeleted("uid-web", 9.0, version=4),
        NodeUpserted(node("a", cpu=1, version=7), 9.0),
        NodeUpserted(node("a", cpu=1, version=6, uid="uid-older"), 9.0),
        NodeDeleted("a", 9.0, "uid-a", version=6),
        NodeDeleted("a", 9.0, "uid-older"),
        PodUpserted(pod("dead", cpu=1000, version=99), 9.0),
        PodUpserted(pod("dead", cpu=1000, version=99, node="a"), 9.0),
        PodDeleted("uid-dead", 9.0, version=99),
        NodeUpserted(node("z", version=99), 9.0),
        NodeDeleted("z", 9.0, "uid-z", version=99),
    ],
)
def test_what_is_not_newer_or_of_a_dead_uid_changes_nothing(stale: Event) -> None:
    """The pod is held at version 5 and the node at 7; pod `dead` and node `z` have been deleted."""
    scene = EngineHarness()
    scene.handle(NodeUpserted(node("a", version=7), 0.0), NodeUpserted(node("z", version=8), 0.0))
    scene.handle(PodUpserted(replace(WEB, version=5), 0.0), PodUpserted(pod("dead", version=6), 0.0))
    scene.handle(PodDeleted("uid-dead", 0.0, 9), NodeDeleted("z", 0.0, "uid-z", 10))
    assert [] == scene.handle(stale)
    assert (["a"], ["uid-web"], 0) == (
        [each.name for each in scene.engine.cluster.node_table.nodes],
        list(scene.engine.cluster.pods),
        scene.requested("a"),
    )
    assert {"web": "a"} == scene.binds()


def test_a_pod_of_an_old_name_and_a_new_uid_is_another_pod() -> None:
    """A StatefulSet's replacement is decided afresh, and its bind carries its own UID."""
    scene = EngineHarness()
    scene.upsert(node("a"), WEB)
    scene.turn()
    scene.handle(PodDeleted(WEB.uid, 1.0))
    scene.upsert(pod("web", cpu=1000, uid="uid-second"))
    assert ["uid-second"] == [bind.uid for bind in of_kind(Bind, scene.turn())]


def test_time_alone_brings_everybody_back() -> None:
    """Ticks end back-offs and the longest wait, without any other event: a pod is tried again within a minute."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=500), WEB)
    scene.turn()
    attempts = []
    for _ in range(130):
        scene.handle(Tick(scene.at), Turn(1, scene.at))
        attempts.append(len(scene.engine.controller(Scheduling).decisions))
        scene.at += 1.0
    assert (1, 2, 3) == (attempts[59], attempts[60], attempts[120])
