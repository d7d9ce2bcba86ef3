"""The engine clock never jumps, whatever is done to the wall clock, and samples keep their age."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import WEB, EngineHarness, node
from tests.core.load.builders import pod_reading, reading
from trimtab.apps.clock import Clock
from trimtab.apps.runtime import Runtime
from trimtab.core.controllers import Output
from trimtab.core.model.events import (
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    HistoryRead,
    NodeUpserted,
    ObjectUpserted,
    PodUpserted,
    SamplesRead,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind, Instruction
from trimtab.core.model.objects import PodGroup
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.model.schedule_result import Decision

NOON = 1_800_000_000.0
STEPS = [seconds * sign for seconds in (3.0, 90.0, 7_200.0, 864_000.0) for sign in (1.0, -1.0)]


class FakeMachine:
    """A machine whose clocks the test moves."""

    def __init__(self) -> None:
        self.wall, self.passed = NOON, 500.0
        self.clock = Clock(lambda: self.wall, lambda: self.passed)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.passed += seconds

    def ages_seen(self, *ages: float) -> tuple[float, ...]:
        """How old samples of these ages are to the engine."""
        readings = tuple(reading({"a": 1.0}, at=self.wall - age) for age in ages)
        settled = self.clock.to_engine_time(SamplesRead(readings, self.clock()))
        assert isinstance(settled, SamplesRead)
        return tuple(round(settled.at - each.measured[0], 3) for each in settled.readings)


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("step", STEPS)
def test_a_step(machine: FakeMachine, step: float, caplog: pytest.LogCaptureFixture) -> None:
    """Forwards or backwards, by seconds or days: ages are right, engine time goes on, and it is logged once."""
    assert (0.0, 40.0) == machine.ages_seen(0.0, 40.0)
    machine.passes(10.0)
    machine.wall += step
    assert NOON + 10.0 == machine.clock()
    assert (0.0, 40.0) == machine.ages_seen(0.0, 40.0)
    machine.passes(10.0)
    machine.clock.resync()
    assert (0.0, 40.0) == machine.ages_seen(0.0, 40.0)
    assert NOON + 20.0 == machine.clock()
    assert [f"wall clock stepped: seconds={step:.1f}"] == warnings(caplog)


def test_there_and_back(machine: FakeMachine, caplog: pytest.LogCaptureFixture) -> None:
    """Each step is logged; at the end the offset is 0."""
    for step in (3600.0, -3600.0):
        machine.wall += step
        machine.clock.resync()
    assert 2 == len(warnings(caplog))
    event = SamplesRead((reading({"a": 1.0}, at=machine.wall),), machine.clock())
    assert event == machine.clock.to_engine_time(event)


def test_drift(machine: FakeMachine, caplog: pytest.LogCaptureFixture) -> None:
    """A wall clock that drifts two milliseconds a second is followed for an hour without a warning."""
    for _ in range(240):
        machine.passes(15.0)
        machine.wall += 0.03
        assert machine.ages_seen(40.0) == (pytest.approx(40.0, abs=0.1),)
    assert 7.0 < machine.clock.wall_offset < 7.3
    assert [] == warnings(caplog)


def test_sleep(machine: FakeMachine, caplog: pytest.LogCaptureFixture) -> None:
    """Sleep counts: samples from before are older by it, and no step is logged."""
    measured = machine.clock() - 5.0
    machine.passes(7_200.0)
    machine.clock.resync()
    assert 7_205.0 == machine.clock() - measured
    assert ([], (5.0,)) == (warnings(caplog), machine.ages_seen(5.0))


def test_held_up_between_the_clocks(machine: FakeMachine, caplog: pytest.LogCaptureFixture) -> None:
    """A process stopped between the two clock reads sees no step; the next resync is correct."""

    def stalls() -> float:
        machine.passes(30.0)
        return machine.wall

    machine.clock.wall = stalls
    machine.clock.resync()
    assert (0.0, []) == (machine.clock.wall_offset, warnings(caplog))


def test_what_has_not_moved_is_not_touched(machine: FakeMachine) -> None:
    """Without an offset every event is passed on unchanged."""
    machine.wall += 0.05
    pod = Pod("u", "ns", "p", started=NOON - 1.0)
    events: list[Event] = [
        SamplesRead((reading({"a": 1.0}, at=NOON),), NOON),
        HistoryRead((reading({"a": 1.0}, at=NOON),), NOON),
        PodUpserted(pod, NOON),
        PodUpserted(Pod("u", "ns", "p"), NOON),
        GetPodDone("u", None, NOON),
        Tick(NOON),
    ]
    assert all(machine.clock.to_engine_time(event) is event for event in events)


@pytest.mark.parametrize("step", STEPS)
def test_pods_and_the_past(machine: FakeMachine, step: float) -> None:
    """Start times of pods and history are converted like samples."""
    machine.wall += step
    machine.clock.resync()
    past = machine.clock.to_engine_time(
        HistoryRead((pod_reading({"p": 1.0}, at=machine.wall - 60.0),), machine.clock())
    )
    assert isinstance(past, HistoryRead)
    assert NOON - 60.0 == past.readings[0].measured[0]
    pod = Pod("u", "ns", "p", started=machine.wall - 60.0)
    for event in (PodUpserted(pod, machine.clock()), GetPodDone("u", pod, machine.clock())):
        settled = machine.clock.to_engine_time(event)
        assert isinstance(settled, PodUpserted | GetPodDone) and settled.pod is not None
        assert NOON - 60.0 == settled.pod.started


@pytest.mark.parametrize("step", STEPS)
def test_gangs_and_pods_stand_in_one_queue(machine: FakeMachine, step: float) -> None:
    """Creation times of PodGroups are converted; a missing one stays missing."""
    machine.wall += step
    machine.clock.resync()
    for created, expected in ((machine.wall - 60.0, NOON - 60.0), (0.0, 0.0)):
        group = PodGroup(uid="g", name="g", namespace="ns", created=created)
        settled = machine.clock.to_engine_time(ObjectUpserted(group, machine.clock()))
        assert isinstance(settled, ObjectUpserted) and isinstance(settled.object, PodGroup)
        assert expected == settled.object.created


def test_what_people_read(machine: FakeMachine) -> None:
    """An engine time is converted by the current offset."""
    machine.passes(10.0)
    machine.wall += 3_600.0
    machine.clock.resync()
    assert machine.wall == machine.clock.to_wall_time(machine.clock())


class LiveEngine:
    """An engine driven by a Runtime, step by step."""

    def __init__(self, machine: FakeMachine) -> None:
        self.machine, self.harness = machine, EngineHarness()
        self.instructions: list[Instruction] = []
        self.checkpoint, self.recorded = self.harness.engine.fork(), list[Event]()
        self.runtime = Runtime(self.harness.engine, self.instructions.append, machine.clock, record=self._record)
        self.runtime.dispatch(NodeUpserted(node("a"), machine.clock()))

    def _record(self, event: Event, outputs: Sequence[Output]) -> None:
        self.recorded.append(event)

    def replay(self) -> list[Output]:
        """What a copy of the engine, made before the first event, answers to the same events."""
        return [output for event in self.recorded for output in self.checkpoint.handle(event)]

    def measure(self, cpu: float) -> None:
        """A sample that was taken five seconds ago."""
        measured = reading({"a": cpu}, at=self.machine.wall - 5.0)
        self.runtime.dispatch(SamplesRead((measured,), self.machine.clock()))

    def tick(self, seconds: float = 0.0) -> None:
        self.machine.passes(seconds)
        self.machine.clock.resync()
        self.runtime.dispatch(Tick(self.machine.clock()))

    @property
    def trust(self) -> float:
        return float(self.harness.engine.cluster.load.trust(CPU)[0])

    @property
    def cpu(self) -> float:
        return float(self.harness.engine.cluster.load.latest(CPU)[0])


def test_no_pod_begins_anew_at_each_sight(machine: FakeMachine) -> None:
    """With its node's clock an hour ahead it started when it was first seen running, whatever comes later."""
    live = LiveEngine(machine)
    live.tick()
    pod = Pod("u", "ns", "p", node="a", phase="Running", started=machine.wall + 3_600.0, version=1)
    live.runtime.dispatch(PodUpserted(pod, machine.clock()))
    live.tick(60.0)
    live.runtime.dispatch(PodUpserted(replace(pod, version=2, ready=True), machine.clock()))
    standing = live.harness.engine.cluster.load_store.placed_pods
    assert NOON == standing.running_since[standing.slot["ns/p"]]


@pytest.mark.parametrize("step", STEPS)
def test_the_engine_believes_by_true_ages(machine: FakeMachine, step: float) -> None:
    """Samples keep their age over the step, later ones are accepted, and both age normally."""
    live = LiveEngine(machine)
    live.measure(100.0)
    machine.wall += step
    live.tick(60.0)
    assert (1.0, 100.0) == (live.trust, live.cpu)
    live.measure(200.0)
    assert (1.0, 200.0) == (live.trust, live.cpu)
    live.tick(116.0)
    assert 0.5 == live.trust
    live.tick(180.0)
    assert 0.0 == live.trust


@pytest.mark.parametrize("step", STEPS)
def test_nothing_that_waits_is_woken_or_delayed(machine: FakeMachine, step: float) -> None:
    """A pod backs off for its second by the engine's clock; a replay of its events gives the same instructions."""
    live = LiveEngine(machine)
    live.runtime.dispatch(PodUpserted(WEB, machine.clock()))
    live.runtime.dispatch(Turn(1, machine.clock()))
    assert [Bind] == [type(each) for each in live.instructions if isinstance(each, Bind)]
    live.runtime.dispatch(BindFailed(WEB.uid, "a", BindFailure.NOT_SENT, "no", machine.clock()))
    machine.wall += step
    live.tick(0.5)
    assert not live.harness.engine.has_work()
    live.tick(0.6)
    assert live.harness.engine.has_work()
    live.runtime.dispatch(Turn(1, machine.clock()))
    moments = [event.at for event in live.recorded]
    assert moments == sorted(moments)
    assert live.instructions == [each for each in live.replay() if not isinstance(each, Decision)]
