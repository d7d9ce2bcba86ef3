"""Decides whether a plugin's memory follows the pods, survives a reload, and wakes those who wait for it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tests.core.engine_harness import EngineHarness, node, of_kind, pod, profile
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Reject, Rows, StageStatus
from trimtab.core.model.change import Change
from trimtab.core.model.events import BindFailed, BindFailure, PodDeleted, SettingsRead
from trimtab.core.model.instructions import EmitEvent
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling.queue.queued_pod import QueueState
from trimtab.core.settings import Settings

WEB = pod("web", cpu=1000)


@dataclass(frozen=True)
class Quota:
    """At most `most` pods at a time, wherever they are; its memory is the set of those it knows of."""

    name: ClassVar[str] = "Quota"
    requeue_on: ClassVar[Change] = Change.PLUGIN_STATE
    depends_on: ClassVar[Change] = Change.PLUGIN_STATE
    most: int = 1

    def signature(self, pod: Pod) -> Hashable:
        return ()

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        full = len(view.plugin_state(self.name) or ()) >= self.most
        return np.full(len(view.pod_count[rows]), int(full), dtype=np.int64)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("quota is used up",)

    def reserve(self, view: View, state: Any, pod: Pod, node: str) -> tuple[Any, StageStatus | Reject]:
        return (state or frozenset()) | {pod.name}, StageStatus.SUCCESS

    def unreserve(self, state: Any, pod: Pod, node: str) -> Any:
        return state - {pod.name}

    def observe_pod(self, state: Any, pod: Pod, added: bool) -> Any:
        if pod.name == "bad":
            raise ValueError("by design")
        return (state or frozenset()) | {pod.name} if added else (state or frozenset()) - {pod.name}


def known(scene: EngineHarness) -> set[str]:
    return set(scene.engine.cluster.plugin_state.get("Quota", ()))


def test_the_memory_follows_pods_onto_nodes_and_away() -> None:
    """Of any scheduler; a pod that ends or goes has left, an edit that leaves it in place says nothing."""
    scene = EngineHarness(Quota())
    scene.upsert(node("a"))
    for name in ("x", "y", "z"):
        scene.bound(pod(name, scheduler_name="else"), "a")
    memory = scene.engine.cluster.plugin_state["Quota"]
    scene.bound(pod("x", scheduler_name="else"), "a", ready=True)
    assert memory is scene.engine.cluster.plugin_state["Quota"]
    scene.bound(pod("y", scheduler_name="else"), "a", phase="Succeeded")
    scene.handle(PodDeleted("uid-z", 1.0))
    assert {"x"} == known(scene)


def test_a_reservation_counts_for_the_next_pod_although_answers_are_kept() -> None:
    """A change of the memory makes kept answers of plugins that read it void."""
    scene = EngineHarness(Quota())
    scene.upsert(node("a"), WEB, pod("second", cpu=1000))
    words = [
        "0/1 nodes are available: 1 quota is used up. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    ]
    assert words == [tell.note for tell in of_kind(EmitEvent, scene.turn())]


def test_a_reservation_given_back_wakes_those_who_wait_for_it() -> None:
    """As does a pod that leaves its place."""
    second = pod("second", cpu=1000)
    scene = EngineHarness(Quota())
    scene.upsert(node("a"), second, WEB)
    scene.turn()
    assert QueueState.UNSCHEDULABLE is scene.queue_state(WEB)
    scene.at = 5.0
    scene.handle(BindFailed(second.uid, "a", BindFailure.NOT_SENT, "", 5.0))
    assert {"web": "a"} == scene.binds(1)
    scene.bound(WEB, "a")
    scene.advance(10.0)
    scene.turn()
    assert QueueState.UNSCHEDULABLE is scene.queue_state(second)
    scene.at = 30.0
    scene.handle(PodDeleted(WEB.uid, 30.0))
    assert {"second": "a"} == scene.binds()


def test_a_plugin_that_is_new_in_the_settings_hears_of_all_that_hold_a_place() -> None:
    """One that was there before is not told twice."""
    scene = EngineHarness()
    scene.upsert(node("a"), WEB)
    scene.bound(pod("x", scheduler_name="else"), "a")
    scene.handle(SettingsRead(Settings((profile(Quota()),)), 1.0))
    assert ({"x"}, {}) == (known(scene), scene.binds())
    memory = scene.engine.cluster.plugin_state["Quota"]
    scene.handle(SettingsRead(Settings((profile(Quota(most=2)),)), 2.0))
    assert (memory is scene.engine.cluster.plugin_state["Quota"], {"web": "a"}) == (True, scene.binds())


def test_a_plugin_that_raises_while_it_watches_stops_nobody() -> None:
    """The pod counts all the same, and the next one is heard of."""
    scene = EngineHarness(Quota())
    scene.upsert(node("a"))
    scene.bound(pod("bad", cpu=300, scheduler_name="else"), "a")
    scene.bound(pod("x", cpu=200, scheduler_name="else"), "a")
    assert (500, {"x"}) == (scene.requested("a"), known(scene))


def test_a_fork_remembers_and_goes_its_own_way() -> None:
    """What it is told afterwards is not in the original's memory, nor the other way round."""
    scene = EngineHarness(Quota())
    scene.upsert(node("a"))
    scene.bound(pod("x", scheduler_name="else"), "a")
    twin = scene.engine.fork()
    scene.bound(pod("y", scheduler_name="else"), "a")
    assert ({"x"}, {"x", "y"}) == (set(twin.cluster.plugin_state["Quota"]), known(scene))
