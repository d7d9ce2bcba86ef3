"""Decides whether a pod that cannot be placed is left pending in the right words, and whether a bad plugin harms others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.engine.scene import Scene, node, of_kind, pod
from tests.core.engine.stages import filterer, permitter, reserver
from trimtab.core.model.affinity import Spread
from trimtab.core.model.event import PodGone, StageAnswered
from trimtab.core.model.instruction import Bind, MarkUnscheduled, Tell
from trimtab.core.model.pod import Pod, PodSpec
from trimtab.core.model.resources import CAP
from trimtab.core.model.taints import NO_SCHEDULE, Taint
from trimtab.core.model.verdict import Placement, Unplaceable
from trimtab.core.placing.contract import Staged, Wait
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queue import Part

WEB = pod("web", cpu=1000)
NO_HELP = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


class Counts(MetricsRecorder):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.results: list[str] = []

    def plugin_failed(self, plugin: str) -> None:
        self.faults.append(plugin)

    def attempted(self, profile: str, result: str, laps: Any) -> None:
        self.results.append(result)


def notes(wishes: list[Any]) -> list[str]:
    return [tell.note for tell in of_kind(Tell, wishes)]


# --- words


def test_the_complaint_is_worded_as_kube_scheduler_words_it() -> None:
    """Counts by reason, each node charged to the first plugin that refused it, sorted as text."""
    scene = Scene()
    scene.sees(*(node(name, cpu=500) for name in "ab"))
    scene.sees(*(node(name, taints=(Taint("key", "", NO_SCHEDULE),)) for name in "cde"))
    scene.sees(WEB)
    wishes = scene.turn()
    words = (
        "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). "
        "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    )
    assert [
        Tell("uid-web", "default", "web", "FailedScheduling", words, warning=True, scheduler="trimtab"),
        MarkUnscheduled("uid-web", "default", "web", "Unschedulable", words),
    ] == wishes


def test_a_cluster_without_nodes_is_said_to_have_none() -> None:
    """The pod waits for a node to be added, and for nothing else."""
    scene = Scene()
    scene.sees(WEB)
    assert ["0/0 nodes are available."] == notes(scene.turn())
    scene.at = 5.0
    scene.sees(node("a"))
    assert {"web": "a"} == scene.binds()


def test_an_absurd_wish_is_unschedulable_and_wraps_nowhere() -> None:
    """As much as can be counted fits no node, also when two of them are asked for."""
    scene = Scene()
    scene.sees(node("a"), pod("huge", cpu=CAP), pod("vast", cpu=CAP, memory=CAP))
    words = f"0/1 nodes are available: 1 Insufficient cpu. {NO_HELP}"
    assert ([words], {}) == (notes(scene.turn(1)), scene.binds())


def test_the_condition_is_written_only_when_it_changes() -> None:
    """An event each time, a patch once: the same words again are no news."""
    scene = Scene()
    scene.sees(node("a", cpu=100), WEB)
    kinds = [[type(wish) for wish in scene.turn()]]
    scene.later(60.0)
    kinds.append([type(wish) for wish in scene.turn()])
    scene.sees(node("b", cpu=100))
    scene.later(60.0)
    kinds.append([type(wish) for wish in scene.turn()])
    assert [[Tell, MarkUnscheduled], [Tell], [Tell, MarkUnscheduled]] == kinds


def test_a_condition_that_the_pod_already_carries_is_not_written_again() -> None:
    """After a restart the pod itself tells what was said before."""
    scene = Scene()
    words = f"0/1 nodes are available: 1 Insufficient cpu. {NO_HELP}"
    scene.sees(node("a", cpu=100), pod("web", cpu=1000, unscheduled=("Unschedulable", words)))
    assert [Tell] == [type(wish) for wish in scene.turn()]


def test_a_condition_that_somebody_took_away_is_written_again() -> None:
    """What the watch shows counts for more than what we once asked for."""
    scene = Scene()
    scene.sees(node("a", cpu=100), WEB)
    scene.turn()
    scene.sees(WEB)
    scene.later(60.0)
    assert [Tell, MarkUnscheduled] == [type(wish) for wish in scene.turn()]


def test_our_own_patch_wakes_nobody() -> None:
    """Neither the pod that was patched nor the other parked ones."""
    other = pod("other", cpu=9000)
    scene = Scene()
    scene.sees(node("a", cpu=100), WEB, other)
    marks = of_kind(MarkUnscheduled, scene.turn())
    scene.at = 5.0
    scene.sees(pod("web", cpu=1000, unscheduled=(marks[0].reason, marks[0].message)))
    assert (Part.PARKED, Part.PARKED) == (scene.part(WEB), scene.part(other))


# --- what wakes a parked pod


@pytest.mark.parametrize(
    ("event", "part"),
    [
        ("a pod leaves", Part.READY),
        ("a node grows", Part.READY),
        ("a node is added", Part.READY),
        ("the pod is edited", Part.READY),
        ("another pod is edited", Part.PARKED),
        ("a label changes", Part.PARKED),
        ("a pod comes", Part.PARKED),
        ("nothing", Part.PARKED),
    ],
)
def test_a_pod_that_lacks_room_is_woken_by_what_may_give_room(event: str, part: Part) -> None:
    """Other changes leave it parked."""
    filler, other = pod("filler", cpu=3500, scheduler="else"), pod("other", cpu=9000)
    scene = Scene()
    scene.sees(node("a"))
    scene.bound(filler, "a")
    scene.sees(WEB, other)
    scene.turn()
    scene.at = 5.0
    match event:
        case "a pod leaves":
            scene.tells(PodGone(filler.uid, 5.0))
        case "a node grows":
            scene.sees(node("a", cpu=8000))
        case "a node is added":
            scene.sees(node("b"))
        case "the pod is edited":
            scene.sees(pod("web", cpu=1000, labels={"new": "label"}))
        case "another pod is edited":
            scene.sees(pod("other", cpu=9000, labels={"new": "label"}))
        case "a label changes":
            scene.sees(node("a", labels={"new": "label"}))
        case "a pod comes":
            scene.bound(pod("more", cpu=100, scheduler="else"), "a")
    assert part is scene.part(WEB)


def test_a_pod_that_respects_a_nomination_is_woken_when_that_is_given_up() -> None:
    """The promised room is free again although no pod has left a node."""
    promised = pod("promised", cpu=3500, nominated="a", priority=9, scheduler="else")
    scene = Scene()
    scene.sees(node("a"), promised, WEB)
    assert {} == scene.binds()
    scene.at = 5.0
    scene.tells(PodGone(promised.uid, 5.0))
    assert {"web": "a"} == scene.binds()


# --- what is not modelled


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (PodSpec(claims=("gpu",)), "resource claims (plugin DynamicResources)"),
        (PodSpec(group="gang"), "a scheduling group of its spec (plugin GangScheduling)"),
    ],
)
def test_a_hard_requirement_that_is_not_modelled_is_named_and_never_guessed(spec: PodSpec, words: str) -> None:
    """The pod stays pending though a node has room."""
    scene = Scene()
    scene.sees(node("a"), pod("web", cpu=1000, spec=spec))
    wishes = scene.turn()
    assert [f"0/1 nodes are available: Trimtab does not support {words} yet."] == notes(wishes)
    assert (Part.PARKED, []) == (scene.part(WEB), of_kind(Bind, wishes))


def test_a_wish_that_the_profile_leaves_out_is_passed_over() -> None:
    """Where the operator has disabled the plugin, the pod is placed without it, as kube-scheduler does."""
    spec = PodSpec(spread=(Spread("zone", 1, True),))
    scene = Scene(without=("PodTopologySpread",))
    scene.sees(node("a"), pod("web", cpu=1000, spec=spec))
    assert {"web": "a"} == scene.binds()


def test_a_topology_key_that_no_node_has_is_named() -> None:
    """The message says which field asks for it."""
    scene = Scene()
    scene.sees(node("a"), pod("web", cpu=1000, spec=PodSpec(spread=(Spread("zoen", 1, True),))))
    assert notes(scene.turn())[0].endswith(
        "(spec.topologySpreadConstraints[0].topologyKey: no node has the label 'zoen')"
    )


@pytest.mark.parametrize(
    "broken", [{"spec_fault": "spec.tolerations: no list"}, {"spec": PodSpec(fault="spec.tolerations: no list")}]
)
def test_a_pod_whose_spec_cannot_be_read_is_left_pending_with_the_field_named(broken: dict[str, Any]) -> None:
    """What is not understood, or makes no sense, is not guessed; an edit that mends it is tried."""
    scene = Scene()
    scene.sees(node("a"), pod("web", cpu=1000, **broken))
    assert ["0/1 nodes are available: the pod spec is invalid: spec.tolerations: no list."] == notes(scene.turn())
    scene.at = 5.0
    scene.sees(WEB)
    assert {"web": "a"} == scene.binds()


# --- plugins that raise


def bad(pod: Pod) -> int:
    if pod.name == "bad":
        raise ZeroDivisionError("by design")
    return 0


def test_a_plugin_that_raises_costs_its_pod_one_attempt_and_others_nothing() -> None:
    """The pod is put back with the fault told, the next in the queue is placed in the same turn."""
    counts = Counts()
    scene = Scene(filterer("Shaky", bad), tally=counts)
    scene.sees(node("a"), pod("bad", priority=9), WEB)
    wishes = scene.turn()
    assert ["a plugin of profile trimtab failed: ZeroDivisionError: by design"] == notes(wishes)
    assert ["SchedulerError"] == [mark.reason for mark in of_kind(MarkUnscheduled, wishes)]
    assert (["web"], ["error", "scheduled"]) == ([bind.name for bind in of_kind(Bind, wishes)], counts.results)
    assert (Part.BACKING_OFF, 1) == (scene.part(pod("bad")), len(counts.faults))


@pytest.mark.parametrize("stage", ["reserve", "permit", "permit asked again", "unreserve"])
def test_a_stage_that_raises_gives_the_room_back(stage: str) -> None:
    """At its first question, when asked again, and even while undoing."""
    counts, asked = Counts(), []

    def permit(pod: Pod, node: str) -> Staged:
        asked.append(pod.name)
        if stage == "permit" or (stage != "reserve" and len(asked) > 1):
            raise KeyError("oops")
        return Wait(30.0)

    first, second = reserver("First"), reserver("Second", lambda pod: 1 / 0 if stage == "reserve" else None)
    if stage == "unreserve":
        type(second).unreserve = lambda self, memory, pod, node: 1 / 0
    scene = Scene(first, second, permitter("Shaky", permit), tally=counts)
    scene.sees(node("a"), WEB)
    scene.turn()
    scene.tells(StageAnswered(WEB.uid, 1.0))
    assert (0, Part.BACKING_OFF, 0) == (
        scene.requested("a"),
        scene.part(WEB),
        len(scene.engine.controller(Scheduling).bindings),
    )
    assert (("web", "-web"), 2 if stage == "unreserve" else 1) == (
        scene.engine.cluster.memory["First"],
        len(counts.faults),
    )


def test_a_gate_that_raises_holds_its_pod_back_and_no_other() -> None:
    """A pod whose gate cannot be asked is not guessed to be free."""

    class Gate:
        name, woken_by = "Shaky", 0

        def gate(self, pod: Pod) -> str | None:
            return "" if pod.name == "web" else pod.labels["absent"]

    counts = Counts()
    scene = Scene(Gate(), tally=counts)
    scene.sees(node("a"), pod("bad"), WEB)
    assert ({"web": "a"}, Part.GATED, 1) == (scene.binds(), scene.part(pod("bad")), len(counts.faults))


# --- what is remembered


def test_each_decision_is_remembered_with_its_reasons() -> None:
    """The ring tells what was decided for a pod, in order."""
    scene = Scene()
    scene.sees(node("a", cpu=100), WEB)
    scene.turn()
    scene.at = 5.0
    scene.sees(node("b"))
    scene.turn()
    decisions = scene.engine.controller(Scheduling).decisions.of(WEB.uid)
    assert [(1, Unplaceable), (2, Placement)] == [(each.attempt, type(each.verdict)) for each in decisions]
    assert ("b", 1, 2) == (decisions[1].verdict.node, decisions[1].verdict.feasible, decisions[1].verdict.nodes)
