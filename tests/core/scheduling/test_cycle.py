"""Decides whether a pod that cannot be placed is left pending in the right words, and whether a bad plugin harms others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.engine_harness import EngineHarness, node, of_kind, pod
from tests.core.stub_plugins import filterer, permitter, reserver
from trimtab.core.framework.interface import StageResult, Wait
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.events import PodDeleted, StageAnswered
from trimtab.core.model.instructions import Bind, EmitEvent, SetUnschedulable
from trimtab.core.model.pod import Pod, PodSpec
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.core.model.schedule_result import Placement, Unschedulable
from trimtab.core.model.taints import NO_SCHEDULE, Taint
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState

WEB = pod("web", cpu=1000)
NO_HELP = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


class Counts(MetricsRecorder):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.results: list[str] = []

    def plugin_failed(self, plugin: str) -> None:
        self.faults.append(plugin)

    def attempted(self, profile: str, result: str, timer: Any) -> None:
        self.results.append(result)


def notes(instructions: list[Any]) -> list[str]:
    return [tell.note for tell in of_kind(EmitEvent, instructions)]


# --- words


def test_the_complaint_is_worded_as_kube_scheduler_words_it() -> None:
    """Counts by reason, each node charged to the first plugin that refused it, sorted as text."""
    scene = EngineHarness()
    scene.upsert(*(node(name, cpu=500) for name in "ab"))
    scene.upsert(*(node(name, taints=(Taint("key", "", NO_SCHEDULE),)) for name in "cde"))
    scene.upsert(WEB)
    wishes = scene.turn()
    words = (
        "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). "
        "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    )
    assert [
        EmitEvent("uid-web", "default", "web", "FailedScheduling", words, warning=True, scheduler_name="trimtab"),
        SetUnschedulable("uid-web", "default", "web", "Unschedulable", words),
    ] == wishes


def test_a_cluster_without_nodes_is_said_to_have_none() -> None:
    """The pod waits for a node to be added, and for nothing else."""
    scene = EngineHarness()
    scene.upsert(WEB)
    assert ["0/0 nodes are available."] == notes(scene.turn())
    scene.at = 5.0
    scene.upsert(node("a"))
    assert {"web": "a"} == scene.binds()


def test_an_absurd_wish_is_unschedulable_and_wraps_nowhere() -> None:
    """As much as can be counted fits no node, also when two of them are asked for."""
    scene = EngineHarness()
    scene.upsert(node("a"), pod("huge", cpu=MAX_AMOUNT), pod("vast", cpu=MAX_AMOUNT, memory=MAX_AMOUNT))
    words = f"0/1 nodes are available: 1 Insufficient cpu. {NO_HELP}"
    assert ([words], {}) == (notes(scene.turn(1)), scene.binds())


def test_the_condition_is_written_only_when_it_changes() -> None:
    """An event each time, a patch once: the same words again are no news."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=100), WEB)
    kinds = [[type(wish) for wish in scene.turn()]]
    scene.advance(60.0)
    kinds.append([type(wish) for wish in scene.turn()])
    scene.upsert(node("b", cpu=100))
    scene.advance(60.0)
    kinds.append([type(wish) for wish in scene.turn()])
    assert [[EmitEvent, SetUnschedulable], [EmitEvent], [EmitEvent, SetUnschedulable]] == kinds


def test_a_condition_that_the_pod_already_carries_is_not_written_again() -> None:
    """After a restart the pod itself tells what was said before."""
    scene = EngineHarness()
    words = f"0/1 nodes are available: 1 Insufficient cpu. {NO_HELP}"
    scene.upsert(node("a", cpu=100), pod("web", cpu=1000, unschedulable_condition=("Unschedulable", words)))
    assert [EmitEvent] == [type(wish) for wish in scene.turn()]


def test_a_condition_that_somebody_took_away_is_written_again() -> None:
    """What the watch shows counts for more than what we once asked for."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=100), WEB)
    scene.turn()
    scene.upsert(WEB)
    scene.advance(60.0)
    assert [EmitEvent, SetUnschedulable] == [type(wish) for wish in scene.turn()]


def test_our_own_patch_wakes_nobody() -> None:
    """Neither the pod that was patched nor the other parked ones."""
    other = pod("other", cpu=9000)
    scene = EngineHarness()
    scene.upsert(node("a", cpu=100), WEB, other)
    marks = of_kind(SetUnschedulable, scene.turn())
    scene.at = 5.0
    scene.upsert(pod("web", cpu=1000, unschedulable_condition=(marks[0].reason, marks[0].message)))
    assert (QueueState.UNSCHEDULABLE, QueueState.UNSCHEDULABLE) == (scene.queue_state(WEB), scene.queue_state(other))


# --- what wakes a parked pod


@pytest.mark.parametrize(
    ("event", "part"),
    [
        ("a pod leaves", QueueState.ACTIVE),
        ("a node grows", QueueState.ACTIVE),
        ("a node is added", QueueState.ACTIVE),
        ("the pod is edited", QueueState.ACTIVE),
        ("another pod is edited", QueueState.UNSCHEDULABLE),
        ("a label changes", QueueState.UNSCHEDULABLE),
        ("a pod comes", QueueState.UNSCHEDULABLE),
        ("nothing", QueueState.UNSCHEDULABLE),
    ],
)
def test_a_pod_that_lacks_room_is_woken_by_what_may_give_room(event: str, part: QueueState) -> None:
    """Other changes leave it parked."""
    filler, other = pod("filler", cpu=3500, scheduler_name="else"), pod("other", cpu=9000)
    scene = EngineHarness()
    scene.upsert(node("a"))
    scene.bound(filler, "a")
    scene.upsert(WEB, other)
    scene.turn()
    scene.at = 5.0
    match event:
        case "a pod leaves":
            scene.handle(PodDeleted(filler.uid, 5.0))
        case "a node grows":
            scene.upsert(node("a", cpu=8000))
        case "a node is added":
            scene.upsert(node("b"))
        case "the pod is edited":
            scene.upsert(pod("web", cpu=1000, labels={"new": "label"}))
        case "another pod is edited":
            scene.upsert(pod("other", cpu=9000, labels={"new": "label"}))
        case "a label changes":
            scene.upsert(node("a", labels={"new": "label"}))
        case "a pod comes":
            scene.bound(pod("more", cpu=100, scheduler_name="else"), "a")
    assert part is scene.queue_state(WEB)


def test_a_pod_that_respects_a_nomination_is_woken_when_that_is_given_up() -> None:
    """The promised room is free again although no pod has left a node."""
    promised = pod("promised", cpu=3500, nominated_node="a", priority=9, scheduler_name="else")
    scene = EngineHarness()
    scene.upsert(node("a"), promised, WEB)
    assert {} == scene.binds()
    scene.at = 5.0
    scene.handle(PodDeleted(promised.uid, 5.0))
    assert {"web": "a"} == scene.binds()


# --- what is not modelled


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (PodSpec(resource_claims=("gpu",)), "resource claims (plugin DynamicResources)"),
        (PodSpec(scheduling_group="gang"), "a scheduling group (plugin GangScheduling)"),
    ],
)
def test_a_hard_requirement_that_is_not_modelled_is_named_and_never_guessed(spec: PodSpec, words: str) -> None:
    """The pod stays pending though a node has room."""
    scene = EngineHarness()
    scene.upsert(node("a"), pod("web", cpu=1000, spec=spec))
    wishes = scene.turn()
    assert [f"0/1 nodes are available: Trimtab does not support {words} yet."] == notes(wishes)
    assert (QueueState.UNSCHEDULABLE, []) == (scene.queue_state(WEB), of_kind(Bind, wishes))


def test_a_wish_that_the_profile_leaves_out_is_passed_over() -> None:
    """Where the operator has disabled the plugin, the pod is placed without it, as kube-scheduler does."""
    spec = PodSpec(topology_spread=(TopologySpreadConstraint("zone", 1, True),))
    scene = EngineHarness(without=("PodTopologySpread",))
    scene.upsert(node("a"), pod("web", cpu=1000, spec=spec))
    assert {"web": "a"} == scene.binds()


def test_a_topology_key_that_no_node_has_is_named() -> None:
    """The message says which field asks for it."""
    scene = EngineHarness()
    scene.upsert(
        node("a"), pod("web", cpu=1000, spec=PodSpec(topology_spread=(TopologySpreadConstraint("zoen", 1, True),)))
    )
    assert notes(scene.turn())[0].endswith(
        "(spec.topologySpreadConstraints[0].topologyKey: no node has the label 'zoen')"
    )


@pytest.mark.parametrize(
    "broken", [{"spec_error": "spec.tolerations: no list"}, {"spec": PodSpec(error="spec.tolerations: no list")}]
)
def test_a_pod_whose_spec_cannot_be_read_is_left_pending_with_the_field_named(broken: dict[str, Any]) -> None:
    """What is not understood, or makes no sense, is not guessed; an edit that mends it is tried."""
    scene = EngineHarness()
    scene.upsert(node("a"), pod("web", cpu=1000, **broken))
    assert ["0/1 nodes are available: the pod spec is invalid: spec.tolerations: no list."] == notes(scene.turn())
    scene.at = 5.0
    scene.upsert(WEB)
    assert {"web": "a"} == scene.binds()


# --- plugins that raise


def bad(pod: Pod) -> int:
    if pod.name == "bad":
        raise ZeroDivisionError("by design")
    return 0


def test_a_plugin_that_raises_costs_its_pod_one_attempt_and_others_nothing() -> None:
    """The pod is put back with the fault told, the next in the queue is placed in the same turn."""
    counts = Counts()
    scene = EngineHarness(filterer("Shaky", bad), recorder=counts)
    scene.upsert(node("a"), pod("bad", priority=9), WEB)
    wishes = scene.turn()
    assert ["a plugin of profile trimtab failed: ZeroDivisionError: by design"] == notes(wishes)
    assert ["SchedulerError"] == [mark.reason for mark in of_kind(SetUnschedulable, wishes)]
    assert (["web"], ["error", "scheduled"]) == ([bind.name for bind in of_kind(Bind, wishes)], counts.results)
    assert (QueueState.BACKOFF, 1) == (scene.queue_state(pod("bad")), len(counts.faults))


@pytest.mark.parametrize("stage", ["reserve", "permit", "permit asked again", "unreserve"])
def test_a_stage_that_raises_gives_the_room_back(stage: str) -> None:
    """At its first question, when asked again, and even while undoing."""
    counts, asked = Counts(), []

    def permit(pod: Pod, node: str) -> StageResult:
        asked.append(pod.name)
        if stage == "permit" or (stage != "reserve" and len(asked) > 1):
            raise KeyError("oops")
        return Wait(30.0)

    first, second = reserver("First"), reserver("Second", lambda pod: 1 / 0 if stage == "reserve" else None)
    if stage == "unreserve":
        type(second).unreserve = lambda self, memory, pod, node: 1 / 0
    scene = EngineHarness(first, second, permitter("Shaky", permit), recorder=counts)
    scene.upsert(node("a"), WEB)
    scene.turn()
    scene.handle(StageAnswered(WEB.uid, 1.0))
    assert (0, QueueState.BACKOFF, 0) == (
        scene.requested("a"),
        scene.queue_state(WEB),
        len(scene.engine.controller(Scheduling).bindings),
    )
    assert (("web", "-web"), 2 if stage == "unreserve" else 1) == (
        scene.engine.cluster.plugin_state["First"],
        len(counts.faults),
    )


def test_a_gate_that_raises_holds_its_pod_back_and_no_other() -> None:
    """A pod whose gate cannot be asked is not guessed to be free."""

    class Gate:
        name, requeue_on = "Shaky", 0

        def pre_enqueue(self, pod: Pod) -> str | None:
            return "" if pod.name == "web" else pod.labels["absent"]

    counts = Counts()
    scene = EngineHarness(Gate(), recorder=counts)
    scene.upsert(node("a"), pod("bad"), WEB)
    assert ({"web": "a"}, QueueState.GATED, 1) == (scene.binds(), scene.queue_state(pod("bad")), len(counts.faults))


# --- what is remembered


def test_each_decision_is_remembered_with_its_reasons() -> None:
    """The ring tells what was decided for a pod, in order."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=100), WEB)
    scene.turn()
    scene.at = 5.0
    scene.upsert(node("b"))
    scene.turn()
    decisions = [each for each in scene.engine.controller(Scheduling).decisions if each.uid == WEB.uid]
    assert [(1, Unschedulable), (2, Placement)] == [(each.attempt, type(each.verdict)) for each in decisions]
    assert ("b", 1, 2) == (decisions[1].verdict.node, decisions[1].verdict.feasible, decisions[1].verdict.nodes)


class Queues(MetricsRecorder):
    """Keeps which queue each pod went to, and why."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def queued(self, queue: str, event: str) -> None:
        self.seen.append((str(queue), event))


def test_a_pod_that_is_woken_during_its_back_off_counts_for_that_queue() -> None:
    """As in kube-scheduler: only one whose back-off is over goes to the active queue at once."""
    recorder = Queues()
    scene = EngineHarness(recorder=recorder, without=("DefaultPreemption",))
    scene.upsert(node("a", cpu=100), pod("web", cpu=1000))
    scene.turn()
    scene.upsert(node("b", cpu=2000))
    assert ("backoff", "NodeAdd") == recorder.seen[-1]


def test_an_attempt_evaluates_its_pod_once() -> None:
    """Preemption asks what the filters said; that is known, unless something has changed since."""
    scene = EngineHarness()
    scene.upsert(node("a", 100), web := pod("web", 500))
    scene.turn()
    evaluator = scene.engine.controller(Scheduling).evaluator
    cache, profile = evaluator.cache, scene.engine.state.settings.profiles[0]
    assert (0, 1) == (cache.hits, cache.misses)
    scene.upsert(node("b", 1000))
    status = evaluator.filter_status(scene.engine.cluster.pods[web.uid], profile)
    assert ([True, False], 1) == ((status.codes != 0).tolist(), cache.hits)
