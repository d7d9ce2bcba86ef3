"""Decides whether room is given back only on the API server's word, and what is told, whatever became of a bind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.build import assumed_on
from tests.core.engine_harness import BIND, WEB, EngineHarness, node, of_kind, pod, with_pending_pod
from tests.core.stub_plugins import reserver
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    GetPodDone,
    GetPodFailed,
    PodDeleted,
    StageAnswered,
)
from trimtab.core.model.instructions import EmitEvent, GetPod, Instruction, SetUnschedulable
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState

REREAD = GetPod("uid-web", "default", "web")
SCHEDULED = EmitEvent(
    "uid-web",
    "default",
    "web",
    "Scheduled",
    "Successfully assigned default/web to a",
    action="Binding",
    scheduler_name="trimtab",
)


def sent(**settings: Any) -> EngineHarness:
    scene = with_pending_pod(**settings)
    assert [BIND] == scene.turn()
    return scene


def lost(scene: EngineHarness, fault: BindFailure = BindFailure.UNKNOWN, message: str = "") -> list[Instruction]:
    return scene.handle(BindFailed("uid-web", "a", fault, message, scene.at))


# --- what became of the bind


def test_a_bind_that_was_accepted_is_told_once_and_confirmed_by_the_watch() -> None:
    """The room stays assumed until the watch shows the pod, and is then held."""
    scene = sent()
    assert [SCHEDULED] == scene.handle(BindDone("uid-web", "a", 1.0))
    assert "a" == assumed_on(scene.engine.cluster, "uid-web")
    assert [] == scene.bound(WEB, "a")
    assert (None, 1000, 0) == (
        assumed_on(scene.engine.cluster, "uid-web"),
        scene.requested("a"),
        len(scene.engine.controller(Scheduling).bindings),
    )


def test_a_watch_that_is_faster_than_the_answer_ends_the_flight() -> None:
    """Told on the watch's word; the answer that comes afterwards says nothing new."""
    scene = sent()
    assert [SCHEDULED] == scene.bound(WEB, "a")
    assert [] == scene.handle(BindDone("uid-web", "a", 1.0))


@pytest.mark.parametrize("fault", [BindFailure.UNKNOWN, BindFailure.CONFLICT])
def test_an_unknown_outcome_keeps_the_room_and_asks(fault: BindFailure) -> None:
    """Neither silence nor a 409 says that the pod was not bound."""
    scene = sent()
    assert [REREAD] == lost(scene, fault)
    assert (1000, QueueState.POPPED) == (scene.requested("a"), scene.queue_state(WEB))


def test_a_pod_read_back_unbound_goes_back_to_the_queue() -> None:
    """The server's own word frees the room; the pod backs off, and those who want the room are woken."""
    big = pod("big", cpu=4000)
    scene = sent()
    scene.upsert(big)
    scene.turn()
    lost(scene)
    unbound = GetPodDone("uid-web", scene.engine.cluster.pods["uid-web"], 2.0)
    assert [] == scene.handle(unbound)
    assert 1000 == scene.requested("a"), "a request whose connection broke may still be on its way"
    assert [] == scene.advance(6.9), "so it gets five seconds"
    assert [REREAD] == scene.advance(1.1)
    assert [] == scene.handle(msgspec.structs.replace(unbound, at=9.0))
    assert (0, QueueState.BACKOFF, QueueState.ACTIVE) == (
        scene.requested("a"),
        scene.queue_state(WEB),
        scene.queue_state(big),
    )


def test_a_bind_that_is_not_answered_is_never_given_up() -> None:
    """However often the pod is read without a node: the request is still on its way."""
    scene = sent(bind_timeout=30.0)
    assert [REREAD] == scene.advance(30.0)
    for _ in range(3):
        assert [] == scene.handle(GetPodDone("uid-web", scene.engine.cluster.pods["uid-web"], scene.at))
        assert (1000, QueueState.POPPED) == (scene.requested("a"), scene.queue_state(WEB))
        assert [REREAD] == scene.advance(30.0)


def test_a_conflict_read_back_unbound_goes_back_at_once() -> None:
    """The server has answered our request, so nothing of it can arrive any more."""
    scene = sent()
    scene.handle(BindFailed("uid-web", "a", BindFailure.CONFLICT, "", 1.0))
    assert [] == scene.handle(GetPodDone("uid-web", scene.engine.cluster.pods["uid-web"], 2.0))
    assert (0, QueueState.BACKOFF) == (scene.requested("a"), scene.queue_state(WEB))


def test_a_pod_read_back_bound_has_landed() -> None:
    """Then our bind did happen after all."""
    scene = sent()
    lost(scene)
    scene.version += 1
    on_a = pod("web", cpu=1000, node="a", version=scene.version)
    assert [SCHEDULED] == scene.handle(GetPodDone("uid-web", on_a, 2.0))
    assert (1000, None, 0) == (
        scene.requested("a"),
        scene.queue_state(WEB),
        len(scene.engine.controller(Scheduling).bindings),
    )


def test_a_pod_read_back_on_another_node_counts_there() -> None:
    """Somebody else was faster: the room on our node is free, and nothing is told in our name."""
    scene = sent()
    scene.upsert(node("b"))
    lost(scene, BindFailure.CONFLICT)
    scene.version += 1
    assert [] == scene.handle(GetPodDone("uid-web", pod("web", cpu=1000, node="b", version=scene.version), 2.0))
    assert (0, 1000, None) == (scene.requested("a"), scene.requested("b"), scene.queue_state(WEB))


@pytest.mark.parametrize("word", ["bind", "reread", "watch"])
def test_a_pod_that_no_longer_exists_gives_everything_back(word: str) -> None:
    """Whoever says so: the bind's 404, the read-back, or the watch."""
    scene = with_pending_pod(reserver("Reserve"))
    scene.turn()
    if word == "bind":
        lost(scene, BindFailure.GONE)
    elif word == "reread":
        lost(scene)
        scene.handle(GetPodDone("uid-web", None, 1.0))
    else:
        scene.handle(PodDeleted("uid-web", 1.0))
    cluster = scene.engine.cluster
    assert (0, None, 0) == (
        scene.requested("a"),
        scene.queue_state(WEB),
        len(scene.engine.controller(Scheduling).bindings),
    )
    assert (("web", "-web"), []) == (cluster.plugin_state["Reserve"], check_invariants(cluster))


def test_a_bind_that_was_never_sent_is_tried_again_without_a_word() -> None:
    """Being throttled is nothing to bother people with."""
    scene = sent()
    assert [] == lost(scene, BindFailure.NOT_SENT)
    assert (0, QueueState.BACKOFF) == (scene.requested("a"), scene.queue_state(WEB))


def test_a_bind_that_was_refused_is_told_and_is_no_lack_of_nodes() -> None:
    """The cluster autoscaler adds nodes for reason Unschedulable, and no node would help here."""
    scene = sent()
    wishes = lost(scene, BindFailure.REFUSED, "forbidden by policy")
    assert ["binding rejected: forbidden by policy"] == [tell.note for tell in of_kind(EmitEvent, wishes)]
    assert ["SchedulerError"] == [mark.reason for mark in of_kind(SetUnschedulable, wishes)]
    assert (0, QueueState.BACKOFF) == (scene.requested("a"), scene.queue_state(WEB))


# --- nothing is heard


def test_a_bind_of_which_nothing_is_heard_is_asked_about_again_and_again() -> None:
    """Each time the patience is over; the room stays."""
    scene = sent(bind_timeout=30.0)
    assert ([], [REREAD]) == (scene.advance(29.9), scene.advance(0.1))
    assert [] == scene.handle(GetPodFailed("uid-web", 30.0))
    assert ([], [REREAD], 1000) == (scene.advance(29.9), scene.advance(0.1), scene.requested("a"))


def test_a_pod_read_unbound_while_our_request_is_under_way_is_not_bound_a_second_time() -> None:
    """The request may still arrive; only its own answer ends the flight."""
    scene = sent(bind_timeout=30.0)
    scene.advance(30.0)
    assert [] == scene.handle(GetPodDone("uid-web", scene.engine.cluster.pods["uid-web"], 31.0))
    assert (1000, QueueState.POPPED) == (scene.requested("a"), scene.queue_state(WEB))


def test_an_accepted_bind_is_not_doubted_because_of_an_older_read() -> None:
    """The pod was read before the server took our bind: freeing the room now would give it away twice."""
    scene = sent(bind_timeout=30.0)
    scene.advance(30.0)
    unbound = scene.engine.cluster.pods["uid-web"]
    assert [SCHEDULED] == scene.handle(BindDone("uid-web", "a", 31.0))
    assert [] == scene.handle(GetPodDone("uid-web", unbound, 32.0))
    assert (1000, 1) == (scene.requested("a"), len(scene.engine.controller(Scheduling).bindings))


def test_a_read_from_before_the_answer_does_not_free_the_room() -> None:
    """Read first, then the answer was lost: that read knows nothing of the bind, so another one is asked for."""
    scene = sent(bind_timeout=30.0)
    assert [REREAD] == scene.advance(30.0)
    unbound = scene.engine.cluster.pods["uid-web"]
    assert [] == lost(scene)
    assert [] == scene.handle(GetPodDone("uid-web", unbound, 32.0))
    assert 1000 == scene.requested("a")
    assert [REREAD] == scene.advance(10.0)
    scene.handle(GetPodDone("uid-web", unbound, 41.0))
    assert (0, QueueState.BACKOFF) == (scene.requested("a"), scene.queue_state(WEB))


def test_an_accepted_bind_whose_watch_stays_silent_is_read_back_and_told_no_second_time() -> None:
    """The landing was told when the server accepted it."""
    scene = sent(bind_timeout=30.0)
    scene.handle(BindDone("uid-web", "a", 1.0))
    assert [REREAD] == scene.advance(31.0)
    scene.version += 1
    on_a = pod("web", cpu=1000, node="a", version=scene.version)
    assert [] == scene.handle(GetPodDone("uid-web", on_a, 32.0))
    assert (0, 1000) == (len(scene.engine.controller(Scheduling).bindings), scene.requested("a"))


def test_a_read_that_is_under_way_is_not_asked_for_twice() -> None:
    """Patience alone does not send a second one after it: only one answer at a time can be told from the other."""
    scene = sent(bind_timeout=30.0)
    assert ([REREAD], []) == (scene.advance(30.0), scene.advance(30.0))
    scene.handle(GetPodFailed("uid-web", 60.0))
    assert [REREAD] == scene.advance(1.0)


def test_an_answer_that_comes_twice_is_heard_once() -> None:
    """Whether it was yes or no."""
    scene = sent()
    done = BindDone("uid-web", "a", 1.0)
    assert [SCHEDULED] == scene.handle(done, done)
    assert ([], 1000) == (lost(scene, BindFailure.REFUSED, "too late"), scene.requested("a"))


def test_outcomes_of_unknown_pods_change_nothing() -> None:
    """Answers may come long after the pod has gone."""
    scene = sent()
    scene.handle(PodDeleted("uid-web", 1.0))
    late = (
        BindDone("uid-web", "a", 2.0),
        BindFailed("uid-web", "a", BindFailure.UNKNOWN, "", 2.0),
        GetPodDone("uid-web", None, 2.0),
        GetPodDone("uid-web", pod("web", node="a", version=999), 2.0),
        GetPodFailed("uid-web", 2.0),
        StageAnswered("uid-web", 2.0),
    )
    assert ([], 0) == (scene.handle(*late), scene.requested("a"))
