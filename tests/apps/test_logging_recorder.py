"""What the recorder of a live process logs: warnings of plugins, and explanations at level debug."""

from __future__ import annotations

import json
import logging

import pytest

from tests.core.engine_harness import EngineHarness, node, pod
from tests.core.rescheduling.move_records import done
from trimtab.apps.logging_recorder import LoggingRecorder
from trimtab.apps.logs import JsonFormatter
from trimtab.config.registry import default_profile
from trimtab.core.model.ledger import Grade, MoveState
from trimtab.core.recorder import StageReport
from trimtab.core.scheduling.controller import Scheduling


def decide() -> None:
    scene = EngineHarness(recorder=LoggingRecorder())
    scene.engine.controller(Scheduling).evaluator.stock = default_profile("stock")
    scene.upsert(node("a"), node("b", cpu=100), pod("web", cpu=1000))
    scene.at = 1.5
    scene.turn()


def test_the_debug_log_explains_decisions(caplog: pytest.LogCaptureFixture) -> None:
    """Scores raw and normalised with their weights, rejections, how long the pod waited, and the stock choice."""
    caplog.set_level(logging.DEBUG)
    decide()
    assert "explained: pod=default/web verdict=a: best of 1 of 2 nodes stock=a: best of 1 of 2 nodes" in caplog.text
    assert "scored: pod=default/web node=a total=" in caplog.text
    assert "TaintToleration raw 0 normalised 100 x 3 = 300" in caplog.text
    assert "rejected: pod=default/web node=b plugin=NodeResourcesFit reasons=Insufficient cpu" in caplog.text
    assert "waited: pod=default/web seconds=1.500 attempts=1 steps=1.500 s ago active: the pod was seen" in caplog.text


class ExpensiveClock:
    """Each explanation takes so long: the clock is read when one begins and when it ends."""

    def __init__(self, seconds: float) -> None:
        self.now, self._seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self._seconds
        return self.now


def decide_many(pods: int, clock: ExpensiveClock) -> EngineHarness:
    scene = EngineHarness(recorder=LoggingRecorder(clock))
    scene.upsert(node("a", cpu=100_000), *(pod(f"web-{number}", cpu=1) for number in range(pods)))
    scene.turn()
    return scene


def test_explanations_take_a_share_of_the_time(caplog: pytest.LogCaptureFixture) -> None:
    """In a large cluster one would stop the others from being scheduled; all are decided, and who is left out is named."""
    caplog.set_level(logging.DEBUG)
    clock = ExpensiveClock(0.4)
    scene = decide_many(6, clock)
    assert ["default/web-0", "default/web-1"] == explained_pods(caplog)
    left_out = ", ".join(f"default/web-{number}" for number in range(2, 6))
    reason = "explanations may take 10% of the time"
    assert f"not explained: number=4 reason={reason} pods={left_out}\n" in caplog.text
    assert 6 == caplog.text.count("waited: pod=default/web-")
    clock.now += 5.0
    scene.upsert(pod("later", cpu=1))
    scene.turn()
    assert "default/later" == explained_pods(caplog)[-1] and 1 == caplog.text.count("not explained")


def test_in_a_small_cluster_all_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    """As long as that is cheap."""
    caplog.set_level(logging.DEBUG)
    decide_many(6, ExpensiveClock(0.002))
    assert (6, 0) == (len(explained_pods(caplog)), caplog.text.count("not explained"))


def explained_pods(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [each.getMessage() for each in caplog.records]
    return [line.split("pod=")[1].split()[0] for line in lines if line.startswith("explained: ")]


def report(result: str, message: str = "") -> StageReport:
    figures = (("predicted_cpu_percent", 96.25), ("cpu_limit_percent", 80.0))
    return StageReport("PreBind", "Rescheduler", "default/web", "a", result, message, figures)


def test_stages_are_logged_with_their_figures_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings and rejections as warnings, with a counter; a mere prediction at level debug alone."""
    caplog.set_level(logging.INFO)
    recorder = LoggingRecorder()
    for each in (report("warned", "a is full"), report("rejected", "no"), report("noted")):
        recorder.stage_reported(each)
    figures = "predicted_cpu_percent=96.2 cpu_limit_percent=80.0"
    said = f"warning before binding: pod=default/web node=a plugin=Rescheduler stage=PreBind reason=a is full {figures}"
    assert [said] == [each.getMessage() for each in caplog.records if "warning" in each.getMessage()]
    assert 2 == len(caplog.records)
    fields = json.loads(JsonFormatter().format(caplog.records[0]))
    assert (96.25, "a is full") == (fields["predicted_cpu_percent"], fields["reason"])
    counted = [each.samples for each in recorder.families() if each.name == "trimtab_stage_results"]
    assert {("warned", 1.0), ("rejected", 1.0)} == {(each.labels["result"], each.value) for each in counted[0]}
    caplog.set_level(logging.DEBUG)
    recorder.stage_reported(report("noted"))
    assert (
        f"prediction before binding: pod=default/web node=a plugin=Rescheduler stage=PreBind {figures}" in caplog.text
    )


def test_at_level_info_nothing_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    """Explaining costs many times a decision."""
    caplog.set_level(logging.INFO)
    decide()
    assert "scored" not in caplog.text and "waited" not in caplog.text


def test_each_change_of_a_move_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """With the pod, both nodes, the state and the reason; and one for each grade."""
    caplog.set_level(logging.INFO)
    record = done(reason="cpu at 95%", state=MoveState.FAILED, message="its replacement came back to the node")
    recorder = LoggingRecorder()
    recorder.move_changed(record)
    recorder.move_graded(record, Grade(1800.0, 1.0, 0.25))
    changed, graded = (json.loads(JsonFormatter().format(each)) for each in caplog.records)
    assert ("default/web", "a", "b", "failed", "cpu at 95%", "its replacement came back to the node") == tuple(
        changed[name] for name in ("pod", "source", "target", "state", "reason", "why")
    )
    assert (0.25, True) == (graded["measured"], graded["helped"])
