"""With `strict`, load policies behave as their origins do: with old, missing and late metrics, and in a burst."""

from __future__ import annotations

import pytest

from tests.build import cluster, pod
from tests.core.plugins.measured_cluster import NOW, large, loaded, place_all, points, rejections, with_samples
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import Score
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import pod_requests
from trimtab.core.plugins.load_aware_scheduling import LoadAwareScheduling
from trimtab.core.plugins.lowest_load import LowestLoad
from trimtab.core.plugins.real_usage import CpuRealUsage, MemRealUsage
from trimtab.core.plugins.rescheduler import Rescheduler
from trimtab.core.plugins.trimaran import MetricProvider
from trimtab.core.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from trimtab.core.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from trimtab.core.plugins.trimaran.target_load_packing import TargetLoadPacking
from trimtab.core.plugins.usage import Usage

PROMETHEUS = MetricProvider("Prometheus", "http://prometheus")
WEB = pod("web", cpu="100m", memory="100Mi")
HOUR = 3600.0


def swinging(*percents: float) -> Cluster:
    """Node a with these percentages of CPU and no memory, a sample every 15 seconds."""
    held = cluster(large("a"))
    for scrape, percent in enumerate(percents):
        with_samples(held, {"a": percent}, {"a": 0}, at=NOW + 15 * scrape)
    return held


@pytest.mark.parametrize(
    "plugin",
    [
        TargetLoadPacking(strict=True),
        TargetLoadPacking(metric_provider=PROMETHEUS, strict=True),
        LoadVariationRiskBalancing(strict=True),
        LoadVariationRiskBalancing(metric_provider=PROMETHEUS, strict=True),
        LowRiskOverCommitment(strict=True),
        CpuRealUsage(strict=True),
        MemRealUsage(strict=True),
    ],
)
def test_samples_count_for_ever(plugin: Score) -> None:
    """Trimaran and RealUsage keep the last response when their source stops, however long ago that was."""
    held = loaded(a=(30, 60), b=(60, 30))
    fresh = points(plugin, WEB, held)
    held.age_load(NOW + 5 * HOUR)
    assert fresh == points(plugin, WEB, held)


@pytest.mark.parametrize(
    "plugin", [TargetLoadPacking(), LoadVariationRiskBalancing(), CpuRealUsage(), Usage(), LowestLoad()]
)
def test_the_fixed_policies_forget_old_samples(plugin: Score) -> None:
    """Without `strict` they do not."""
    held = loaded(a=(30, 60), b=(60, 30))
    fresh = points(plugin, WEB, held)
    held.age_load(NOW + 5 * HOUR)
    assert fresh != points(plugin, WEB, held)


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (TargetLoadPacking(strict=True), 48),  # the latest 5 %
        (TargetLoadPacking(metric_provider=PROMETHEUS, strict=True), 85),  # the mean of 30 %
        (LoadVariationRiskBalancing(strict=True), 98),  # the latest 5 %, without a deviation
        (LoadVariationRiskBalancing(metric_provider=PROMETHEUS, strict=True), 71),  # 30 % and 28.9 points
    ],
)
def test_what_each_provider_reports(plugin: Score, expected: int) -> None:
    """metrics-server has the latest value alone, Prometheus mean and deviation over the window."""
    nothing = pod("nothing", requests=pod_requests([]))
    assert {"a": expected} == points(plugin, nothing, swinging(55, 5, 55, 5))


def test_volcano_takes_a_failed_query_for_an_idle_node() -> None:
    """A node without metrics passes with all points, and so do all of them."""
    held = cluster(large("a"), large("b"), pod("big", cpu="9", memory="9Gi", on="a"))
    with_samples(held, {"b": 20}, {"b": 20})
    assert {"a": 100, "b": 80} == points(Usage(strict=True), WEB, held)
    assert {"a": "", "b": ""} == rejections(Usage(strict=True), WEB, held)


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        (pod("p", cpu="1", memory="0"), 91.5),  # 10 % and 7 % of CPU
        (pod("p", cpu="10", memory="0"), 53),  # 10 % and 70 %: above 60 % a fifth more
        (pod("p"), 92.7734),  # 250m and 200Mi for a pod without requests
    ],
)
def test_volcano_adds_shadow_load_to_the_score(placed: Pod, expected: float) -> None:
    """Pods that no sample shows yet count with 70 % of their requests; in the filter they do not."""
    held = loaded(a=(10, 0))
    held.assume(placed, "a")
    assert {"a": expected} == points(Usage(strict=True), WEB, held)
    assert {"a": ""} == rejections(Usage(strict=True), WEB, held)


def koordinator_percent(held: Cluster) -> float:
    """How much CPU Koordinator takes node a to use."""
    cpu, _ = LoadAwareScheduling(strict=True)._reported_usage(held.view, slice(0, 1))
    return round(float(cpu[0]) / 100, 2)


def test_koordinator_reports_averages_of_five_minutes() -> None:
    """Older samples do not count, and the latest is one of many."""
    held = cluster(large("a"))
    for minute, percent in enumerate((90, 90, 10, 10, 10, 10, 20)):
        with_samples(held, {"a": percent}, {"a": 0}, at=NOW + 60 * minute)
    assert 12.0 == koordinator_percent(held)


def test_koordinator_estimates_what_is_not_reported() -> None:
    """85 % of the request of pods placed after the report, or less than a minute before; and they stay when they leave."""
    held = loaded(a=(10, 10))
    held.assume(pod("burst", cpu="2"), "a")
    assert 27.0 == koordinator_percent(held)
    with_samples(held, {"a": 15}, {"a": 10}, at=NOW + 30)
    assert 12.5 + 17.0 == koordinator_percent(held)
    with_samples(held, {"a": 15}, {"a": 10}, at=NOW + 90)
    assert 13.33 == koordinator_percent(held)
    held.forget("uid-burst")
    assert 13.33 == koordinator_percent(held)


def test_lowest_load_herds() -> None:
    """Nothing is known of pods that were just placed: a burst goes to one node."""
    held = loaded(a=(20, 20), b=(21, 20), c=(30, 20))
    assert ["a"] * 12 == place_all(LowestLoad(strict=True), held, [pod(f"p{number}", cpu="1") for number in range(12)])


def test_lowest_load_drops_nodes_without_metrics() -> None:
    """As long as another node has some; when none has, the first by name takes everything."""
    held = cluster(large("b"), large("a"), large("c"))
    pods = [pod(f"p{number}") for number in range(3)]
    assert ["a", "a", "a"] == place_all(LowestLoad(strict=True), held.fork(), pods)
    with_samples(held, {"c": 90}, {"c": 90})
    scores = points(LowestLoad(strict=True), WEB, held)
    assert scores["c"] > scores["a"] == scores["b"] == 0


def test_rescheduler_measures_nothing() -> None:
    """Its utilisation is the sum of requests, whatever is measured."""
    held = loaded(a=(95, 95), b=(1, 1))
    held.assume(pod("big", cpu="5", memory="5Gi"), "b")
    scores = points(Rescheduler(strict=True), WEB, held)
    assert scores["a"] > scores["b"]
