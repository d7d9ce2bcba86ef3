"""The simulated API server: versions, binds and their outcomes, starting, marking, and meters."""

from random import Random

import pytest
from msgspec.structs import replace

from trimtab.core.model.event import (
    BindDone,
    BindFailed,
    Event,
    Fault,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptDone,
    RereadDone,
    SamplesRead,
)
from trimtab.core.model.instruction import Bind, MarkUnscheduled, Nominate, Preempt, Reread, Tell
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.clock import Clock
from trimtab.sim.scenes import node
from trimtab.sim.workloads import MIB, Workload, constant
from trimtab.sim.world import SYSTEM_USE, World

HALF = Workload("web", 1000, 1024 * MIB, constant(0.5), constant(0.25))


class Watched:
    """A world, and all that it has reported."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.seen: list[Event] = []
        self.world = World(self.clock, Random(1), self.seen.append)

    def run(self, seconds: float) -> list[Event]:
        """Go on for so long, and hand over what was reported meanwhile."""
        self.seen.clear()
        limit = self.clock.now + seconds
        while self.clock.step(limit):
            pass
        return list(self.seen)

    def pod(self) -> Pod:
        return next(iter(self.world.pods.values()))

    def bind(self, uid: str = "", to: str = "n1") -> None:
        self.world.perform(Bind(uid or self.pod().uid, "demo", "web", to))


@pytest.fixture
def watched() -> Watched:
    watched = Watched()
    watched.world.put_node(node("n1", 8, 16))
    watched.world.create(HALF, "trimtab")
    return watched


def test_objects_are_reported_with_rising_versions(watched: Watched) -> None:
    """Each change has the next resourceVersion, and is reported in that order."""
    watched.world.put_node(replace(watched.world.nodes["n1"], unschedulable=True))
    events = watched.run(1.0)
    assert [NodeSeen, PodSeen, NodeSeen] == [type(event) for event in events]
    versions = [event.node.version if isinstance(event, NodeSeen) else event.pod.version for event in events]  # type: ignore[union-attr]
    assert [1, 2, 3] == versions


def test_a_bound_pod_is_answered_seen_and_then_runs(watched: Watched) -> None:
    """A bind is answered, the watch shows the pod bound, and later Running."""
    watched.run(1.0)
    watched.bind()
    assert not watched.seen[2:], "nothing happens before the delay"
    events = watched.run(10.0)
    answer, bound, running = events
    assert isinstance(answer, BindDone) and isinstance(bound, PodSeen) and isinstance(running, PodSeen)
    assert ("n1", "n1", "Pending") == (answer.node, bound.pod.node, bound.pod.phase)
    assert ("Running", True) == (running.pod.phase, running.pod.ready)
    assert answer.at < bound.at < running.at


def test_a_second_bind_is_a_conflict_and_moves_nothing(watched: Watched) -> None:
    """A pod is bound once; the second bind names the node that the pod is on."""
    watched.run(1.0)
    watched.bind()
    watched.run(10.0)
    watched.bind(to="n2")
    (answer,) = watched.run(1.0)
    assert isinstance(answer, BindFailed)
    assert (Fault.CONFLICT, "pod web is already assigned to node n1") == (answer.fault, answer.message)
    assert "n1" == watched.pod().node


def test_a_bind_of_a_pod_that_is_not_there_says_so(watched: Watched) -> None:
    """An unknown UID is gone, not refused."""
    watched.run(1.0)
    watched.bind(uid="nobody")
    (answer,) = watched.run(1.0)
    assert isinstance(answer, BindFailed)
    assert Fault.GONE is answer.fault


def test_a_pod_read_back_is_the_pod_or_none(watched: Watched) -> None:
    """A reread gives the object as it is stored, and None for a UID that does not exist."""
    watched.run(1.0)
    watched.world.perform(Reread(watched.pod().uid, "demo", "web"))
    watched.world.perform(Reread("nobody", "demo", "web"))
    answers = {event.uid: event.pod for event in watched.run(1.0) if isinstance(event, RereadDone)}
    assert {watched.pod().uid: watched.pod(), "nobody": None} == answers


def test_a_mark_is_kept_on_a_pending_pod_and_cleared_by_its_bind(watched: Watched) -> None:
    """The Unschedulable condition shows on the pod until it has a node."""
    watched.run(1.0)
    watched.world.perform(MarkUnscheduled(watched.pod().uid, "demo", "web", "Unschedulable", "0/1"))
    (seen,) = watched.run(1.0)
    assert isinstance(seen, PodSeen)
    assert ("Unschedulable", "0/1") == seen.pod.unscheduled
    watched.bind()
    watched.run(1.0)
    assert watched.pod().unscheduled is None


def test_words_for_people_are_collected(watched: Watched) -> None:
    """An Event is kept as it was told."""
    tell = Tell("u", "demo", "web", "Scheduled", "note")
    watched.world.perform(tell)
    assert [tell] == watched.world.told


def test_meters_count_running_pods_on_their_node_and_stop_at_what_it_has(watched: Watched) -> None:
    """A pod uses nothing before it runs; use is the sum over the node's pods, and never more than the node has."""
    watched.world.put_node(node("n2", 8, 16))
    watched.world.create(Workload("hog", 9000, 1024 * MIB, constant(2.0), constant(0.5)), "trimtab")
    watched.run(1.0)
    web, hog = watched.world.pods
    watched.bind(web)
    watched.bind(hog, "n2")
    watched.world.scrape()
    assert SYSTEM_USE[CPU] == watched.world.measured["n1", CPU]
    watched.run(10.0)
    watched.world.scrape()
    assert SYSTEM_USE[CPU] + 500 == watched.world.measured["n1", CPU]
    assert SYSTEM_USE[MEMORY] + 256 * MIB == watched.world.measured["n1", MEMORY]
    assert 8000 == watched.world.measured["n2", CPU]
    event = watched.seen[-1]
    assert isinstance(event, SamplesRead)
    assert watched.world.measured == {
        (name, each.resource): value
        for each in event.readings
        for name, value in zip(each.names, each.values, strict=True)
    }
    assert {watched.clock.now} == {measured for each in event.readings for measured in each.measured}


def test_a_victim_leaves_after_its_grace(watched: Watched) -> None:
    """It is marked and seen leaving at once, and gone some time later; whoever asked is answered."""
    watched.bind()
    watched.run(10.0)
    uid = watched.pod().uid
    watched.world.perform(Preempt(uid, "demo", "web", "u-2", "trimtab"))
    events = watched.run(10.0)
    assert [PreemptDone, PodSeen, PodGone] == [type(event) for event in events]
    assert isinstance(events[1], PodSeen)
    assert events[1].pod.deleting
    assert events[1].pod.preempted
    assert {} == watched.world.pods


def test_a_victim_that_has_not_started_never_does(watched: Watched) -> None:
    """A pod that is preempted right after its bind is not seen running."""
    watched.bind()
    watched.run(0.2)
    watched.world.perform(Preempt(watched.pod().uid, "demo", "web", "u-2", "trimtab"))
    assert all(event.pod.phase == "Pending" for event in watched.run(20.0) if isinstance(event, PodSeen))


def test_a_nomination_is_written_down(watched: Watched) -> None:
    """A pod that waits shows the node that it was promised."""
    watched.run(1.0)
    watched.world.perform(Nominate(watched.pod().uid, "demo", "web", "n1"))
    watched.run(1.0)
    assert "n1" == watched.pod().nominated
