"""Decides whether a journal replays what happened, from any of its checkpoints, and stays within its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.engine_harness import EngineHarness, instructions, node, pod
from tests.laws.histories import Step, histories
from tests.laws.run_history import HistoryRunner, engine, fingerprint
from trimtab.core.journal import Journal
from trimtab.core.model.events import Event, Tick
from trimtab.core.model.instructions import Instruction

Recorded = list[tuple[Event, list[Instruction]]]


def recorded(steps: list[Step], limit: int, every: int) -> tuple[Journal, Recorded]:
    """A journal of this history, and what really happened."""
    truth = HistoryRunner().play(steps).journal
    live = engine()
    journal = Journal(live, limit, every)
    for event, wishes in truth:
        journal.record(event)
        assert wishes == instructions(live.handle(event))
    return journal, truth


@settings(max_examples=40, deadline=None, derandomize=True)
@given(histories(), st.integers(1, 30))
def test_replay_from_every_checkpoint_gives_the_same_instructions(steps: list[Step], every: int) -> None:
    """Also when it is replayed twice: a replay leaves its checkpoint as it was."""
    journal, truth = recorded(steps, 10_000, every)
    assert list(range(0, len(truth), every)) == journal.checkpoints()
    for start in (*journal.checkpoints(), 0):
        replayed = [(event, instructions(outputs)) for event, outputs in journal.replay(start)]
        assert truth[start:] == replayed


@settings(max_examples=20, deadline=None, derandomize=True)
@given(histories())
def test_a_replay_does_not_touch_the_live_engine(steps: list[Step]) -> None:
    """Nor does a fork that goes its own way."""
    journal, _ = recorded(steps, 10_000, 7)
    before = fingerprint(journal.engine)
    assert [] != list(journal.replay())
    astray = journal.engine.fork()
    for stretch in journal.segments:
        for event in stretch.events:
            astray.handle(event)
    assert before == fingerprint(journal.engine)


def test_a_journal_forgets_its_oldest_events_with_their_checkpoint() -> None:
    """Never more events than the limit, and what is left can be replayed."""
    scene = EngineHarness()
    journal = Journal(scene.engine, limit=10, every=4)
    for number in range(100):
        journal.record(Tick(float(number)))
        scene.handle(Tick(float(number)))
        assert len(journal) <= 10
    assert [92, 96] == journal.checkpoints()
    assert [float(number) for number in range(92, 100)] == [event.at for event, _ in journal.replay()]


def test_a_journal_begun_late_starts_from_what_was_known_then() -> None:
    """It can be turned on in a running process."""
    scene = EngineHarness()
    scene.upsert(node("a"), pod("web"))
    journal = Journal(scene.engine)
    journal.record(Tick(1.0))
    scene.handle(Tick(1.0))
    twin = journal.segments[0].engine
    assert (["a"], ["uid-web"]) == (
        [each.name for each in twin.cluster.node_table.nodes],
        list(twin.cluster.pods),
    )


def test_where_there_is_no_checkpoint_there_is_no_replay() -> None:
    """A number between two checkpoints is refused with those that there are."""
    scene = EngineHarness()
    journal = Journal(scene.engine)
    assert [] == list(journal.replay())
    journal.record(Tick(1.0))
    with pytest.raises(ValueError, match=r"no checkpoint at event 5: there are \[0\]"):
        list(journal.replay(5))
    with pytest.raises(ValueError, match="more than the 3 events"):
        Journal(scene.engine, limit=3, every=4)
