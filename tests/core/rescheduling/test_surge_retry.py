"""The further replica of a move is taken back until that has succeeded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.core.rescheduling.measured_pods import running
from trimtab.core.model.events import SurgeDone, SurgeFailed
from trimtab.core.model.instructions import EndSurge
from trimtab.core.model.ledger import MoveRecord, MoveState
from trimtab.core.rescheduling.execution import RETRY, Execution
from trimtab.core.rescheduling.guards import owner_slot

OLD, NEW = running("old", "node-1"), running("new", "node-2")
END = EndSurge("old", "default", "Deployment", "web", "old")


@pytest.fixture
def execution() -> Execution:
    """A move whose replacement has just become ready; its surge was answered at 100 s."""
    cluster = SimpleNamespace(pods={"old": OLD, "new": NEW})
    recorder = SimpleNamespace(move_changed=lambda record: None)
    made = Execution(cast(Any, SimpleNamespace(cluster=cluster, recorder=recorder)))
    made.records["old"] = MoveRecord(
        *("old", "default", "old", "Deployment web", owner_slot(OLD), "node-1", "node-2", "HotSpot", 99.0),
        state=MoveState.PLACED,
        surge=True,
        left=100.0,
        replacement=NEW.uid,
        node="node-2",
    )
    return made


def test_it_is_sent_again_after_a_failure(execution: Execution) -> None:
    """Otherwise the workload would keep a pod too many for ever."""
    assert [END] == [*execution.pod_upserted(NEW, NEW, 110.0)]
    execution.surge_failed(SurgeFailed("old", "conflict", 111.0))
    assert [END] == execution.tick(110.0 + RETRY)
    assert MoveState.LEAVING is execution.records["old"].state


def test_it_is_not_sent_again_once_it_was_done(execution: Execution) -> None:
    """If the pod then stays, another one has left."""
    execution.pod_upserted(NEW, NEW, 110.0)
    execution.surge_done(SurgeDone("old", 111.0))
    assert [] == execution.tick(1000.0)
    assert (MoveState.FAILED, "another pod left") == (execution.records["old"].state, execution.records["old"].message)
