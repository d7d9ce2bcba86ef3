"""The walk of a move as drawn in ARCHITECTURE.md, from samples of load to its grades, with the replacement first."""

from __future__ import annotations

from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW, PROFILE, large, readings, running
from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import (
    Event,
    LeaseAcquired,
    LedgerRead,
    LedgerWritten,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    SurgeDone,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import EndSurge, Nominate, ReadLedger, StartSurge, WriteLedger
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState
from trimtab.core.model.plan import Plan
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.core.settings import Settings

SETTINGS = ReschedulingSettings(mode=Mode.AUTO, limits={CPU: 0.8}, min_pod_age=0.0, settle_time=0.0)
USAGE = {"web-old": 4500.0, "web-new": 4500.0, "rest-a": 5000.0}  # millicores; a node has 10 cores
Wanted = TypeVar("Wanted", bound=Output)


class Story:
    """An engine that leads, its clock, and the ledger in the cluster, which is read and written at once."""

    def __init__(self, *pods: Pod) -> None:
        self.engine = Engine(Settings((PROFILE,), rescheduling=SETTINGS))
        self.at, self.version, self.ledger = NOW - 1800.0, 1, Ledger()
        self.wanted: list[Output] = []
        self.tell(*(NodeUpserted(large(name), self.at) for name in ("hot", "cold")))
        self.tell(*(PodUpserted(each, self.at) for each in pods))
        self.tell(*(Synced(kind, self.at) for kind in self.engine.state.settings.kinds), LeaseAcquired(1, self.at))

    def tell(self, *events: Event) -> None:
        for event in events:
            for each in self.engine.handle(event):
                if isinstance(each, ReadLedger):
                    self.tell(LedgerRead(self.ledger, self.at, str(self.version)))
                elif isinstance(each, WriteLedger):
                    self.ledger, self.version = each.ledger, self.version + 1
                    self.tell(LedgerWritten(str(self.version), self.at))
                else:
                    self.wanted.append(each)

    def measure(self, seconds: float) -> None:
        """Every minute all pods and nodes are measured, time passes, and the engine has its turns."""
        for _ in range(int(seconds / 60)):
            self.at += 60.0
            self.tell(SamplesRead(readings(self.engine.cluster, CPU, USAGE, self.at), self.at), Tick(self.at))
            while self.engine.has_work():
                self.tell(Turn(10, self.at))

    def shows(self, pod: Pod) -> None:
        """The watch shows the pod."""
        self.version += 1
        self.tell(PodUpserted(replace(pod, version=self.version), self.at))

    def take(self, kind: type[Wanted]) -> list[Wanted]:
        """What the engine wanted of this kind since it was last asked."""
        found = [each for each in self.wanted if isinstance(each, kind)]
        self.wanted = [each for each in self.wanted if not isinstance(each, kind)]
        return found

    @property
    def record(self) -> MoveRecord:
        (record,) = self.engine.controller(Rescheduling).execution.records.values()
        return record


def test_a_pod_is_moved_hop_by_hop() -> None:
    """Samples → a plan → charged → one replica more → the replacement is nominated, placed, ready → the old pod leaves →
    done → graded after half an hour and after six hours."""
    old = running("web-old", "hot", owner="web", cpu="1")
    story = Story(old, running("rest-a", "hot", owner="rest", cpu="1"))
    story.measure(60)
    (plan,) = (each for each in story.take(Plan) if each.moves)
    (move,) = plan.moves
    assert ("default/web-old", "hot", "cold", True) == (move.pod, move.source, move.target, move.gain > move.cost)
    (surge,) = story.take(StartSurge)
    assert (old.uid, "ReplicaSet", "web") == (surge.uid, surge.kind, surge.workload)
    assert [MoveState.CHARGED] == [each.state for each in story.ledger.records]  # written before anything is changed

    story.tell(SurgeDone(old.uid, story.at))
    assert MoveState.SURGED is story.record.state
    new = replace(running("web-new", "", owner="web", cpu="1", created=story.at), ready=False, phase="Pending")
    story.shows(new)
    assert [Nominate(new.uid, "default", "web-new", "cold")] == story.take(Nominate)
    story.shows(replace(new, node="cold", phase="Running"))
    assert MoveState.PLACED is story.record.state and [] == story.take(EndSurge)

    story.shows(replace(new, node="cold", phase="Running", ready=True))
    (end,) = story.take(EndSurge)
    assert (old.uid, "web-old", MoveState.LEAVING) == (end.uid, end.leaves, story.record.state)
    story.tell(SurgeDone(old.uid, story.at, ended=True))
    story.shows(replace(old, terminating=True))
    story.tell(PodDeleted(old.uid, story.at))
    assert (MoveState.DONE, "cold", 0.0) == (story.record.state, story.record.node, story.record.unready)

    story.measure(6 * 3600 + 600)
    soon, late = story.record.grades
    assert (1800.0, 21600.0) == (pytest.approx(soon.after, abs=120), pytest.approx(late.after, abs=120))
    assert soon.helped and late.helped
    assert [] == [each for each in story.take(Plan) if each.moves] and [] == story.take(StartSurge)
