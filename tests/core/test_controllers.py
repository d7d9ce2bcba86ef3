"""The controller contract, with a throwaway third controller: it ticks, asks for a write, gets the answer, decides, forks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from tests.core.engine_harness import node, pod, profile
from trimtab.core.controllers import Changed, Controller, EngineState, Output
from trimtab.core.driver import Driver
from trimtab.core.engine import CONTROLLERS, Engine
from trimtab.core.labelling.controller import Labelling
from trimtab.core.model.events import (
    Event,
    LabelDone,
    LabelFailed,
    LeaseAcquired,
    LeaseLost,
    NodeUpserted,
    PodUpserted,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind, Instruction, LabelNode
from trimtab.core.model.plan import Plan
from trimtab.core.model.schedule_result import Decision
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.settings import Settings


class Annotator(Controller):
    """Labels every node that it has seen, one a turn, and counts ticks."""

    answers: ClassVar[frozenset[type]] = frozenset({LabelDone})

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.todo: list[str] = []
        self.done: list[str] = []
        self.ticks = 0

    def on_change(self, changed: Changed) -> Sequence[Output]:
        if isinstance(changed.event, NodeUpserted) and changed.before is None:
            self.todo.append(changed.event.node.name)
        return ()

    def on_answer(self, answer: Event) -> Sequence[Output]:
        assert isinstance(answer, LabelDone)
        self.state.writes.end(LabelNode, answer.node)
        self.done.append(answer.node)
        return ()

    def tick(self, now: float) -> Sequence[Output]:
        self.ticks += 1
        return ()

    def has_work(self) -> bool:
        return bool(self.todo)

    def turn(self, budget: int, now: float) -> Sequence[Output]:
        names, self.todo = self.todo[:budget], self.todo[budget:]
        for name in names:
            self.state.writes.begin(LabelNode, name, now, deadline=now + 30.0)
        return [LabelNode(name, f"uid-{name}", 1, labels=(("seen", "yes"),)) for name in names]

    def fork(self, state: EngineState) -> Annotator:
        copied = Annotator(state)
        copied.todo, copied.done, copied.ticks = self.todo.copy(), self.done.copy(), self.ticks
        return copied


def hosting(*controllers: type[Controller]) -> Engine:
    """An engine with these controllers that leads, and knows one node."""
    engine = Engine(Settings((profile(),)), controllers=(*CONTROLLERS, *controllers))
    for kind in engine.state.settings.kinds:
        engine.handle(Synced(kind, 0.0))
    engine.handle(LeaseAcquired(1, 0.0))
    engine.handle(NodeUpserted(node("a"), 0.0))
    return engine


def test_a_third_controller_writes_in_its_turn_and_gets_the_answer() -> None:
    """It needs no line in the engine: its events, its turn, its write under way and its answer reach it."""
    engine = hosting(Annotator)
    annotator = engine.controller(Annotator)
    assert engine.has_work()
    assert [LabelNode("a", "uid-a", 1, labels=(("seen", "yes"),))] == engine.handle(Turn(5, 1.0))
    assert (["a"], False) == (list(engine.state.writes.of(LabelNode)), engine.has_work())
    engine.handle(LabelDone("a", 2.0))
    engine.handle(Tick(3.0))
    assert (["a"], [], 1) == (annotator.done, list(engine.state.writes.of(LabelNode)), annotator.ticks)


def test_every_controller_gets_its_turn_of_the_same_state() -> None:
    """Scheduling binds and the third one labels in one turn."""
    engine = hosting(Annotator)
    engine.handle(PodUpserted(pod("web", version=7), 0.0))
    outputs = engine.handle(Turn(1, 1.0))
    assert [Decision, Bind, LabelNode] == [type(output) for output in outputs]


def test_a_standby_ticks_and_decides_nothing() -> None:
    """Without the lease there is no work and no turn, for any controller."""
    engine = hosting(Annotator)
    engine.handle(LeaseLost(1.0))
    assert (False, []) == (engine.has_work(), engine.handle(Turn(5, 1.0)))
    engine.handle(Tick(2.0))
    assert 1 == engine.controller(Annotator).ticks


def test_a_fork_has_its_own_controllers_and_writes() -> None:
    """What a fork decides and is answered, the original does not know."""
    engine = hosting(Annotator)
    fork = engine.fork()
    fork.handle(Turn(5, 1.0))
    fork.handle(LabelDone("a", 2.0))
    assert (["a"], []) == (fork.controller(Annotator).done, engine.controller(Annotator).done)
    assert (["a"], []) == (engine.controller(Annotator).todo, fork.controller(Annotator).todo)
    assert fork.controller(Annotator).state is fork.state


def test_an_answer_that_no_controller_takes_is_dropped() -> None:
    """A labeller's answer in an engine that only schedules, say, after its settings changed."""
    engine = Engine(Settings((profile(),)), controllers=(Scheduling,))
    assert [] == engine.handle(LabelFailed("a", "no", 1.0))
    with pytest.raises(LookupError, match="no Labelling controller"):
        engine.controller(Labelling)


def test_the_driver_reports_a_decision_before_its_instructions() -> None:
    """Whoever listens to decisions sees the engine as it was decided upon; a recorder gets events with their outputs."""
    engine = hosting()
    heard: list[object] = []
    recorded: list[tuple[Event, Sequence[Output]]] = []

    def perform(instruction: Instruction) -> None:
        heard.append(instruction)

    driver = Driver(engine, perform, heard.append, lambda event, outputs: recorded.append((event, outputs)))
    driver.put(PodUpserted(pod("web", version=7), 0.0))
    driver.decide(1.0)
    assert [Decision, Bind] == [type(each) for each in heard]
    assert [(PodUpserted, 0), (Turn, 2)] == [(type(event), len(outputs)) for event, outputs in recorded]


class Planner(Controller):
    """Makes a plan at every tick."""

    def __init__(self, state: EngineState) -> None:
        self.state = state

    def tick(self, now: float) -> Sequence[Output]:
        return [Plan(now)]


def test_the_driver_reports_plans_and_performs_none() -> None:
    """They are for people, and for the log."""
    performed: list[Instruction] = []
    plans: list[Plan] = []
    driver = Driver(Engine(Settings((profile(),)), controllers=(Planner,)), performed.append, on_plan=plans.append)
    driver.put(Tick(3.0))
    assert ([Plan(3.0)], []) == (plans, performed)


def test_the_driver_gives_turns_until_there_is_no_work() -> None:
    """Of one decision each."""
    performed: list[Instruction] = []
    driver = Driver(hosting(), performed.append)
    for name in ("one", "two", "three"):
        driver.put(PodUpserted(pod(name), 0.0))
    driver.decide(1.0)
    assert 3 == sum(isinstance(each, Bind) for each in performed)
