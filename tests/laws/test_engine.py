"""Decides whether the engine's promises hold for any history: lagging watches, lost answers, rivals, a lost lease."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings

from tests.core.engine.scene import OURS, instructions
from tests.laws.journals import Step, bindable, journals
from tests.laws.recount import misfits
from tests.laws.trial import Trial, engine, fingerprint
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling.controller import Scheduling

EXAMPLES = settings(max_examples=160, deadline=None, derandomize=True)


@EXAMPLES
@given(journals())
def test_every_promise_holds_after_every_event(steps: list[Step]) -> None:
    """Binds fit on what was delivered, one at a time; what is no news changes nothing; no pod is lost; sums are true."""
    trial = Trial().play(steps)
    assert len(trial.journal) == trial.ledger.number


@EXAMPLES
@given(journals())
def test_when_all_is_quiet_the_engine_knows_the_truth_and_has_done_its_work(steps: list[Step]) -> None:
    """No flight is left, each pod and node is held as it is, and whoever is still unbound is gated or fits nowhere."""
    trial = Trial().play(steps).settle()
    cluster, world = trial.engine.cluster, trial.world
    assert world.pods == cluster.pods
    assert world.nodes == {node.name: node for node in cluster.columns.nodes}
    assert {} == {
        uid: f for uid, f in trial.engine.controller(Scheduling).bindings.by_uid.items() if "slow" not in f.pod.labels
    }
    left = [pod for pod in world.pods.values() if pod.scheduler == OURS and bindable(pod) and "slow" not in pod.labels]
    fits = [
        (pod.name, node.name) for pod in left for node in world.nodes.values() if not _misfits(trial, pod, node.name)
    ]
    assert [] == fits


def _misfits(trial: Trial, pod: Pod, node: str) -> list[str]:
    others = [each for each in trial.ledger.standing(node) if each.uid != pod.uid]
    waiting = [f.pod for f in trial.engine.controller(Scheduling).bindings.waiting() if f.node == node]
    return misfits(pod, trial.world.nodes[node], others + waiting)


@EXAMPLES
@given(journals())
def test_the_same_journal_gives_the_same_instructions(steps: list[Step]) -> None:
    """Nothing but the events decides."""
    trial = Trial().play(steps)
    twin = engine()
    assert [wishes for _, wishes in trial.journal] == [instructions(twin.handle(event)) for event, _ in trial.journal]
    assert fingerprint(trial.engine) == fingerprint(twin)


ELSEWHERE = """
from random import Random
from tests.laws.journals import World
from tests.laws.trial import Trial

chance, moves = Random(7), len(World.MOVES)
for _ in range(10):
    history = [(chance.randrange(moves), chance.randrange(31), chance.randrange(31)) for _ in range(80)]
    print([wishes for _, wishes in Trial().play(history).journal])
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
