"""Grades of moves: relief and utilisation since the move, against what was promised; no grade on missing data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.core.engine_harness import OURS
from tests.core.load.builders import cluster_of, ingest, pod_reading, reading, running_pod
from tests.core.rescheduling.move_records import done
from tests.core.rescheduling.test_planner import measured, plan
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.ledger import Grade, MoveRecord, MoveState
from trimtab.core.model.resources import CPU
from trimtab.core.rescheduling import grading
from trimtab.core.rescheduling.grading import AT_ONCE, grade_moves
from trimtab.core.rescheduling.objective import penalties
from trimtab.core.rescheduling.settings import ReschedulingSettings

ENDED = 3000.0
HALF_AN_HOUR = ENDED + 1800.0
ONE = np.ones(1, np.float32)
SETTINGS = ReschedulingSettings(limits={CPU: 0.8})
Placed = tuple[str, str, float]  # name, node, and cores in use


def seen(*placed: Placed, until: float = HALF_AN_HOUR, nodes: tuple[str, ...] = ("a", "b", "c")) -> Cluster:
    """Steady pods on nodes of 4 cores, measured every five minutes from the end of the moves on."""
    cluster = cluster_of(*nodes)
    cluster.load_store.keep_snapshots(True)
    for name, on, _ in placed:
        pod = running_pod(name, on, cpu="100m", owner=f"owner-of-{name}", started=0.0)
        cluster.upsert_pod(replace(pod, uid=name, ready=True, scheduler_name=OURS))
    at = ENDED
    while at <= until:
        sums = {node: sum(used * 1000 for _, on, used in placed if on == node) for node in nodes}
        ingest(cluster, reading(sums, at), pod_reading({name: used * 1000 for name, _, used in placed}, at))
        at += 300.0
    return cluster


def grades(cluster: Cluster, *records: MoveRecord, now: float = HALF_AN_HOUR) -> dict[str, Grade]:
    return {record.pod: grade for record, grade in grade_moves(cluster, SETTINGS, records, now)}


def moved(name: str = "web", **fields: Any) -> MoveRecord:
    return done(name, **{"ended": ENDED, **fields})


HELPED = (("web-2", "b", 0.8), ("rest", "a", 2.8))


def test_a_move_that_helped() -> None:
    """Without it the source would be at 90 %, and the penalty of both nodes higher. The promise of 70 % was kept, and the
    target is 10 points below the promised 30 %."""
    grade = grades(seen(*HELPED), moved())["web"]
    assert grade.helped and 1800.0 == grade.after and 1.0 == grade.promised
    stayed, left = (penalties(np.array([shares], np.float32).T, ONE).sum() for shares in ((0.9, 0.0), (0.7, 0.2)))
    assert grade.measured == pytest.approx(stayed - left, abs=1e-4)
    assert (grade.source_error, grade.target_error) == (pytest.approx(0.0, abs=1e-4), pytest.approx(-0.1, abs=1e-4))


def test_a_move_that_made_it_worse() -> None:
    """The target is hot with the replacement, and the source was not."""
    grade = grades(seen(("web-2", "b", 0.8), ("other", "b", 2.8), ("rest", "a", 0.4)), moved())["web"]
    assert not grade.helped and grade.measured < -1


def test_each_of_two_needed_moves_is_worth_something() -> None:
    """The first is judged with the second not made, as in the plan: the source would be at 110 %, and not at 80 %."""
    cluster = seen(("one-2", "b", 0.8), ("two-2", "c", 0.8), ("rest", "a", 2.4))
    found = grades(cluster, moved("one"), moved("two", target="c", node="c"))
    assert found["one"].measured > found["two"].measured > 0
    alone = grades(cluster, moved("one"))
    assert found["one"].measured > alone["one"].measured
    assert found["one"].source_error == pytest.approx(0.8 - 0.7, abs=1e-4)


@pytest.mark.parametrize(
    ("record", "placed"),
    [
        (moved(replacement="gone"), HELPED),
        (moved(node="c"), HELPED),
        (moved(source="removed"), HELPED),
        (moved(state=MoveState.FAILED), HELPED),
        (moved(state=MoveState.PLACED), HELPED),
        (moved(relief=None), HELPED),
        (moved(source="b"), HELPED),
    ],
)
def test_no_grade(record: MoveRecord, placed: tuple[Placed, ...]) -> None:
    """The replacement is gone or elsewhere, a node is gone, or the move was not done, came back or promised nothing."""
    assert {} == grades(seen(*placed), record)


def test_no_grade_without_trusted_samples() -> None:
    """Neither of nodes whose samples are stale, nor of a replacement that was not measured since the move."""
    cluster = seen(*HELPED)
    cluster.load_store.advance(HALF_AN_HOUR + 600.0)
    assert {} == grades(cluster, moved(), now=HALF_AN_HOUR + 600.0)
    cluster = seen(HELPED[1])
    pod = running_pod("web-2", "b", cpu="100m", owner="owner-of-web", started=ENDED)
    cluster.upsert_pod(replace(pod, uid="web-2", ready=True))
    assert {} == grades(cluster, moved())


@pytest.mark.parametrize(
    ("age", "given", "is_due"),
    [
        (1799.0, (), False),
        (1800.0, (), True),
        (2700.0, (), True),
        (2701.0, (), False),
        (2000.0, (1900.0,), False),
        (6 * 3600.0, (), True),
        (6 * 3600.0, (1900.0,), True),
        (6 * 3600.0 + 60.0, (1900.0, 6 * 3600.0), False),
        (10 * 3600.0, (), False),
    ],
)
def test_when_a_grade_is_due(age: float, given: tuple[float, ...], is_due: bool) -> None:
    """Half an hour and six hours after the move, each once; not much later, if it was not possible then."""
    record = moved(grades=tuple(Grade(after, 1.0, 1.0) for after in given))
    cluster = seen(*HELPED, until=ENDED + max(age, 300.0))
    assert is_due == bool(grades(cluster, record, now=ENDED + age))


def test_hours_later_the_hours_between_count() -> None:
    """The replacement used nothing but in the last half hour: by the hours before, the move was not worth its promise."""
    cluster = seen(*HELPED, until=ENDED)
    for step in range(1, 73):
        at, used = ENDED + step * 300.0, 800.0 if step > 66 else 0.0
        ingest(
            cluster, reading({"a": 2800.0, "b": used, "c": 0.0}, at), pod_reading({"web-2": used, "rest": 2800.0}, at)
        )
    late, now = moved(), ENDED + 6 * 3600.0
    assert 0 < grades(cluster, late, now=now)["web"].measured < 0.3
    assert grades(seen(*HELPED, until=now), late, now=now)["web"].measured > 1.3


def test_plans_promise() -> None:
    """Utilisation of source and target after the move, and the gain by snapshot: what a steady load keeps."""
    (move,) = plan(measured(("large", "a", 2.8), ("middle", "a", 0.9), ("x", "b", 1.5), ("y", "c", 0.8))).moves
    assert move.promised == (pytest.approx(0.7), pytest.approx(0.425))
    assert move.relief is not None and 0 < move.relief < move.gain


def test_moves_of_which_too_little_is_known_delay_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass tries a few, whether they can be graded or not, and later ones begin with others."""
    tried: list[str] = []

    def grade_move(cluster: Cluster, settings: ReschedulingSettings, record: MoveRecord, *_: object) -> Grade | None:
        tried.append(record.pod)
        return Grade(1800.0, 1.0, 1.0) if record.pod == "web" else None

    monkeypatch.setattr(grading, "grade_move", grade_move)
    records = [*(moved(f"gone-{number}") for number in range(5 * AT_ONCE)), moved()]
    cluster, graded = seen(*HELPED), list[str]()
    for second in range(len(records)):
        tried.clear()
        graded += grades(cluster, *records, now=HALF_AN_HOUR + second)
        assert AT_ONCE == len(tried)
    assert {"web"} == {*graded}
