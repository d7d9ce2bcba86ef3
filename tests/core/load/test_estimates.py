"""Estimates of unmeasured pods: by siblings, by the cluster, by a default rule."""

from __future__ import annotations

import numpy as np
import pytest

from tests.build import MIB
from tests.core.load.builders import cluster_of, ingest, pod_reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.estimates import MAX_SAMPLES, RULES_BY_NAME, ClusterRatios, Estimator
from trimtab.core.load.settings import RULES, LoadSettings
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY


@pytest.mark.parametrize(
    ("rule", "resource", "request_", "limit", "amount"),
    [
        ("koordinator", CPU, 1000, 0, 850),
        ("koordinator", CPU, 1000, 2000, 1700),
        ("koordinator", MEMORY, 1000, 0, 700),
        ("koordinator", CPU, 0, 0, 250),
        ("koordinator", CPU, 0, 100, 85),
        ("koordinator", MEMORY, 0, 0, 200 * MIB),
        ("trimaran", CPU, 1000, 2000, 2000),
        ("trimaran", CPU, 1000, 0, 1500),
        ("trimaran", CPU, 0, 0, 1000),
        ("volcano", CPU, 1000, 4000, 840),
        ("volcano", CPU, 0, 0, 250),
        ("volcano", MEMORY, 0, 0, 200 * MIB),
        ("requests", CPU, 1000, 2000, 1000),
        ("requests", CPU, 0, 0, 100),
        ("requests", MEMORY, 0, 0, 200 * MIB),
    ],
)
def test_default_rules(rule: str, resource: str, request_: float, limit: float, amount: float) -> None:
    """Factors, caps and defaults without a request."""
    assert amount == pytest.approx(RULES_BY_NAME[rule](resource, request_, limit))


def test_every_rule_of_the_settings_exists() -> None:
    """Two are learned, the others are default rules."""
    assert set(RULES) == {"siblings", "cluster", *RULES_BY_NAME}


def estimate(cluster: Cluster, pod: Pod) -> tuple[float, float, str]:
    mean, deviation, rule = cluster.load.estimate(pod, CPU)
    return round(mean, 3), round(deviation, 3), rule


def test_siblings_come_before_the_cluster() -> None:
    """Their mean ratio of the limit, and both their own deviation and that between them."""
    cluster = cluster_of("a")
    for number in range(2):
        cluster.upsert_pod(running_pod(f"web-{number}", "a", limit="1", owner="web"))
    for step in range(20):
        ingest(cluster, pod_reading({"web-0": 100.0, "web-1": 300.0}, at=15.0 * step))
    mean, deviation, rule = estimate(cluster, running_pod("web-9", "", limit="2", owner="web"))
    assert (400.0, "siblings") == (mean, rule)
    assert 200.0 < deviation < 300.0
    assert "koordinator" == estimate(cluster, running_pod("other", "", owner="other"))[2]


def test_another_revision_is_no_sibling() -> None:
    """A new image may behave differently."""
    cluster = cluster_of("a")
    old, new = {"controller-revision-hash": "1"}, {"controller-revision-hash": "2"}
    cluster.upsert_pod(running_pod("db-0", "a", owner="db", labels=old))
    ingest(cluster, pod_reading({"db-0": 100.0}))
    assert "siblings" == estimate(cluster, running_pod("db-1", "", owner="db", labels=old))[2]
    assert "koordinator" == estimate(cluster, running_pod("db-1", "", owner="db", labels=new))[2]


def test_siblings_are_remembered_after_the_last_pod_is_removed() -> None:
    """When a workload is scaled to zero and back."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("web-0", "a", owner="web"))
    ingest(cluster, pod_reading({"web-0": 100.0}))
    cluster.delete_pod("uid-web-0")
    cluster.upsert_pod(running_pod("else", "a", owner="else"))
    ingest(cluster, pod_reading({"else": 400.0}, at=15.0))
    assert (100.0, "siblings") == estimate(cluster, running_pod("web-1", "", owner="web"))[::2]


def test_cluster_ratios_of_limits_and_requests() -> None:
    """From twenty first samples on: of the limit, else of the request, else absolute."""
    cluster = cluster_of("a", "b", "c", "d")
    kinds = {"limited": {"cpu": "100m", "limit": "1"}, "asking": {"cpu": "100m"}, "silent": {"cpu": ""}}
    uses = {}
    for number in range(20):
        for kind, asks in kinds.items():
            name = f"{kind}-{number}"
            cluster.upsert_pod(running_pod(name, "abcd"[number % 4], **asks))
            uses[name] = {"limited": 200.0, "asking": 50.0, "silent": 30.0}[kind] * (1.5 if number % 2 else 0.5)
    ingest(cluster, pod_reading(uses))
    assert (400.0, 200.0, "cluster") == estimate(cluster, running_pod("x", "", cpu="100m", limit="2"))
    assert (30.0, 15.0, "cluster") == estimate(cluster, running_pod("x", "", cpu=""))
    mean, _, rule = estimate(cluster, running_pod("x", "", cpu="1"))
    assert (1250.0, "cluster") == (mean, rule)  # of requests: half of them use 0.5, half 2.0 (they have limits)


def test_ratios_are_learned_once_half_of_the_window_has_passed() -> None:
    """A tenth of a window contains a tenth of the usage."""
    cluster = cluster_of("a")
    for number in range(20):
        cluster.upsert_pod(running_pod(f"web-{number}", "a", started=100.0))
    few = {f"web-{number}": 10.0 for number in range(20)}
    ingest(cluster, pod_reading(few, at=130.0, window=300.0))
    assert 0 == cluster.load_store.estimator.ratios[CPU].seen[1]
    ingest(cluster, pod_reading(dict.fromkeys(few, 50.0), at=250.0, window=300.0))
    assert (200.0, "cluster") == estimate(cluster, running_pod("x", "", cpu="1"))[::2]


def test_only_the_last_two_thousand_samples_count() -> None:
    """Older ones are dropped."""
    ratios = ClusterRatios()
    for share in (0.9, 0.1):
        used = np.full(MAX_SAMPLES + 500, share * 1000)
        ratios.learn(used, np.full(len(used), 1000.0), np.zeros(len(used)))
    assert (pytest.approx(0.1), pytest.approx(0.0)) == ratios.known[0]


@pytest.mark.parametrize(
    ("rules", "used_rule"), [(("requests",), "requests"), (("siblings",), "requests"), ((), "requests")]
)
def test_the_configured_order_of_rules(rules: tuple[str, ...], used_rule: str) -> None:
    """Without any rule that always applies, requests are used in the end."""
    cluster = cluster_of("a", settings=LoadSettings(estimates=rules))
    assert (500.0, 250.0, used_rule) == estimate(cluster, running_pod("x", ""))


def test_estimates_of_unsampled_pods_follow_their_siblings() -> None:
    """At the next reading, once a sibling has been measured."""
    cluster = cluster_of("a", "b")
    cluster.load_store.advance(0.0)
    cluster.upsert_pod(running_pod("web-0", "a", owner="web", started=0.0))
    cluster.upsert_pod(running_pod("web-1", "b", owner="web", started=0.0))
    assert [425.0, 425.0] == cluster.load.unsampled(CPU).tolist()
    ingest(cluster, pod_reading({"web-0": 100.0}, at=15.0))
    assert [100.0, 100.0] == cluster.load.unsampled(CPU).tolist()


def test_ids_of_unused_workloads_are_dropped() -> None:
    """The others get new ids and keep what was learned."""
    estimator = Estimator((CPU,))
    workloads = [estimator.workload_id(running_pod(f"p{number}", "a", owner=f"o{number}")) for number in range(6000)]
    estimator.siblings[CPU].learn(np.array(workloads), np.arange(6000.0), np.zeros(6000))
    left = estimator.compact_ids(np.array([5999, -1, 17]))
    assert 2 == len(estimator.workload_ids)
    assert [5999.0, 17.0] == estimator.siblings[CPU].mean[left[[0, 2]]].tolist()
    assert -1 == left[1]
    assert (
        17.0
        == estimator.estimate(
            ("siblings",), CPU, 1.0, 0.0, estimator.known_workload_id(running_pod("p", "", owner="o17"))
        )[0]
    )


def test_ids_of_unused_workloads_are_dropped_without_samples() -> None:
    """Every run of a Job is an owner of its own, and there may be no source at all."""
    cluster = cluster_of("a")
    for number in range(6000):
        run = running_pod(f"p{number}", "a", owner=f"job-{number}")
        cluster.upsert_pod(run)
        cluster.delete_pod(run.uid)
    assert 4500 > len(cluster.load_store.estimator.workload_ids)


def test_idle_siblings_do_not_give_an_estimate_of_zero() -> None:
    """A tenth of the request is the minimum: pods that count nothing cannot be spread."""
    cluster = cluster_of("a")
    cluster.load_store.advance(0.0)
    for name in ("web-0", "web-1"):
        cluster.upsert_pod(running_pod(name, "a", owner="web", started=0.0))
    ingest(cluster, pod_reading({"web-0": 0.0}, at=15.0))
    assert (50.0, "siblings") == estimate(cluster, running_pod("web-2", "", owner="web"))[::2]
    assert [50.0] == cluster.load_store.accounting[CPU].pods.estimate[[cluster.pod_table.slot["uid-web-1"]]].tolist()


def test_one_pod_with_a_tiny_request_does_not_dominate_the_cluster_ratio() -> None:
    """It uses two thousand times its request: uncapped, every new pod would seem to need more than any node has."""
    cluster = cluster_of("a")
    cluster.upsert_pod(running_pod("tiny", "a", cpu="1m"))
    for number in range(19):
        cluster.upsert_pod(running_pod(f"p{number}", "a", cpu="200m"))
    ingest(cluster, pod_reading({"tiny": 2000.0} | {f"p{number}": 100.0 for number in range(19)}))
    mean, _, rule = estimate(cluster, running_pod("x", "", cpu="1"))
    assert (pytest.approx((4.0 + 19 * 0.5) / 20 * 1000.0), "cluster") == (mean, rule)
