"""What Koordinator's LoadAwareScheduling rejects, estimates and prefers, as fixed and with `strict`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import MIB, cluster, node, pod
from tests.core.plugins.measured_cluster import NOW, large, loaded, place_all, points, rejections, with_samples
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.framework.load_scoring.utilisation import RESOURCES
from trimtab.core.framework.profile import multipoint
from trimtab.core.model.duration import Duration
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import ContainerRequests, pod_requests
from trimtab.core.plugins.load_aware_scheduling import LoadAwareScheduling, scaled_request
from trimtab.core.plugins.load_aware_scheduling.arguments import Aggregated, ByResource
from trimtab.core.plugins.load_aware_scheduling.node_thresholds import ANNOTATION
from trimtab.core.plugins.load_aware_scheduling.prod_usage import is_prod, prod_usage
from trimtab.wire.quantity import nanos

WEB = pod("web", cpu="100m", memory="100Mi")
STRICT = LoadAwareScheduling(strict=True)
EXPIRED = "! node(s) nodeMetric expired"


def limited(request: str, limit: str) -> Pod:
    asks = ContainerRequests({"cpu": nanos(request)} if request else {}, {"cpu": nanos(limit)} if limit else {})
    return pod("limited", requests=pod_requests([asks]))


@pytest.mark.parametrize(
    ("request_", "limit", "expected"),
    [("1", "2", 1700), ("1", "", 850), ("", "2", 1700), ("1", "1", 850), ("", "", 250)],
)
def test_estimates(request_: str, limit: str, expected: float) -> None:
    """85 % of request or limit, whichever is more; 250m for pods that say nothing."""
    assert expected == scaled_request(limited(request_, limit), "cpu", 85)


def test_estimate_is_at_most_the_limit() -> None:
    """A factor above 100 stops at the limit."""
    assert 2000 == scaled_request(limited("1", "2"), "cpu", 150)


def test_estimate_of_memory() -> None:
    """70 % of the request, and 200 MiB for pods without one."""
    assert (70 * MIB, 200 * MIB) == tuple(scaled_request(each, "memory", 70) for each in (WEB, limited("1", "")))


def test_score_of_the_worked_example() -> None:
    """3.2 of 8 cores and 20 of 32 GiB used with the pod: (60 + 37) / 2."""
    held = cluster(node("a", cpu="8", memory="32Gi"))
    with_samples(held, {"a": 100 * (3.2 - 0.85) / 8}, {"a": 100 * (20 - 0.7) / 32})
    assert {"a": 48} == points(STRICT, pod("new", cpu="1", memory="1Gi"), held)


def test_the_dominant_resource() -> None:
    """The scarcer one counts once more, by its weight."""
    plugin = LoadAwareScheduling(dominant_resource_weight=2, strict=True)
    held = loaded(a=(50, 20))
    least = pod("none", requests=limited("1m", "").requests)
    assert {"a": (49 + 77 + 2 * 49) // 4} == points(plugin, least, held)


def test_thresholds() -> None:
    """65 % of CPU and 95 % of memory with the pod, rounded to whole percent, reject a node."""
    held = loaded(cool=(64, 90), cpu=(65.2, 10), memory=(10, 95))
    expected = {
        "cool": "",
        "cpu": "node(s) cpu usage exceed threshold",
        "memory": "node(s) memory usage exceed threshold",
    }
    assert expected == rejections(LoadAwareScheduling(), WEB, held) == rejections(STRICT, WEB, held)


def test_a_pod_that_is_too_much_by_itself() -> None:
    """Where the pod alone passes the threshold no eviction helps."""
    told = rejections(LoadAwareScheduling(), pod("big", cpu="9", memory="1Mi"), loaded(a=(1, 1)))
    assert {"a": "! node(s) cpu usage exceed threshold"} == told


def test_daemon_pods_are_not_held_back() -> None:
    """As in the original."""
    daemon = replace(WEB, owner=Owner("DaemonSet", "agent", "uid"))
    assert {"a": ""} == rejections(STRICT, daemon, loaded(a=(99, 99)))


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
    """A node without metrics passes, unless configured otherwise or `strict`."""
    held = with_samples(cluster(large("a"), large("b")), {"b": 20}, {"b": 20})
    assert {"a": expected, "b": ""} == rejections(plugin, WEB, held)


def test_a_node_that_lags_behind() -> None:
    """Measurements of a node that are 180 seconds older than those of others have expired."""
    held = with_samples(cluster(large("a"), large("b")), {"a": 20, "b": 20}, {"a": 20, "b": 20})
    for later, expected in ((180, ""), (181, EXPIRED)):
        with_samples(held, {"b": 20}, {"b": 20}, at=NOW + later)
        assert expected == rejections(STRICT, WEB, held)["a"]


def test_without_data_by_requests() -> None:
    """A node without data is scored by what its pods ask for."""
    held = cluster(large("a"), large("b"), pod("big", cpu="5", memory="5Gi", on="a"))
    told = points(LoadAwareScheduling(), WEB, with_samples(held, {"b": 20}, {"b": 20}))
    assert told["b"] > told["a"] > 0


def test_percentiles() -> None:
    """A short peak counts by its percentile: p95 sees it, the latest value and the median do not."""
    held = cluster(large("a"))
    for number in range(30):
        used = {"a": 90.0 if number in (12, 13, 14) else 20.0}
        with_samples(held, used, used, at=NOW + 10 * number)
    five = Duration(300)
    by = {kind: LoadAwareScheduling(aggregated=Aggregated(ByResource(65, 95), kind, five)) for kind in ("p50", "p95")}
    words = "node(s) cpu aggregated usage exceed threshold"
    assert {"p50": "", "p95": words} == {kind: rejections(each, WEB, held)["a"] for kind, each in by.items()}
    assert "" == rejections(LoadAwareScheduling(), WEB, held)["a"]
    scored = LoadAwareScheduling(aggregated=Aggregated(score_aggregation_type="p95", score_aggregated_duration=five))
    assert points(scored, WEB, held)["a"] < points(LoadAwareScheduling(), WEB, held)["a"]


def test_a_burst_spreads() -> None:
    """Equal pods on equal nodes differ by at most one while no sample shows any of them."""
    pods = [pod(f"p{n}", cpu="100m") for n in range(20)]
    gone = place_all(LoadAwareScheduling(), loaded(a=(20, 20), b=(20, 20), c=(20, 20)), pods)
    assert {6, 7} == {gone.count(name) for name in "abc"}


def test_nonsense_is_refused() -> None:
    """Figures out of range, unknown percentiles and odd spans are named, with what is allowed."""
    with pytest.raises(ValueError, match="cpu: 101 is not between 0 and 100"):
        ByResource(101, 5)
    with pytest.raises(ValueError, match="'p66' is not one of avg, p50, p90, p95, p99"):
        Aggregated(usage_aggregation_type="p66")
    with pytest.raises(ValueError, match="it must be 5m, 10m or 30m"):
        Aggregated(score_aggregated_duration=Duration(7))
    with pytest.raises(ValueError, match="need a usageAggregationType"):
        Aggregated(usage_thresholds=ByResource(65, 0))
    with pytest.raises(ValueError, match="all 0"):
        LoadAwareScheduling(resource_weights=ByResource())


def test_a_node_that_offers_nothing_where_nothing_is_asked_of_it() -> None:
    """A node without memory and a limit of 0 give no NaN: the other limit still applies, and is unresolvable."""
    held = cluster(large("a"), node("none", cpu="0", memory="0"))
    used = {"a": 500.0, "none": 500.0}
    held.ingest_samples(
        tuple(Reading("meter", each, tuple(used), tuple(used.values()), (NOW,) * 2) for each in RESOURCES), NOW
    )
    told = rejections(LoadAwareScheduling(usage_thresholds=ByResource(65, 0)), WEB, held)
    assert {"a": "", "none": "! node(s) cpu usage exceed threshold"} == told


CLASS, QOS = "koordinator.sh/priority-class", "koordinator.sh/qosClass"
BATCH = pod("batch", cpu="100m", memory="100Mi", labels={CLASS: "koord-batch"})
BY_PROD = LoadAwareScheduling(prod_usage_thresholds=ByResource(30, 0), score_according_prod_usage=True)


@pytest.mark.parametrize(
    ("labels", "priority", "cpu", "expected"),
    [
        ({CLASS: "koord-prod"}, 5500, "", True),
        ({CLASS: "koord-mid"}, 9500, "1", False),
        ({CLASS: "odd"}, 5500, "1", True),
        ({CLASS: "odd", QOS: "BE"}, 9500, "1", False),
        ({QOS: "BE"}, 9500, "", True),
        ({QOS: "LS"}, 7500, "1", False),
        ({QOS: "LSR"}, 0, "", True),
        ({QOS: "BE"}, 0, "1", False),
        ({QOS: "odd"}, 0, "1", True),
        ({}, 9000, "", True),
        ({}, 9999, "", True),
        ({}, 10_000, "", False),
        ({}, 3999, "1", False),
        ({}, 2_000_000_000, "1", True),
        ({}, 0, "", False),
    ],
)
def test_who_is_prod(labels: dict[str, str], priority: int, cpu: str, expected: bool) -> None:
    """The priority-class label, else the priority band, else the QoS label, else whether it has requests."""
    one = pod("one", labels=labels, priority=priority, cpu=cpu, on="a")
    held = with_samples(cluster(large("a"), one), {"a": 50}, {"a": 50})
    held.ingest_samples((Reading("meter", "cpu", (one.key,), (300.0,), (NOW,), subject=Subject.PODS),), NOW)
    assert expected == is_prod(one)
    assert (300.0 if expected else 0.0) == prod_usage(held.view, ALL_ROWS)[0, 0]


def colocated() -> Cluster:
    """Two nodes at 50 % of CPU: of `prod` by a prod pod, of `batch` by a batch pod; 5 % go to the node itself."""
    held = cluster(large("prod"), large("batch"), pod("front", cpu="1", on="prod"))
    held.upsert_pod(replace(BATCH, node="batch", phase="Running", name="crunch"))
    with_samples(held, {"prod": 50, "batch": 50}, {"prod": 5, "batch": 5})
    uses = {"default/front": 4500.0, "default/crunch": 4500.0}
    pods = Reading("meter", "cpu", tuple(uses), tuple(uses.values()), (NOW,) * 2, subject=Subject.PODS, window=60.0)
    nodes = Reading("meter", "cpu", ("prod", "batch"), (5000.0,) * 2, (NOW,) * 2)
    held.ingest_samples((nodes, pods), NOW + 100)
    return held


def test_prod_pods_are_judged_by_what_prod_pods_use() -> None:
    """A prod pod may go where batch pods use much, and there it has the better score; a batch pod sees no difference."""
    held, words = colocated(), "node(s) cpu usage exceed threshold"
    assert {"prod": words, "batch": ""} == rejections(BY_PROD, WEB, held)
    assert {"prod": "", "batch": ""} == rejections(BY_PROD, BATCH, held)
    told = points(BY_PROD, WEB, held)
    assert told["batch"] > told["prod"] + 15
    assert 1 == len(set(points(BY_PROD, BATCH, held).values()))


def test_prod_use_with_the_system() -> None:
    """Usage outside pods counts for prod pods if configured."""
    held = colocated()
    alone, with_system = (prod_usage(held.view, ALL_ROWS, each)[0].tolist() for each in (False, True))
    assert [4500.0, 0.0] == alone
    assert [5000.0, 500.0] == pytest.approx(with_system)


def test_prod_use_follows_pods_that_come_and_go() -> None:
    """Between scrapes sums are mended row by row, and are what a fresh sum gives."""
    held = colocated()
    prod_usage(held.view, ALL_ROWS)
    held.upsert_pod(replace(WEB, node="batch", phase="Running"))
    assert [4500.0, 100.0] == prod_usage(held.view, ALL_ROWS)[0].tolist()
    held.delete_pod(WEB.uid)
    assert [4500.0, 0.0] == prod_usage(held.view, ALL_ROWS)[0].tolist()


def test_prod_use_follows_labels_that_change() -> None:
    """A pod that runs may be made a batch pod: neither the sums nor cached results wait for the next scrape."""
    held, templates = colocated(), EvaluationCache()
    profile = multipoint("test", [(BY_PROD, 1)])
    assert [False, True] == (templates.evaluate(held.view, WEB, profile).codes[0] == 0).tolist()
    assert [4500.0, 0.0] == prod_usage(held.view, ALL_ROWS)[0].tolist()
    front = held.pods["uid-front"]
    held.upsert_pod(replace(front, labels={CLASS: "koord-batch"}, version=front.version + 1))
    assert [0.0, 0.0] == prod_usage(held.view, ALL_ROWS)[0].tolist()
    assert [True, True] == (templates.evaluate(held.view, WEB, profile).codes[0] == 0).tolist()


def test_prod_use_is_unknown_where_nobody_measures() -> None:
    """No data is not nothing: such a node passes, and is scored by requests."""
    held = cluster(large("a"), large("b"), pod("big", cpu="9", on="a"))
    with_samples(held, {"b": 20}, {"b": 20})
    assert {"a": "", "b": ""} == rejections(BY_PROD, WEB, held)
    assert 0 < points(BY_PROD, WEB, held)["a"] < points(BY_PROD, WEB, held)["b"]


STEADY = (
    '{"usageThresholds": {"cpu": 90}, "aggregatedUsage": {"usageThresholds": {"cpu": 30}, '
    '"usageAggregationType": "avg", "usageAggregatedDuration": "5m"}}'
)


def usage_thresholds(text: str) -> dict[str, str]:
    return {ANNOTATION: text}


def test_a_node_may_have_thresholds_of_its_own() -> None:
    """The annotation goes before the arguments, map by map; the other nodes go by the arguments."""
    nodes = {
        "plain": {},
        "strict": usage_thresholds('{"usageThresholds": {"cpu": 30}}'),
        "loose": usage_thresholds('{"usageThresholds": {"cpu": 90}}'),
        "prod": usage_thresholds('{"prodUsageThresholds": {"cpu": 10}}'),
        "steady": usage_thresholds(STEADY),
    }
    held = cluster(*(replace(large(name), annotations=own) for name, own in nodes.items()))
    with_samples(held, dict.fromkeys(nodes, 70.0), dict.fromkeys(nodes, 10.0))
    words = "node(s) cpu usage exceed threshold"
    expected = {"plain": words, "strict": words, "loose": "", "steady": "node(s) cpu aggregated usage exceed threshold"}
    assert {**expected, "prod": words} == rejections(LoadAwareScheduling(), BATCH, held)
    assert {**expected, "prod": ""} == rejections(LoadAwareScheduling(), WEB, held)
    held.upsert_node(
        replace(large("loose"), annotations=usage_thresholds('{"usageThresholds": {"cpu": 50}}'), version=2)
    )
    assert words == rejections(LoadAwareScheduling(), WEB, held)["loose"]
    held.upsert_node(replace(large("strict"), version=3))
    held.delete_node("plain", "", 3)
    told = rejections(LoadAwareScheduling(usage_thresholds=ByResource(80, 0)), WEB, held)
    assert {"strict": "", "loose": words, "prod": "", "steady": expected["steady"]} == told


def test_a_percentile_without_a_span_is_of_the_longest() -> None:
    """As in Koordinator: half an hour, and not five minutes."""
    held = cluster(large("a"))
    for number in range(60):
        used = {"a": 90.0 if number < 40 else 20.0}
        with_samples(held, used, used, at=NOW + 20 * number)
    plugin = LoadAwareScheduling(aggregated=Aggregated(ByResource(65, 95), "p50"))
    assert "node(s) cpu aggregated usage exceed threshold" == rejections(plugin, BATCH, held)["a"].split(",")[0]


def test_the_original_gives_nodes_without_data_no_points() -> None:
    """Where they are let pass."""
    plugin = LoadAwareScheduling(strict=True, enable_schedule_when_node_metrics_expired=True)
    held = with_samples(cluster(large("a"), large("b")), {"b": 20}, {"b": 20})
    assert {"a": 0.0} == {name: each for name, each in points(plugin, WEB, held).items() if not each}
