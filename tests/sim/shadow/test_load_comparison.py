"""How hot nodes would have been: measured usage moves with its pods, and what is not measured is left out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.build import cluster, node, pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.schedule_result import Placement, Unschedulable
from trimtab.sim.shadow.load_comparison import LoadComparison
from trimtab.sim.shadow.outcomes import Outcome, compare

NOW = 1_000_000.0
WEB = pod("web", cpu="1", on="a", uid="web")


def reading(values: dict[str, float], subject: Subject = Subject.NODES, at: float = NOW) -> Reading:
    return Reading(f"prom/{subject}", "cpu", tuple(values), tuple(values.values()), (at,) * len(values), subject)


def measured(nodes: dict[str, float], pods: dict[str, float]) -> Cluster:
    """Two nodes of four cores with these millicores, and a pod on a."""
    found = cluster(node("a"), node("b"), WEB)
    found.ingest_samples((reading(nodes), reading(pods, Subject.PODS)), NOW)
    return found


def moved(to: str) -> Outcome:
    verdict = Placement(to, 1.0, 2, 2) if to else Unschedulable(2, note="full", plugins=("x",))
    return compare(WEB, verdict, (), NOW)


def after(minutes: float, found: Cluster, *outcomes: Outcome) -> LoadComparison:
    load = LoadComparison()
    load.measure(found, outcomes, NOW)
    load.measure(found, outcomes, NOW + 60 * minutes)
    return load


def test_usage_moves_with_the_pod() -> None:
    """A node at 95 % for two minutes would have been at 70 %, and the other one warmer by as much."""
    load = after(2.0, measured({"a": 3800.0, "b": 400.0}, {"default/web": 1000.0}), moved("b"))
    cpu = load.resources["cpu"]
    assert {"80": 2.0, "90": 2.0, "100": 0.0} == cpu.real.hot_minutes
    assert {"80": 0.0, "90": 0.0, "100": 0.0} == cpu.shadow.hot_minutes
    assert (0.95, "a", 0.7, "a") == pytest.approx((cpu.real.peak, "a", cpu.shadow.peak, cpu.shadow.peak_node))
    assert (0.425, 0.175) == pytest.approx((cpu.spread(cpu.real), cpu.spread(cpu.shadow)))
    assert (2.0, 4.0, 0) == (cpu.minutes, cpu.node_minutes, load.unmeasured)
    assert load.measured and not load.resources["memory"].minutes


def test_a_pod_that_would_be_pending_uses_nothing() -> None:
    """Its node is cooler, and no other is warmer."""
    cpu = after(1.0, measured({"a": 3800.0, "b": 400.0}, {"default/web": 1000.0}), moved("")).resources["cpu"]
    assert (0.7, 0.3) == pytest.approx((cpu.shadow.peak, cpu.spread(cpu.shadow)))


@pytest.mark.parametrize(
    ("pods", "to", "unmeasured"),
    [({}, "b", 1), ({"default/web": 1000.0}, "gone", 0), ({"default/web": 1000.0}, "a", 0)],
)
def test_what_is_not_known_moves_nothing(pods: dict[str, float], to: str, unmeasured: int) -> None:
    """A pod without a sample, which is counted, and one whose node no longer exists."""
    load = after(1.0, measured({"a": 3800.0, "b": 400.0}, pods), moved(to))
    assert load.resources["cpu"].real == load.resources["cpu"].shadow
    assert unmeasured == load.unmeasured


def test_a_node_without_a_sample_is_on_neither_side() -> None:
    """Its minutes are not node-minutes at 0 %."""
    cpu = after(1.0, measured({"a": 3800.0}, {"default/web": 1000.0}), moved("b")).resources["cpu"]
    assert (1.0, 0.0) == (cpu.node_minutes, cpu.spread(cpu.real))


def test_without_any_sample_nothing_is_measured() -> None:
    """There is no load to report, not a load of 0."""
    assert not after(1.0, cluster(node("a"), node("b"), WEB), moved("b")).measured
    assert not after(1.0, Cluster()).measured


def test_a_long_gap_was_not_watched() -> None:
    """Of a night in which the machine slept, five minutes count."""
    found: Any = measured({"a": 3800.0, "b": 400.0}, {})
    assert 5.0 == after(600.0, found).resources["cpu"].minutes
