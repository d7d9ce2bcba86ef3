"""The remedy ladder: each rung is used only if it is switched on, and is counted."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW, large, measured, running
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.instructions import EmitEvent, Instruction, LabelNode, ResizePod
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.pod import RESIZE
from trimtab.core.model.taints import Taint
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.remedies import HOT_TAINT, PLANS_WITHOUT_RELIEF, Remedies
from trimtab.core.rescheduling.settings import RemedySettings

HOT = Plan(NOW, hot={"a": "cpu at 90%, above 80%"})
COOL = Plan(NOW)


class Counts(MetricsRecorder):
    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def remedy_used(self, rung: str, count: int) -> None:
        self.used[rung] = self.used.get(rung, 0) + count


def cluster(*taints: Taint) -> Cluster:
    asked = replace(running("asks", "a", cpu="1"), annotations={RESIZE: "requests"})
    silent = running("silent", "a", cpu="1")
    return measured(
        replace(large("a"), taints=taints),
        large("b"),
        asked,
        silent,
        cpu={"asks": [3000.0] * 6, "silent": [3000.0] * 6},
    )


def used(plan: Plan, *taints: Taint, recorder: MetricsRecorder | None = None, **rungs: Any) -> list[Instruction]:
    settings = RemedySettings(**{"capacity": False, **rungs})
    return Remedies().apply(cluster(*taints), plan, settings, recorder or MetricsRecorder())


def test_a_soft_taint_comes_and_goes_with_the_heat() -> None:
    """Added once, removed by its place in the list, and never added to what is cool or has it."""
    (added,) = used(HOT, soft_taint=True)
    assert isinstance(added, LabelNode)
    assert ("a", (HOT_TAINT,), True) == (added.node, added.add_taints, added.has_no_taints)
    other = Taint("dedicated", "db", "NoSchedule")
    assert [] == used(HOT, other, HOT_TAINT, soft_taint=True)
    (removed,) = used(COOL, other, HOT_TAINT, soft_taint=True)
    assert isinstance(removed, LabelNode) and ((1, HOT_TAINT.key),) == removed.remove_taints
    assert [] == used(COOL, other, soft_taint=True)


def test_only_pods_that_ask_for_it_are_resized() -> None:
    """To what they use, once."""
    remedies, found = Remedies(), cluster()
    settings = RemedySettings(resize=True, capacity=False)
    (resize,) = remedies.apply(found, HOT, settings, MetricsRecorder())
    assert isinstance(resize, ResizePod) and ("asks", 3000) == (resize.name, resize.cpu)
    assert [] == remedies.apply(found, HOT, settings, MetricsRecorder())
    assert [] == used(COOL, resize=True)


def test_capacity_is_asked_for_after_some_plans_without_relief() -> None:
    """Once, with the reason; a move in between, or a node that cooled, begins the count anew."""
    remedies, found, settings = Remedies(), cluster(), RemedySettings()
    told = [remedies.apply(found, HOT, settings, MetricsRecorder()) for _ in range(PLANS_WITHOUT_RELIEF + 2)]
    assert [0] * (PLANS_WITHOUT_RELIEF - 1) + [1, 0, 0] == [len(each) for each in told]
    (event,) = told[PLANS_WITHOUT_RELIEF - 1]
    assert isinstance(event, EmitEvent) and ("Node", "a", "CapacityNeeded") == (event.kind, event.name, event.reason)
    assert event.note.startswith("cpu at 90%, above 80%, for 3 plans in a row")
    move = Move("uid", "default/asks", "a", "b", "HotSpot", "hot", 50.0, 32.0)
    assert [] == remedies.apply(found, Plan(NOW, (move,), hot=HOT.hot), settings, MetricsRecorder())
    assert {"a": 0} == remedies.without_relief
    remedies.apply(found, COOL, settings, MetricsRecorder())
    assert {} == remedies.without_relief


def test_moves_that_are_switched_off_relieve_nothing() -> None:
    """They are only planned: neither counted, nor a reason not to ask for capacity."""
    recorder, remedies, found = Counts(), Remedies(), cluster()
    move = Move("uid", "default/asks", "a", "b", "HotSpot", "hot", 50.0, 32.0)
    plan = Plan(NOW, (move,), hot=HOT.hot)
    told = [remedies.apply(found, plan, RemedySettings(move=False), recorder) for _ in range(PLANS_WITHOUT_RELIEF)]
    assert {"capacity": 1} == recorder.used and isinstance(told[-1][0], EmitEvent)


def test_each_use_is_counted_and_all_are_off_by_default_but_capacity() -> None:
    """A rung that is switched off is neither used nor counted."""
    recorder = Counts()
    assert [] == used(HOT, recorder=recorder) and {} == recorder.used
    used(HOT, recorder=recorder, soft_taint=True, resize=True)
    assert {"softTaint": 1, "resize": 1} == recorder.used
