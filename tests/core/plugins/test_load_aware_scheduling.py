"""Proves what Koordinator's LoadAwareScheduling refuses, estimates and prefers, as fixed and as it was."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import MIB, cluster, node, pod
from tests.core.plugins.metered import NOW, large, loaded, metered, placed, points, refused
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.resources import ContainerAsk, pod_demand
from trimtab.core.model.sample import Reading
from trimtab.core.model.span import Span
from trimtab.core.placing.measured.usage import PAIR
from trimtab.core.plugins.load_aware_scheduling import Aggregated, ByResource, LoadAwareScheduling, scaled_demand
from trimtab.wire.quantity import nanos

WEB = pod("web", cpu="100m", memory="100Mi")
STRICT = LoadAwareScheduling(strict=True)
EXPIRED = "! node(s) nodeMetric expired"


def limited(request: str, limit: str) -> Pod:
    asks = ContainerAsk({"cpu": nanos(request)} if request else {}, {"cpu": nanos(limit)} if limit else {})
    return pod("limited", demand=pod_demand([asks]))


@pytest.mark.parametrize(
    ("request_", "limit", "expected"),
    [("1", "2", 1700), ("1", "", 850), ("", "2", 1700), ("1", "1", 850), ("", "", 250)],
)
def test_estimates(request_: str, limit: str, expected: float) -> None:
    """85 % of request or limit, whichever is more; 250m for pods that say nothing."""
    assert expected == scaled_demand(limited(request_, limit), "cpu", 85)


def test_estimate_is_at_most_the_limit() -> None:
    """A factor above 100 stops at the limit."""
    assert 2000 == scaled_demand(limited("1", "2"), "cpu", 150)


def test_estimate_of_memory() -> None:
    """70 % of what is asked for, and 200 MiB for pods that say nothing."""
    assert (70 * MIB, 200 * MIB) == tuple(scaled_demand(each, "memory", 70) for each in (WEB, limited("1", "")))


def test_score_of_the_worked_example() -> None:
    """3.2 of 8 cores and 20 of 32 GiB used with the pod: (60 + 37) / 2."""
    held = cluster(node("a", cpu="8", memory="32Gi"))
    metered(held, {"a": 100 * (3.2 - 0.85) / 8}, {"a": 100 * (20 - 0.7) / 32})
    assert {"a": 48} == points(STRICT, pod("new", cpu="1", memory="1Gi"), held)


def test_the_dominant_resource() -> None:
    """The scarcer one counts once more, by its weight."""
    plugin = LoadAwareScheduling(dominant_resource_weight=2, strict=True)
    held = loaded(a=(50, 20))
    least = pod("none", demand=limited("1m", "").demand)
    assert {"a": (49 + 77 + 2 * 49) // 4} == points(plugin, least, held)


def test_thresholds() -> None:
    """65 % of CPU and 95 % of memory with the pod, rounded to whole percent, refuse a node."""
    held = loaded(cool=(64, 90), cpu=(65.2, 10), memory=(10, 95))
    expected = {
        "cool": "",
        "cpu": "node(s) cpu usage exceed threshold",
        "memory": "node(s) memory usage exceed threshold",
    }
    assert expected == refused(LoadAwareScheduling(), WEB, held) == refused(STRICT, WEB, held)


def test_a_pod_that_is_too_much_by_itself() -> None:
    """Where the pod alone passes the threshold no eviction helps."""
    told = refused(LoadAwareScheduling(), pod("big", cpu="9", memory="1Mi"), loaded(a=(1, 1)))
    assert {"a": "! node(s) cpu usage exceed threshold"} == told


def test_daemon_pods_are_not_held_back() -> None:
    """As in the original."""
    daemon = replace(WEB, owner=Owner("DaemonSet", "agent", "uid"))
    assert {"a": ""} == refused(STRICT, daemon, loaded(a=(99, 99)))


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (LoadAwareScheduling(), ""),
        (LoadAwareScheduling(enable_schedule_when_node_metrics_expired=False), EXPIRED),
        (LoadAwareScheduling(enable_schedule_when_node_metrics_expired=False, filter_expired_node_metrics=False), ""),
        (STRICT, EXPIRED),
        (LoadAwareScheduling(enable_schedule_when_node_metrics_expired=True, strict=True), ""),
    ],
)
def test_an_outage(plugin: LoadAwareScheduling, expected: str) -> None:
    """A node without data passes, unless that was asked for or the original is."""
    held = metered(cluster(large("a"), large("b")), {"b": 20}, {"b": 20})
    assert {"a": expected, "b": ""} == refused(plugin, WEB, held)


def test_a_node_that_lags_behind() -> None:
    """Measurements of a node that are 180 seconds older than those of others have expired."""
    held = metered(cluster(large("a"), large("b")), {"a": 20, "b": 20}, {"a": 20, "b": 20})
    for later, expected in ((180, ""), (181, EXPIRED)):
        metered(held, {"b": 20}, {"b": 20}, at=NOW + later)
        assert expected == refused(STRICT, WEB, held)["a"]


def test_without_data_by_requests() -> None:
    """A node without data is scored by what its pods ask for."""
    held = cluster(large("a"), large("b"), pod("big", cpu="5", memory="5Gi", on="a"))
    told = points(LoadAwareScheduling(), WEB, metered(held, {"b": 20}, {"b": 20}))
    assert told["b"] > told["a"] > 0


def test_percentiles() -> None:
    """A short peak counts by its percentile: p95 sees it, the latest value and the median do not."""
    held = cluster(large("a"))
    for number in range(30):
        used = {"a": 90.0 if number in (12, 13, 14) else 20.0}
        metered(held, used, used, at=NOW + 10 * number)
    five = Span(300)
    by = {kind: LoadAwareScheduling(aggregated=Aggregated(ByResource(65, 95), kind, five)) for kind in ("p50", "p95")}
    words = "node(s) cpu aggregated usage exceed threshold"
    assert {"p50": "", "p95": words} == {kind: refused(each, WEB, held)["a"] for kind, each in by.items()}
    assert "" == refused(LoadAwareScheduling(), WEB, held)["a"]
    scored = LoadAwareScheduling(aggregated=Aggregated(score_aggregation_type="p95", score_aggregated_duration=five))
    assert points(scored, WEB, held)["a"] < points(LoadAwareScheduling(), WEB, held)["a"]


def test_a_burst_spreads() -> None:
    """Equal pods on equal nodes differ by at most one while no sample shows any of them."""
    pods = [pod(f"p{n}", cpu="100m") for n in range(20)]
    gone = placed(LoadAwareScheduling(), loaded(a=(20, 20), b=(20, 20), c=(20, 20)), pods)
    assert {6, 7} == {gone.count(name) for name in "abc"}


def test_nonsense_is_refused() -> None:
    """Figures out of range, unknown percentiles and odd spans are named, with what is allowed."""
    with pytest.raises(ValueError, match="cpu is 101: it must be from 0 to 100"):
        ByResource(101, 5)
    with pytest.raises(ValueError, match="'p66' is not one of avg, p50, p90, p95, p99"):
        Aggregated(usage_aggregation_type="p66")
    with pytest.raises(ValueError, match="it must be 5m, 10m or 30m"):
        Aggregated(score_aggregated_duration=Span(7))
    with pytest.raises(ValueError, match="need a usageAggregationType"):
        Aggregated(usage_thresholds=ByResource(65, 0))
    with pytest.raises(ValueError, match="all 0"):
        LoadAwareScheduling(resource_weights=ByResource())


def test_a_node_that_offers_nothing_where_nothing_is_asked_of_it() -> None:
    """No limit of no memory is no number: the other limit is judged all the same, and past help."""
    held = cluster(large("a"), node("none", cpu="0", memory="0"))
    used = {"a": 500.0, "none": 500.0}
    held.read_load(tuple(Reading("meter", each, tuple(used), tuple(used.values()), (NOW,) * 2) for each in PAIR), NOW)
    told = refused(LoadAwareScheduling(usage_thresholds=ByResource(65, 0)), WEB, held)
    assert {"a": "", "none": "! node(s) cpu usage exceed threshold"} == told
