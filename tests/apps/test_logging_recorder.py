"""What the recorder of a live process logs, at level debug only."""

from __future__ import annotations

import logging

import pytest

from tests.core.engine_harness import EngineHarness, node, pod
from trimtab.apps.logging_recorder import LoggingRecorder
from trimtab.config.registry import default_profile
from trimtab.core.scheduling.controller import Scheduling


def decide() -> None:
    scene = EngineHarness(recorder=LoggingRecorder())
    scene.engine.controller(Scheduling).evaluator.stock = default_profile("stock")
    scene.upsert(node("a"), node("b", cpu=100), pod("web", cpu=1000))
    scene.at = 1.5
    scene.turn()


def test_the_debug_log_explains_each_decision(caplog: pytest.LogCaptureFixture) -> None:
    """Scores raw and normalised with their weights, rejections, how long the pod waited, and the stock choice."""
    caplog.set_level(logging.DEBUG)
    decide()
    assert "explained: pod=default/web verdict=a: best of 1 of 2 nodes stock=a: best of 1 of 2 nodes" in caplog.text
    assert "scored: pod=default/web node=a total=" in caplog.text
    assert "TaintToleration raw 0 normalised 100 x 3 = 300" in caplog.text
    assert "rejected: pod=default/web node=b plugin=NodeResourcesFit reasons=Insufficient cpu" in caplog.text
    assert "waited: pod=default/web seconds=1.500 attempts=1 steps=1.500 s ago active: the pod was seen" in caplog.text


def test_at_level_info_nothing_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    """Explaining costs many times a decision."""
    caplog.set_level(logging.INFO)
    decide()
    assert "scored" not in caplog.text and "waited" not in caplog.text
