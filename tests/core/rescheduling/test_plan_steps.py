"""A plan is made in short steps: whatever their size, it is the same plan, and nothing long is computed within one."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pytest

from tests.core.engine_harness import OURS
from tests.core.load.builders import ingest, pod_reading, reading
from tests.core.rescheduling.test_planner import PROFILE, measured
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load import snapshots
from trimtab.core.model.resources import CPU
from trimtab.core.model.steps import finish
from trimtab.core.rescheduling import objective
from trimtab.core.rescheduling.guards import GuardContext, context
from trimtab.core.rescheduling.objective import NodeLoad
from trimtab.core.rescheduling.planner import Planner
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.rescheduling.strategies.registry import STRATEGIES

PLACED = (
    *(("large", "a", 2.8), ("middle", "a", 0.9), ("x", "b", 1.5), ("y", "c", 0.8)),
    *((f"small-{number}", "b", 0.01) for number in range(6)),
)


def busy(**owner: str) -> Cluster:
    """Most pods miss the newest sample: their siblings fill the gap, or their own mean if they have none."""
    cluster = measured(*PLACED, **owner)
    newest = pod_reading({"small-0": 11.0, "small-3": 14.0, "large": 2850.0}, 3700.0)
    ingest(cluster, reading({"a": 3750.0, "b": 1560.0, "c": 800.0}, 3700.0), newest)
    return cluster


def planner(cluster: Cluster, *strategies: str) -> Planner:
    chosen = tuple(STRATEGIES[name]() for name in strategies or ("ResourceOptimization",))
    settings = ReschedulingSettings(
        strategies=chosen, limits={CPU: 0.8}, allow_last_replica=True, required_gain=16.0, min_pod_age=0.0
    )
    return Planner(GuardContext(cluster, settings, 3700.0), {OURS: PROFILE}.get)


def small_steps(patch: pytest.MonkeyPatch) -> None:
    for name in ("CELLS_AT_ONCE", "DEPARTED_AT_ONCE"):
        patch.setattr(snapshots, name, 1)
    patch.setattr(context, "PODS_AT_ONCE", 1)


def test_small_steps_make_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """And there are more of them."""
    whole = planner(busy())
    few = len([*whole.steps()])
    small_steps(monkeypatch)
    stepwise = planner(busy())
    assert len([*stepwise.steps()]) > few + len(PLACED)
    assert whole.plan is not None and stepwise.plan is not None
    (move,), (same,) = whole.plan.moves, stepwise.plan.moves
    assert (move.pod, move.target) == (same.pod, same.target)
    assert move.gain == pytest.approx(same.gain)


def test_small_steps_fill_the_same_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with the snapshots of pods that left."""
    cluster = busy(owner="web")
    for uid in ("uid-small-1", "uid-small-4"):
        cluster.delete_pod(uid)
    whole, stepwise = NodeLoad(cluster, {CPU: 0.8}), NodeLoad(cluster, {CPU: 0.8})
    expected = whole.usage, whole.penalty
    small_steps(monkeypatch)
    finish(stepwise.prepare())
    np.testing.assert_allclose(stepwise.usage, expected[0], rtol=1e-6)
    np.testing.assert_allclose(stepwise.penalty, expected[1], rtol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_long_is_computed_at_once(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when a strategy reads the load, nor when a guard asks for a workload."""

    def at_once(steps: object) -> NoReturn:
        raise AssertionError(f"{steps} at once")

    monkeypatch.setattr(objective, "finish", at_once)
    monkeypatch.setattr(context, "finish", at_once)
    made = planner(busy(), strategy, "ResourceOptimization")
    for _ in made.steps():
        pass
    assert made.plan is not None and made.plan.moves


def test_what_left_is_the_same_for_a_fork() -> None:
    """Snapshots of a pod that left are not changed by samples that come later."""
    cluster = busy()
    cluster.delete_pod("uid-large")
    fork = cluster.fork()
    before = next(iter(fork.load_store.snapshots[CPU].departed.values()))
    kept = [each.copy() for each in before]
    ingest(cluster, pod_reading({"middle": 900.0}, 3700.0 + 40 * 300.0))
    for each, was in zip(before, kept, strict=True):
        np.testing.assert_array_equal(each, was)
