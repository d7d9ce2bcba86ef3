"""A policy as the rival that runs it: its arguments, and which plugins it leaves out."""

from __future__ import annotations

from tests.config.descheduler.policies import (
    FILE,
    LOW_NODE_LOAD,
    LOW_NODE_UTILIZATION,
    koordinator,
    messages,
    policy,
    problems_of,
    with_field,
)
from trimtab.config.descheduler.rivals import in_one_round, read_rival
from trimtab.core.rescheduling.rivals.default_evictor import DefaultEvictor
from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import DeschedulerLowNodeUtilization
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import KoordinatorLowNodeLoad
from trimtab.core.rescheduling.rivals.thresholds import Thresholds


def test_low_node_utilization() -> None:
    """Arguments of the plugin, of its evictor and of the whole; what is not set is the descheduler's default."""
    top = "maxNoOfPodsToEvictPerNode: 3\nmaxNoOfPodsToEvictTotal: 9\nmetricsProviders: [{source: KubernetesMetrics}]\n"
    args = with_field(
        LOW_NODE_UTILIZATION, "metricsUtilization: {source: KubernetesMetrics}, evictionLimits: {node: 2}"
    )
    evictor = "{nodeFit: true, minReplicas: 2, podProtections: {defaultDisabled: [PodsWithLocalStorage]}}"
    found = read_rival(policy(top, DefaultEvictor=evictor, LowNodeUtilization=args), FILE).settings
    expected = DeschedulerLowNodeUtilization(
        *(Thresholds(20, 20), Thresholds(50, 60)),
        metrics_source="KubernetesMetrics",
        eviction_limit_per_node=2,
        node_fit=True,
        evictor=DefaultEvictor(evict_local_storage_pods=True, min_replicas=2, max_per_node=3, max_total=9),
    )
    assert ((expected,), 300.0) == (found.strategies, found.interval)


def test_one_metric_of_prometheus() -> None:
    """It has one threshold, which is compared with CPU here, and says so."""
    args = (
        "{thresholds: {MetricResource: 20}, targetThresholds: {MetricResource: 70}, "
        "metricsUtilization: {source: Prometheus, prometheus: {query: up}}}"
    )
    found = read_rival(policy(LowNodeUtilization=args), FILE)
    (rival,) = found.settings.strategies
    assert isinstance(rival, DeschedulerLowNodeUtilization)
    assert (Thresholds(cpu=20), Thresholds(cpu=70), "Prometheus") == (
        *(rival.thresholds, rival.target_thresholds),
        rival.metrics_source,
    )
    assert any("the query is not run" in each for each in messages(found))


def test_resources_that_are_not_compared() -> None:
    """Each is named, in both mappings."""
    args = "{thresholds: {cpu: 20, nvidia.com/gpu: 3}, targetThresholds: {cpu: 50, nvidia.com/gpu: 3}}"
    found = [each.path.rpartition("args.")[2] for each in read_rival(policy(LowNodeUtilization=args), FILE).notes]
    assert ["thresholds.nvidia.com/gpu", "targetThresholds.nvidia.com/gpu"] == found


def test_koordinator() -> None:
    """With what its migration controller allows; a plan, which is one round, does not wait for more of them."""
    migration = "{maxMigratingPerNode: 1, maxMigratingPerNamespace: 4, namespaces: {include: [web]}}"
    content = koordinator("deschedulingInterval: 5s\n", MigrationController=migration, LowNodeLoad=LOW_NODE_LOAD)
    found = read_rival(content, FILE)
    expected = KoordinatorLowNodeLoad(
        *(Thresholds(20, 30), Thresholds(50, 60)),
        max_migrating_per_node=1,
        evictor=DefaultEvictor(included_namespaces=("web",), max_per_namespace=4),
    )
    assert ((expected,), 10.0) == (found.settings.strategies, found.settings.interval)
    assert any("10s counts instead" in each for each in messages(found))
    (rival,) = in_one_round(found.settings).strategies
    assert isinstance(rival, KoordinatorLowNodeLoad) and 1 == rival.consecutive_abnormalities


def test_other_plugins() -> None:
    """Only one is reproduced: the others are named, and a policy without that one is refused."""
    found = read_rival(policy(LowNodeUtilization=LOW_NODE_UTILIZATION, RemoveDuplicates="{}"), FILE)
    assert any("RemoveDuplicates is not run, because only LowNodeUtilization" in each for each in messages(found))
    (problem,) = problems_of(policy(RemoveDuplicates="{}"), as_rival=True)
    assert "policy.yaml:4:1: profiles: no profile enables LowNodeUtilization" in problem
