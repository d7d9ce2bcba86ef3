"""The simulated API server: versions, binds and their outcomes, starting, marking, labels, and meters."""

from random import Random

import pytest
from msgspec.structs import replace

from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    LabelDone,
    LabelFailed,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    PreemptDone,
    SamplesRead,
)
from trimtab.core.model.instructions import Bind, EmitEvent, GetPod, LabelNode, Nominate, Preempt, SetUnschedulable
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.taints import PREFER_NO_SCHEDULE, Taint
from trimtab.sim.clock import VirtualClock
from trimtab.sim.demo.scene import node
from trimtab.sim.workloads import MIB, Workload, constant, ramp
from trimtab.sim.world import SYSTEM_USAGE, World

HALF = Workload("web", 1000, 1024 * MIB, constant(0.5), constant(0.25))


class RecordedWorld:
    """A world, and all that it has reported."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.events: list[Event] = []
        self.world = World(self.clock, Random(1), self.events.append)

    def run(self, seconds: float) -> list[Event]:
        """Go on for so long, and hand over what was reported meanwhile."""
        self.events.clear()
        limit = self.clock.now + seconds
        while self.clock.step(limit):
            pass
        return list(self.events)

    def pod(self) -> Pod:
        return next(iter(self.world.pods.values()))

    def bind(self, uid: str = "", to: str = "n1") -> None:
        self.world.perform(Bind(uid or self.pod().uid, "demo", "web", to))


@pytest.fixture
def watched() -> RecordedWorld:
    watched = RecordedWorld()
    watched.world.put_node(node("n1", 8, 16))
    watched.world.create_pod(HALF, "trimtab")
    return watched


def test_objects_are_reported_with_rising_versions(watched: RecordedWorld) -> None:
    """Each change has the next resourceVersion, and is reported in that order."""
    watched.world.put_node(replace(watched.world.nodes["n1"], unschedulable=True))
    events = watched.run(1.0)
    assert [NodeUpserted, PodUpserted, NodeUpserted] == [type(event) for event in events]
    versions = [event.node.version if isinstance(event, NodeUpserted) else event.pod.version for event in events]  # type: ignore[union-attr]
    assert [1, 2, 3] == versions


def test_a_bound_pod_is_answered_seen_and_then_runs(watched: RecordedWorld) -> None:
    """A bind is answered, the watch shows the pod bound, and later Running."""
    watched.run(1.0)
    watched.bind()
    assert not watched.events[2:], "nothing happens before the delay"
    events = watched.run(10.0)
    answer, bound, running = events
    assert isinstance(answer, BindDone) and isinstance(bound, PodUpserted) and isinstance(running, PodUpserted)
    assert ("n1", "n1", "Pending") == (answer.node, bound.pod.node, bound.pod.phase)
    assert ("Running", True) == (running.pod.phase, running.pod.ready)
    assert answer.at < bound.at < running.at


def test_a_second_bind_is_a_conflict_and_moves_nothing(watched: RecordedWorld) -> None:
    """A pod is bound once; the second bind names the node that the pod is on."""
    watched.run(1.0)
    watched.bind()
    watched.run(10.0)
    watched.bind(to="n2")
    (answer,) = watched.run(1.0)
    assert isinstance(answer, BindFailed)
    assert (BindFailure.CONFLICT, "pod web is already assigned to node n1") == (answer.reason, answer.message)
    assert "n1" == watched.pod().node


def test_a_bind_of_a_pod_that_is_not_there_says_so(watched: RecordedWorld) -> None:
    """An unknown UID is gone, not refused."""
    watched.run(1.0)
    watched.bind(uid="nobody")
    (answer,) = watched.run(1.0)
    assert isinstance(answer, BindFailed)
    assert BindFailure.GONE is answer.reason


def test_a_pod_read_back_is_the_pod_or_none(watched: RecordedWorld) -> None:
    """A reread gives the object as it is stored, and None for a UID that does not exist."""
    watched.run(1.0)
    watched.world.perform(GetPod(watched.pod().uid, "demo", "web"))
    watched.world.perform(GetPod("nobody", "demo", "web"))
    answers = {event.uid: event.pod for event in watched.run(1.0) if isinstance(event, GetPodDone)}
    assert {watched.pod().uid: watched.pod(), "nobody": None} == answers


def test_a_mark_is_kept_on_a_pending_pod_and_cleared_by_its_bind(watched: RecordedWorld) -> None:
    """The Unschedulable condition shows on the pod until it has a node."""
    watched.run(1.0)
    watched.world.perform(SetUnschedulable(watched.pod().uid, "demo", "web", "Unschedulable", "0/1"))
    (seen,) = watched.run(1.0)
    assert isinstance(seen, PodUpserted)
    assert ("Unschedulable", "0/1") == seen.pod.unschedulable_condition
    watched.bind()
    watched.run(1.0)
    assert watched.pod().unschedulable_condition is None


def test_words_for_people_are_collected(watched: RecordedWorld) -> None:
    """An Event is kept as it was told."""
    tell = EmitEvent("u", "demo", "web", "Scheduled", "note")
    watched.world.perform(tell)
    assert [tell] == watched.world.kube_events


def test_meters_count_running_pods_on_their_node_and_stop_at_what_it_has(watched: RecordedWorld) -> None:
    """A pod uses nothing before it runs; use is the sum over the node's pods, and never more than the node has."""
    watched.world.put_node(node("n2", 8, 16))
    watched.world.create_pod(Workload("hog", 9000, 1024 * MIB, constant(2.0), constant(0.5)), "trimtab")
    watched.run(1.0)
    web, hog = watched.world.pods
    watched.bind(web)
    watched.bind(hog, "n2")
    watched.world.scrape()
    assert SYSTEM_USAGE[CPU] == watched.world.last_samples["n1", CPU]
    watched.run(10.0)
    watched.world.scrape()
    assert SYSTEM_USAGE[CPU] + 500 == watched.world.last_samples["n1", CPU]
    assert SYSTEM_USAGE[MEMORY] + 256 * MIB == watched.world.last_samples["n1", MEMORY]
    assert 8000 == watched.world.last_samples["n2", CPU]
    event = watched.events[-1]
    assert isinstance(event, SamplesRead)
    assert watched.world.last_samples == {
        (name, each.resource): value
        for each in event.readings
        if each.subject is Subject.NODES
        for name, value in zip(each.names, each.values, strict=True)
    }
    assert {watched.clock.now} == {measured for each in event.readings for measured in each.measured}


def test_a_victim_leaves_after_its_grace(watched: RecordedWorld) -> None:
    """It is marked and seen leaving at once, and gone some time later; whoever asked is answered."""
    watched.bind()
    watched.run(10.0)
    uid = watched.pod().uid
    watched.world.perform(Preempt(uid, "demo", "web", "u-2", "trimtab"))
    events = watched.run(10.0)
    assert [PreemptDone, PodUpserted, PodDeleted] == [type(event) for event in events]
    assert isinstance(events[1], PodUpserted)
    assert events[1].pod.terminating
    assert events[1].pod.preempted
    assert {} == watched.world.pods


def test_a_victim_that_has_not_started_never_does(watched: RecordedWorld) -> None:
    """A pod that is preempted right after its bind is not seen running."""
    watched.bind()
    watched.run(0.2)
    watched.world.perform(Preempt(watched.pod().uid, "demo", "web", "u-2", "trimtab"))
    assert all(event.pod.phase == "Pending" for event in watched.run(20.0) if isinstance(event, PodUpserted))


def test_a_nomination_is_written_down(watched: RecordedWorld) -> None:
    """A pod that waits shows the node that it was promised."""
    watched.run(1.0)
    watched.world.perform(Nominate(watched.pod().uid, "demo", "web", "n1"))
    watched.run(1.0)
    assert "n1" == watched.pod().nominated_node


# --- meters, beyond what pods use


def samples(events: list[Event]) -> list[SamplesRead]:
    return [event for event in events if isinstance(event, SamplesRead)]


def names(event: SamplesRead) -> tuple[str, ...]:
    return next(each.names for each in event.readings if each.subject is Subject.PODS and each.resource == CPU)


def test_pods_are_measured_once_they_run(watched: RecordedWorld) -> None:
    """Pods go by namespace and name; one that has not started is not in the sample at all."""
    watched.run(1.0)
    watched.bind()
    watched.world.scrape()
    (early,) = samples(watched.events)
    watched.run(10.0)
    watched.world.scrape()
    assert [(), ("demo/web",)] == [names(event) for event in (early, *samples(watched.events))]


def test_what_an_outsider_takes_is_use_that_nobody_asked_for(watched: RecordedWorld) -> None:
    """It shows on the node, as a share of what it has, and on no pod."""
    watched.world.external_load["n1", MEMORY] = constant(0.5)
    watched.world.scrape()
    assert SYSTEM_USAGE[CPU] == watched.world.last_samples["n1", CPU]
    assert SYSTEM_USAGE[MEMORY] + 8 * 1024 * MIB == watched.world.last_samples["n1", MEMORY]


def test_with_a_lag_samples_come_late_and_say_when_they_were_measured() -> None:
    """What is read at 10 s and heard at 40 s is the state at 10 s, and says so."""
    clock, seen = VirtualClock(), list[Event]()
    world = World(clock, Random(1), seen.append, metrics_lag=30.0)
    world.put_node(node("n1", 8, 16))
    world.external_load["n1", CPU] = ramp(0.0, 1.0, begins=0.0, ends=100.0)
    clock.call_later(10.0, world.scrape)
    while clock.step(39.0):
        pass
    assert ([], {}) == (samples(seen), world.last_samples)
    while clock.step(41.0):
        pass
    (event,) = samples(seen)
    assert (40.0, {10.0}) == (event.at, {measured for each in event.readings for measured in each.measured})
    assert SYSTEM_USAGE[CPU] + 800 == pytest.approx(world.last_samples["n1", CPU])


def test_delays_do_not_change_what_people_do() -> None:
    """Pods have the same UIDs and requests in two worlds of one seed, however many delays were drawn in between."""
    uids = []
    for draws in (0, 5):
        world = World(VirtualClock(), Random(1), lambda event: None)
        for _ in range(draws):
            world.rng.random()
        world.create_pod(HALF, "trimtab")
        uids.append([*world.pods])
    assert uids[0] == uids[1]


# --- labels


def label(watched: RecordedWorld, instruction: LabelNode) -> Event:
    watched.world.perform(instruction)
    return next(event for event in watched.run(1.0) if isinstance(event, LabelDone | LabelFailed))


def test_labels_and_soft_taints_are_put_and_taken(watched: RecordedWorld) -> None:
    """Others' labels and taints stay; what was written is reported by the watch, and kept for who wants to tell."""
    theirs, ours = Taint("theirs", "", PREFER_NO_SCHEDULE), Taint("pressure.trimtab.dev/cpu", "", PREFER_NO_SCHEDULE)
    watched.world.put_node(replace(watched.world.nodes["n1"], taints=(theirs,)))
    put = LabelNode("n1", "n1", watched.world.nodes["n1"].version, (("pressure.trimtab.dev/cpu", "high"),), (ours,))
    assert isinstance(label(watched, put), LabelDone)
    pressed = watched.world.nodes["n1"]
    assert {"kubernetes.io/hostname": "n1", "pressure.trimtab.dev/cpu": "high"} == pressed.labels
    assert (theirs, ours) == pressed.taints
    assert any(isinstance(event, NodeUpserted) and event.node == pressed for event in watched.events)
    take = LabelNode("n1", "n1", pressed.version, ((ours.key, None),), remove_taints=((1, ours.key),))
    assert isinstance(label(watched, take), LabelDone)
    assert ({"kubernetes.io/hostname": "n1"}, (theirs,)) == (
        watched.world.nodes["n1"].labels,
        watched.world.nodes["n1"].taints,
    )
    assert [put, take] == watched.world.label_patches


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        (LabelNode("n9", "n9", 1, (("pressure.trimtab.dev/cpu", "high"),)), "node not found"),
        (LabelNode("n1", "another", 1, (("pressure.trimtab.dev/cpu", "high"),)), "node not found"),
        (LabelNode("n1", "n1", 99, add_taints=(Taint("pressure.trimtab.dev/cpu", "", PREFER_NO_SCHEDULE),)), "changed"),
    ],
)
def test_a_label_for_another_node_or_another_state_of_it_fails(
    watched: RecordedWorld, instruction: LabelNode, problem: str
) -> None:
    """A node of another UID is not touched, and taints are written only on the version that was seen."""
    before = watched.world.nodes["n1"]
    answer = label(watched, instruction)
    assert isinstance(answer, LabelFailed)
    assert problem in answer.message
    assert (before, []) == (watched.world.nodes["n1"], watched.world.label_patches)


def test_what_is_only_observed_changes_nothing(watched: RecordedWorld) -> None:
    """A wish that only says what it would do is neither done nor answered."""
    watched.run(1.0)
    watched.world.perform(LabelNode("n1", "n1", 1, (("pressure.trimtab.dev/cpu", "high"),), observe_only=True))
    assert [] == watched.run(1.0)
