"""The engine's guarantees hold for any history: lagging watches, lost responses, other schedulers, a lost lease."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.engine_harness import OURS, instructions
from tests.laws.bind_checker import unmet_requirements
from tests.laws.histories import Step, bindable, histories
from tests.laws.run_history import HistoryRunner, engine, fingerprint
from trimtab.core.engine import Engine
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling.controller import Scheduling

EXAMPLES = settings(max_examples=160, deadline=None, derandomize=True)


@EXAMPLES
@given(histories())
def test_every_promise_holds_after_every_event(steps: list[Step]) -> None:
    """Binds fit the delivered state, one at a time; stale events change nothing; no pod is lost; sums are correct."""
    trial = HistoryRunner().play(steps)
    assert len(trial.journal) == trial.ledger.number


@EXAMPLES
@given(histories())
def test_when_all_is_quiet_the_engine_knows_the_truth_and_has_done_its_work(steps: list[Step]) -> None:
    """No binding cycle is left, each pod and node is known as it is, and unbound pods are gated or fit nowhere."""
    trial = HistoryRunner().play(steps).settle()
    cluster, world = trial.engine.cluster, trial.world
    assert world.pods == cluster.pods
    assert world.nodes == {node.name: node for node in cluster.node_table.nodes}
    assert {} == {
        uid: f for uid, f in trial.engine.controller(Scheduling).bindings.by_uid.items() if "slow" not in f.pod.labels
    }
    left = [
        pod for pod in world.pods.values() if pod.scheduler_name == OURS and bindable(pod) and "slow" not in pod.labels
    ]
    fits = [
        (pod.name, node.name) for pod in left for node in world.nodes.values() if not _misfits(trial, pod, node.name)
    ]
    assert [] == fits


def _misfits(trial: HistoryRunner, pod: Pod, node: str) -> list[str]:
    others = [each for each in trial.ledger.pods_on(node) if each.uid != pod.uid]
    waiting = [f.pod for f in trial.engine.controller(Scheduling).bindings.waiting() if f.node == node]
    return unmet_requirements(pod, trial.world.nodes[node], others + waiting)


@EXAMPLES
@given(histories())
def test_the_same_journal_gives_the_same_instructions(steps: list[Step]) -> None:
    """Nothing but the events decides."""
    trial = HistoryRunner().play(steps)
    twin = engine()
    assert [wishes for _, wishes in trial.journal] == [instructions(twin.handle(event)) for event, _ in trial.journal]
    assert fingerprint(trial.engine) == fingerprint(twin)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(histories(), st.integers(1, 30))
def test_a_fork_at_any_event_gives_the_same_instructions_from_there_on(steps: list[Step], every: int) -> None:
    """Also a second time: what is done to a fork of a fork does not show in it."""
    journal = HistoryRunner().play(steps).journal
    live, forks = engine(), list[tuple[int, Engine]]()
    for number, (event, wishes) in enumerate(journal):
        if number % every == 0:
            forks.append((number, live.fork()))
        assert wishes == instructions(live.handle(event))
    for start, fork in (*forks, forks[0]):
        copy = fork.fork()
        assert [wishes for _, wishes in journal[start:]] == [
            instructions(copy.handle(event)) for event, _ in journal[start:]
        ]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(histories())
def test_a_fork_that_goes_its_own_way_does_not_touch_the_live_engine(steps: list[Step]) -> None:
    """Whatever it handles."""
    trial = HistoryRunner().play(steps)
    before, astray = fingerprint(trial.engine), trial.engine.fork()
    for event, _ in trial.journal:
        astray.handle(event)
    assert before == fingerprint(trial.engine)


ELSEWHERE = """
from random import Random
from tests.laws.histories import World
from tests.laws.run_history import HistoryRunner

chance, moves = Random(7), len(World.MOVES)
for _ in range(10):
    history = [(chance.randrange(moves), chance.randrange(31), chance.randrange(31)) for _ in range(80)]
    print([wishes for _, wishes in HistoryRunner().play(history).journal])
"""


def test_the_same_history_gives_the_same_instructions_in_every_process() -> None:
    """Python shuffles its sets of text anew in each process; no decision may depend on that."""
    said = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", ELSEWHERE]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        root = Path(__file__).parents[2]
        said.add(subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True).stdout)
    assert 1 == len(said)
    assert b"Bind(" in said.pop()
