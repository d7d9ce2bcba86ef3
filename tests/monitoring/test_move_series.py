"""Panels and alerts about moves ask for series that a rescheduler serves, with labels that these have.

The other dashboards are tried on a live cluster (tests/live/test_dashboards.py), which makes no moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from tests.core.rescheduling.move_records import STRATEGY, done, graded
from tests.monitoring.alert_cases import CASES
from tests.monitoring.promql import OF_MOVES, metrics_of, panel_expressions
from tests.serve.small_cluster import SmallCluster
from tests.serve.test_metrics import page_of
from tools.monitoring.rescheduling_alerts import RESCHEDULING
from trimtab.core.model.events import Tick
from trimtab.core.model.ledger import Grade, MoveState
from trimtab.core.model.plan import Move, Plan, Refusal
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.serve.metrics import PrometheusRecorder

TARGET = {"job", "instance", "namespace"}
LABELS_OF = re.compile(r"([a-z_]+)(?:=~|!=|!~|=)\"|\bby \(([^)]*)\)")
Labels = dict[str, set[str]]


@pytest.fixture
async def served() -> Labels:
    """The labels of each metric of a rescheduler that has planned, moved, failed and graded."""
    recorder = PrometheusRecorder()
    move = Move("u", "default/web", "a", "b", STRATEGY, "cpu", 80.0, 32.0)
    recorder.planned(Plan(0.0, (move,), (Refusal("default/db", "minimum age", "too young"),)))
    for state in MoveState:
        recorder.move_changed(done(state=state))
    recorder.move_graded(done(), Grade(1800.0, 1.0, 0.5, -0.04, 0.02))
    cluster = SmallCluster(recorder, rescheduling=ReschedulingSettings(mode=Mode.AUTO))
    records = (*graded(True), done("last", state=MoveState.LEAVING))
    cluster.engine.handle(Tick(200.0))
    cluster.engine.controller(Rescheduling).execution.records.update({each.uid: each for each in records})
    found: Labels = {}
    for family in (await page_of(recorder, cluster)).families.values():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Those of the dashboard and the alerts."""
    yield from (each for each in panel_expressions() if each[0].startswith("rescheduling: "))
    yield from ((alert.name, alert.expr) for alert in RESCHEDULING if alert.name != "TrimtabReschedulerDown")


def test_every_metric_and_label_is_served(served: Labels) -> None:
    """A metric without a series, or a label that it does not have, would never show anything."""
    asked = dict(expressions())
    assert len(asked) > 30
    for where, expr in asked.items():
        names = {name for name in served if re.search(rf"\b{name}\b", expr)}
        assert metrics_of(expr) == {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}, where
        used = {each for one, several in LABELS_OF.findall(expr) for each in (one, *several.split(", ")) if each}
        assert used <= TARGET | set().union(*(served[name] for name in names)), where


def test_series_of_the_unit_tests_are_real_ones(served: Labels) -> None:
    """An invented label would prove nothing."""
    tested = {name.partition("{")[::2] for case in CASES for name in case.series}
    of_moves = [(name, labels) for name, labels in tested if OF_MOVES.fullmatch(name)]
    assert of_moves
    for name, labels in of_moves:
        assert set(yaml.safe_load("{" + labels.replace("=", ": "))) <= served[name] | TARGET, name
