"""Proves that what is explained is what would be decided, also where a plugin fails or a promise is being kept."""

from __future__ import annotations

from tests.core.engine_harness import EngineHarness, node, pod
from tests.core.stub_plugins import filterer
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import explain_node, explain_pod

FAILED = "a plugin failed: ZeroDivisionError: by design"


def bad(pod: Pod) -> int:
    if pod.name == "bad":
        raise ZeroDivisionError("by design")
    return 0


def test_a_plugin_that_raises_is_told_and_hides_no_other_pod() -> None:
    """Whoever asks about the pod hears of the fault, and whoever asks about the node hears of the other pods, too."""
    scene = EngineHarness(filterer("Shaky", bad))
    ill = pod("bad")
    scene.upsert(node("a"), ill, pod("web"))
    assert FAILED == explain_pod(scene.engine.controller(Scheduling), ill).verdict
    told = explain_node(scene.engine.controller(Scheduling), "a")
    assert told is not None
    lines = {each.pod: each.line for each in told.waiting}
    assert ((FAILED,), "") == (lines["default/bad"].reasons, lines["default/web"].rejected_by)


def test_a_promise_that_is_being_kept_counts_once() -> None:
    """A pod on its way to the node that it was promised takes its room there, and no second one."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=4000), pod("first", cpu=3000, priority=9, nominated_node="a"))
    assert 1 == len(scene.turn())
    second = pod("second", cpu=500)
    scene.upsert(second)
    assert [""] == [line.rejected_by for line in explain_pod(scene.engine.controller(Scheduling), second).lines]
