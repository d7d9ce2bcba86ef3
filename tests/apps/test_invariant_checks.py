"""Invariant checks in a live process: in slices, logged and counted, and never in the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from tests.core.engine_harness import EngineHarness, node, pod
from trimtab.apps import invariant_checks
from trimtab.apps.invariant_checks import InvariantChecks
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.engine import Engine
from trimtab.core.invariants import InvariantChecker, check_scheduling
from trimtab.core.model.resources import CPU
from trimtab.core.scheduling.controller import Scheduling


def busy_engine() -> EngineHarness:
    """Five nodes, a pod that runs, one that is being bound, and one that fits nowhere."""
    scene = EngineHarness()
    scene.upsert(*(node(name) for name in "abcde"), pod("runs", cpu=100, node="c"), pod("huge", cpu=99_000))
    scene.upsert(pod("web", cpu=100))
    scene.turn()
    return scene


def one_round(engine: Engine, nodes: int) -> list[str]:
    checker, found = InvariantChecker(engine), list[str]()
    checker.start_round()
    while not checker.finished:
        found += checker.check(nodes)
    return found


def count_twice(engine: Engine) -> None:
    engine.cluster.node_table.requested[CPU].add(2, 100)


def forget_pending(engine: Engine) -> None:
    engine.controller(Scheduling).queue.delete("uid-huge", 0.0)


def forget_placement(engine: Engine) -> None:
    engine.cluster.forget("uid-web")


def forget_pod(engine: Engine) -> None:
    del engine.cluster.pods["uid-runs"]


@pytest.mark.parametrize("nodes", [1, 2, 100])
def test_nothing_is_reported_where_nothing_is_wrong(nodes: int) -> None:
    """Whatever the size of a slice."""
    assert [] == one_round(busy_engine().engine, nodes)


@pytest.mark.parametrize("nodes", [1, 2, 100])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (count_twice, "requested cpu of c is 200 (200 in its cell), computed 100"),
        (forget_pending, "pod uid-huge is pending, and neither in the queue nor in a binding cycle"),
        (forget_placement, "pod uid-web is being bound to a, and counts nowhere"),
        (forget_pod, "pod uid-runs is placed on c but not known"),
    ],
)
def test_a_round_of_slices_finds_what_is_wrong(nodes: int, damage: Callable[[Engine], None], message: str) -> None:
    """Each in the slice that it belongs to."""
    engine = busy_engine().engine
    damage(engine)
    assert message in one_round(engine, nodes)


def test_slices_find_all_that_a_whole_check_finds() -> None:
    """The parts together are the whole."""
    engine = busy_engine().engine
    for damage in (count_twice, forget_placement, forget_pod):
        damage(engine)
    whole = [*check_invariants(engine.cluster), *check_scheduling(engine)]
    assert sorted(whole) == sorted(one_round(engine, 2))


def test_a_violation_is_logged_and_counted_and_nothing_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run checks again."""
    scene, counts = busy_engine(), list[int]()
    monkeypatch.setattr(invariant_checks.time, "perf_counter", lambda: 0.0)  # each run is a whole round
    checks = InvariantChecks(scene.engine, 60.0, counts.append)
    checks.check()
    assert ([], "") == (counts, caplog.text)
    count_twice(scene.engine)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            checks.check()
    assert "invariant violated: violation=requested cpu of c is 200" in caplog.text
    assert [1, 1, 1] == counts


def test_a_run_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the round comes in the next runs."""
    scene, runs = busy_engine(), 0
    checks = InvariantChecks(scene.engine, 60.0, lambda count: None)
    ticks = iter(range(10_000))
    monkeypatch.setattr(invariant_checks.time, "perf_counter", lambda: float(next(ticks)))
    checks._checker.start_round()
    while not checks._checker.finished:
        checks.check()
        runs += 1
        assert runs < 100
    assert runs > 5


def test_a_check_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback."""
    scene = busy_engine()
    scene.engine.cluster.node_table.taint_set[0] = 99
    checks = InvariantChecks(scene.engine, 0.0, lambda count: None)

    async def run_for_a_moment() -> None:
        task = asyncio.create_task(checks.run())
        await asyncio.sleep(0.05)
        assert not task.done()
        task.cancel()

    asyncio.run(run_for_a_moment())
    assert "invariant check failed" in caplog.text
