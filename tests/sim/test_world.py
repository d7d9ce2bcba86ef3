"""The simulated cluster: versions, binds, starting pods, conditions, labels, metrics, and its clock."""

from functools import partial
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
from trimtab.sim.demo.scene import node
from trimtab.sim.workloads import MIB, Workload, constant, ramp
from trimtab.sim.world import SYSTEM_USAGE, VirtualClock, World

HALF = Workload("web", 1000, 1024 * MIB, constant(0.5), constant(0.25))


class RecordedWorld:
    """A world and its events."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.events: list[Event] = []
        self.world = World(self.clock, Random(1), self.events.append)

    def run(self, seconds: float) -> list[Event]:
        """Advance the clock and return the events of that time."""
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
def recorded() -> RecordedWorld:
    recorded = RecordedWorld()
    recorded.world.put_node(node("n1", 8, 16))
    recorded.world.create_pod(HALF, "trimtab")
    return recorded


def test_changes_are_emitted_with_increasing_versions(recorded: RecordedWorld) -> None:
    """Each change has the next resourceVersion, in that order."""
    recorded.world.put_node(replace(recorded.world.nodes["n1"], unschedulable=True))
    events = recorded.run(1.0)
    assert [NodeUpserted, PodUpserted, NodeUpserted] == [type(event) for event in events]
    versions = [event.node.version if isinstance(event, NodeUpserted) else event.pod.version for event in events]  # type: ignore[union-attr]
    assert [1, 2, 3] == versions


def test_a_bind_is_answered_then_watched_and_then_the_pod_runs(recorded: RecordedWorld) -> None:
    """The answer comes first, then the watch event, and later Running."""
    recorded.run(1.0)
    recorded.bind()
    assert not recorded.events[2:], "nothing happens before the delay"
    events = recorded.run(10.0)
    answer, bound, running = events
    assert isinstance(answer, BindDone) and isinstance(bound, PodUpserted) and isinstance(running, PodUpserted)
    assert ("n1", "n1", "Pending") == (answer.node, bound.pod.node, bound.pod.phase)
    assert ("Running", True) == (running.pod.phase, running.pod.ready)
    assert answer.at < bound.at < running.at


def test_a_second_bind_is_a_conflict_and_changes_nothing(recorded: RecordedWorld) -> None:
    """A pod is bound once; the error of the second bind names its node."""
    recorded.run(1.0)
    recorded.bind()
    recorded.run(10.0)
    recorded.bind(to="n2")
    (answer,) = recorded.run(1.0)
    assert isinstance(answer, BindFailed)
    assert (BindFailure.CONFLICT, "pod web is already assigned to node n1") == (answer.reason, answer.message)
    assert "n1" == recorded.pod().node


def test_a_bind_of_an_unknown_pod(recorded: RecordedWorld) -> None:
    """It fails as gone, not as a conflict."""
    recorded.run(1.0)
    recorded.bind(uid="nobody")
    (answer,) = recorded.run(1.0)
    assert isinstance(answer, BindFailed)
    assert BindFailure.GONE is answer.reason


def test_get_pod_returns_the_pod_or_none(recorded: RecordedWorld) -> None:
    """The stored object, and None for an unknown UID."""
    recorded.run(1.0)
    recorded.world.perform(GetPod(recorded.pod().uid, "demo", "web"))
    recorded.world.perform(GetPod("nobody", "demo", "web"))
    answers = {event.uid: event.pod for event in recorded.run(1.0) if isinstance(event, GetPodDone)}
    assert {recorded.pod().uid: recorded.pod(), "nobody": None} == answers


def test_the_unschedulable_condition_is_cleared_by_the_bind(recorded: RecordedWorld) -> None:
    """The pod has it until it has a node."""
    recorded.run(1.0)
    recorded.world.perform(SetUnschedulable(recorded.pod().uid, "demo", "web", "Unschedulable", "0/1"))
    (seen,) = recorded.run(1.0)
    assert isinstance(seen, PodUpserted)
    assert ("Unschedulable", "0/1") == seen.pod.unschedulable_condition
    recorded.bind()
    recorded.run(1.0)
    assert recorded.pod().unschedulable_condition is None


def test_kubernetes_events_are_collected(recorded: RecordedWorld) -> None:
    """Unchanged."""
    emitted = EmitEvent("u", "demo", "web", "Scheduled", "note")
    recorded.world.perform(emitted)
    assert [emitted] == recorded.world.kube_events


def test_node_usage_is_that_of_running_pods_up_to_its_capacity(recorded: RecordedWorld) -> None:
    """A pod uses nothing before it runs; a node uses the sum over its pods, but never more than its capacity."""
    recorded.world.put_node(node("n2", 8, 16))
    recorded.world.create_pod(Workload("hog", 9000, 1024 * MIB, constant(2.0), constant(0.5)), "trimtab")
    recorded.run(1.0)
    web, hog = recorded.world.pods
    recorded.bind(web)
    recorded.bind(hog, "n2")
    recorded.world.scrape()
    assert SYSTEM_USAGE[CPU] == recorded.world.last_samples["n1", CPU]
    recorded.run(10.0)
    recorded.world.scrape()
    assert SYSTEM_USAGE[CPU] + 500 == recorded.world.last_samples["n1", CPU]
    assert SYSTEM_USAGE[MEMORY] + 256 * MIB == recorded.world.last_samples["n1", MEMORY]
    assert 8000 == recorded.world.last_samples["n2", CPU]
    event = recorded.events[-1]
    assert isinstance(event, SamplesRead)
    assert recorded.world.last_samples == {
        (name, each.resource): value
        for each in event.readings
        if each.subject is Subject.NODES
        for name, value in zip(each.names, each.values, strict=True)
    }
    assert {recorded.clock.now} == {measured for each in event.readings for measured in each.measured}


def test_a_preempted_pod_terminates_after_its_grace_period(recorded: RecordedWorld) -> None:
    """It is terminating at once and deleted later; the request is answered."""
    recorded.bind()
    recorded.run(10.0)
    uid = recorded.pod().uid
    recorded.world.perform(Preempt(uid, "demo", "web", "u-2", "trimtab"))
    events = recorded.run(10.0)
    assert [PreemptDone, PodUpserted, PodDeleted] == [type(event) for event in events]
    assert isinstance(events[1], PodUpserted)
    assert events[1].pod.terminating
    assert events[1].pod.preempted
    assert {} == recorded.world.pods


def test_a_preempted_pod_does_not_start(recorded: RecordedWorld) -> None:
    """Preempted right after its bind, it never runs."""
    recorded.bind()
    recorded.run(0.2)
    recorded.world.perform(Preempt(recorded.pod().uid, "demo", "web", "u-2", "trimtab"))
    assert all(event.pod.phase == "Pending" for event in recorded.run(20.0) if isinstance(event, PodUpserted))


def test_a_nomination_is_stored(recorded: RecordedWorld) -> None:
    """A pending pod has its nominated node."""
    recorded.run(1.0)
    recorded.world.perform(Nominate(recorded.pod().uid, "demo", "web", "n1"))
    recorded.run(1.0)
    assert "n1" == recorded.pod().nominated_node


# --- metrics


def samples(events: list[Event]) -> list[SamplesRead]:
    return [event for event in events if isinstance(event, SamplesRead)]


def names(event: SamplesRead) -> tuple[str, ...]:
    return next(each.names for each in event.readings if each.subject is Subject.PODS and each.resource == CPU)


def test_pods_are_sampled_once_they_run(recorded: RecordedWorld) -> None:
    """By namespace and name; one that has not started is not in the sample."""
    recorded.run(1.0)
    recorded.bind()
    recorded.world.scrape()
    (early,) = samples(recorded.events)
    recorded.run(10.0)
    recorded.world.scrape()
    assert [(), ("demo/web",)] == [names(event) for event in (early, *samples(recorded.events))]


def test_external_load_shows_on_the_node_only(recorded: RecordedWorld) -> None:
    """As a fraction of its capacity, and on no pod."""
    recorded.world.external_load["n1", MEMORY] = constant(0.5)
    recorded.world.scrape()
    assert SYSTEM_USAGE[CPU] == recorded.world.last_samples["n1", CPU]
    assert SYSTEM_USAGE[MEMORY] + 8 * 1024 * MIB == recorded.world.last_samples["n1", MEMORY]


def test_with_a_lag_samples_arrive_late_with_their_own_timestamps() -> None:
    """A sample taken at 10 s and delivered at 40 s has the values and the timestamp of 10 s."""
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


def test_delays_do_not_change_what_users_do() -> None:
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


def label(recorded: RecordedWorld, patch: LabelNode) -> Event:
    recorded.world.perform(patch)
    return next(event for event in recorded.run(1.0) if isinstance(event, LabelDone | LabelFailed))


def test_labels_and_soft_taints_are_added_and_removed(recorded: RecordedWorld) -> None:
    """Foreign labels and taints stay; the watch shows the result, and the patches are recorded."""
    theirs, ours = Taint("theirs", "", PREFER_NO_SCHEDULE), Taint("pressure.trimtab.dev/cpu", "", PREFER_NO_SCHEDULE)
    recorded.world.put_node(replace(recorded.world.nodes["n1"], taints=(theirs,)))
    put = LabelNode("n1", "n1", recorded.world.nodes["n1"].version, (("pressure.trimtab.dev/cpu", "high"),), (ours,))
    assert isinstance(label(recorded, put), LabelDone)
    pressed = recorded.world.nodes["n1"]
    assert {"kubernetes.io/hostname": "n1", "pressure.trimtab.dev/cpu": "high"} == pressed.labels
    assert (theirs, ours) == pressed.taints
    assert any(isinstance(event, NodeUpserted) and event.node == pressed for event in recorded.events)
    take = LabelNode("n1", "n1", pressed.version, ((ours.key, None),), remove_taints=((1, ours.key),))
    assert isinstance(label(recorded, take), LabelDone)
    assert ({"kubernetes.io/hostname": "n1"}, (theirs,)) == (
        recorded.world.nodes["n1"].labels,
        recorded.world.nodes["n1"].taints,
    )
    assert [put, take] == recorded.world.label_patches


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        (LabelNode("n9", "n9", 1, (("pressure.trimtab.dev/cpu", "high"),)), "node not found"),
        (LabelNode("n1", "another", 1, (("pressure.trimtab.dev/cpu", "high"),)), "node not found"),
        (
            LabelNode("n1", "n1", 99, add_taints=(Taint("pressure.trimtab.dev/cpu", "", PREFER_NO_SCHEDULE),)),
            "modified",
        ),
    ],
)
def test_a_patch_for_another_uid_or_version_fails(recorded: RecordedWorld, patch: LabelNode, problem: str) -> None:
    """A node with another UID is not changed, and taints only at the given resourceVersion."""
    before = recorded.world.nodes["n1"]
    answer = label(recorded, patch)
    assert isinstance(answer, LabelFailed)
    assert problem in answer.message
    assert (before, []) == (recorded.world.nodes["n1"], recorded.world.label_patches)


def test_an_observe_only_patch_changes_nothing(recorded: RecordedWorld) -> None:
    """It is neither applied nor answered."""
    recorded.run(1.0)
    recorded.world.perform(LabelNode("n1", "n1", 1, (("pressure.trimtab.dev/cpu", "high"),), observe_only=True))
    assert [] == recorded.run(1.0)


# --- the virtual clock


def test_callbacks_run_by_time_then_in_the_order_scheduled() -> None:
    """In order of time; at the same time, in the order in which they were scheduled."""
    clock, done = VirtualClock(100.0), list[tuple[str, float]]()

    def note(name: str) -> None:
        done.append((name, clock.now))

    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        clock.call_later(seconds, partial(note, name))
    while clock.step(110.0):
        pass
    assert [("first", 101.0), ("second", 101.0), ("late", 102.0)] == done


def test_the_clock_stops_at_the_limit() -> None:
    """Callbacks after the limit do not run, and the clock advances to the limit."""
    clock, done = VirtualClock(), list[float]()
    clock.call_later(5.0, lambda: done.append(clock.now))
    assert not clock.step(4.0)
    assert (4.0, []) == (clock.now, done)
    assert clock.step(5.0)
    assert [5.0] == done


def test_the_clock_never_goes_back() -> None:
    """Not even for a limit in the past."""
    clock = VirtualClock(10.0)
    clock.step(3.0)
    assert 10.0 == clock.now


def test_call_every_does_not_drift() -> None:
    """Every 15 s means at 15, 30 and 45 s."""
    clock, done = VirtualClock(), list[float]()
    clock.call_every(15.0, lambda: done.append(clock.now))
    while clock.step(50.0):
        pass
    assert [15.0, 30.0, 45.0] == done
