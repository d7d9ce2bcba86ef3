"""The remedy ladder: each rung is used only if it is switched on, and is counted."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW, large, measured, running
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.controllers import Changed, EngineState
from trimtab.core.model.events import ResizeDone, SettingsRead
from trimtab.core.model.instructions import EmitEvent, Instruction, LabelNode, ResizePod
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.pod import RESIZE
from trimtab.core.model.taints import Taint
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.remedies import (
    HOT_TAINT,
    INITIAL_RESIZE_BACKOFF,
    MAX_RESIZE_BACKOFF,
    PLANS_WITHOUT_RELIEF,
    Remedies,
)
from trimtab.core.rescheduling.settings import Mode, RemedySettings, ReschedulingSettings
from trimtab.core.settings import Settings

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


def test_a_soft_taint_goes_once_it_is_switched_off() -> None:
    """Also from a node that is still hot; a taint of that key with another effect is somebody else's."""
    (removed,) = used(HOT, HOT_TAINT, soft_taint=False)
    assert isinstance(removed, LabelNode) and ((0, HOT_TAINT.key),) == removed.remove_taints
    assert [] == used(HOT, replace(HOT_TAINT, effect="NoSchedule"), soft_taint=False)


TAINTING = ReschedulingSettings(mode=Mode.AUTO, remedies=RemedySettings(soft_taint=True))


@pytest.mark.parametrize(
    ("rescheduling", "nodes"),
    [
        (TAINTING, []),
        (replaced(TAINTING, remedies=RemedySettings()), ["a"]),
        (replaced(TAINTING, mode=Mode.OBSERVE), ["a"]),
        (None, ["a"]),
    ],
)
def test_soft_taints_go_with_the_settings_that_set_them(
    rescheduling: ReschedulingSettings | None, nodes: list[str]
) -> None:
    """At once, because there may be no further plan; but not if this process does not lead."""
    for term, expected in ((1, nodes), (None, [])):
        state = EngineState(Settings((), rescheduling=TAINTING), MetricsRecorder(), cluster(HOT_TAINT), term=term)
        controller = Rescheduling(state)
        state.settings = Settings((), rescheduling=rescheduling)
        outputs = controller.on_change(Changed(SettingsRead(state.settings, NOW)))
        assert expected == [each.node for each in outputs if isinstance(each, LabelNode)]


def test_the_removal_of_a_taint_is_no_use_of_it() -> None:
    """Only what is done for a hot node counts."""
    recorder = Counts()
    assert 1 == len(used(COOL, HOT_TAINT, recorder=recorder, soft_taint=True))
    assert {} == recorder.used


def test_only_pods_that_ask_for_it_are_resized() -> None:
    """To what they use, once."""
    remedies, found = Remedies(), cluster()
    settings = RemedySettings(resize=True, capacity=False)
    (resize,) = remedies.apply(found, HOT, settings, MetricsRecorder())
    assert isinstance(resize, ResizePod) and ("asks", 3000) == (resize.name, resize.cpu)
    assert [] == remedies.apply(found, HOT, settings, MetricsRecorder())
    assert [] == used(COOL, resize=True)


def test_a_resize_that_failed_is_tried_again_after_a_back_off() -> None:
    """The back-off doubles with each failure, up to an hour; a resize that succeeded is not repeated."""
    settings = Settings((), rescheduling=ReschedulingSettings(mode=Mode.AUTO))
    state = EngineState(settings, MetricsRecorder(), cluster(), term=1)
    controller, now = Rescheduling(state), NOW
    assert ResizeDone in controller.answers

    def resizes(at: float) -> list[str]:
        rungs = RemedySettings(resize=True, capacity=False)
        found = controller.fork(state).remedies.apply(state.cluster, Plan(at, hot=HOT.hot), rungs, MetricsRecorder())
        assert found == controller.remedies.apply(state.cluster, Plan(at, hot=HOT.hot), rungs, MetricsRecorder())
        return [each.uid for each in found if isinstance(each, ResizePod)]

    (uid,) = resizes(now)
    for failures in range(6):
        assert [] == list(controller.on_answer(ResizeDone(uid, now, "the API server is overloaded")))
        backoff = min(INITIAL_RESIZE_BACKOFF * 2**failures, MAX_RESIZE_BACKOFF)
        assert [] == resizes(now + backoff - 1.0)
        now += backoff
        assert [uid] == resizes(now)
    controller.on_answer(ResizeDone(uid, now))
    assert [] == resizes(now + 10 * MAX_RESIZE_BACKOFF)


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
