"""Settings with the intent of a policy: what each plugin becomes, and that they parse as what they are."""

from __future__ import annotations

import pytest

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
from trimtab.config.descheduler.equivalent import convert_policy
from trimtab.config.descheduler.rivals import read_rival
from trimtab.config.dump import to_yaml
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.document import dump_section
from trimtab.core.model.selectors import LabelSelector, Requirement
from trimtab.core.rescheduling.settings import Mode
from trimtab.core.rescheduling.strategies.consolidate import Consolidate
from trimtab.core.rescheduling.strategies.hot_spot import HotSpot
from trimtab.core.rescheduling.strategies.load_balancing import LoadBalancing
from trimtab.core.rescheduling.strategies.remove_duplicates import RemoveDuplicates
from trimtab.core.rescheduling.strategies.remove_pods_violating_node_taints import RemovePodsViolatingNodeTaints
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

SHARED = {"LowNodeUtilization": LOW_NODE_UTILIZATION}
DEVIATION = "{useDeviationThresholds: true, thresholds: {cpu: 10}, targetThresholds: {cpu: 15}}"


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        ("LowNodeUtilization", LOW_NODE_UTILIZATION, ResourceOptimization()),
        ("LowNodeUtilization", DEVIATION, LoadBalancing(15.0, "deviation")),
        ("HighNodeUtilization", "{thresholds: {cpu: 20, memory: 18}}", Consolidate(20.0)),  # of 90% of memory
        ("RemoveDuplicates", "{excludeOwnerKinds: [Job]}", RemoveDuplicates(("Job",))),
        ("RemovePodsViolatingNodeTaints", "{excludedTaints: [a, b=c]}", RemovePodsViolatingNodeTaints(("a", "b"))),
        ("RemovePodsViolatingNodeTaints", "{}", RemovePodsViolatingNodeTaints(())),  # cordoned nodes, too
    ],
)
def test_strategies(plugin: str, args: str, expected: object) -> None:
    """One for each plugin; nothing is moved by a policy alone."""
    found = convert_policy(policy(**{plugin: args}), FILE).settings
    assert (Mode.OBSERVE, (expected,)) == (found.mode, found.strategies)


@pytest.mark.parametrize(
    "name",
    [
        "RemovePodsViolatingNodeAffinity",
        "RemovePodsViolatingInterPodAntiAffinity",
        "RemovePodsViolatingTopologySpreadConstraint",
    ],
)
def test_strategies_of_the_same_name(name: str) -> None:
    """Beside others, in the order of this list."""
    args = "{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}" if "NodeAffinity" in name else "{}"
    found = convert_policy(policy(**SHARED, **{name: args}), FILE).settings
    assert ["ResourceOptimization", name] == [each.name for each in found.strategies]


def test_limits_and_the_evictor() -> None:
    """Thresholds become limits; the evictor's permissions and exclusions become those of the section."""
    evictor = (
        "{evictLocalStoragePods: true, priorityThreshold: {name: system-cluster-critical}, minPodAge: 1h, "
        "labelSelector: {matchExpressions: [{key: tier, operator: Exists}]}}"
    )
    args = with_field(LOW_NODE_UTILIZATION, "evictableNamespaces: {exclude: [db]}")
    found = convert_policy(
        policy("maxNoOfPodsToEvictTotal: 7\n", DefaultEvictor=evictor, LowNodeUtilization=args), FILE
    ).settings
    assert ({"cpu": 0.5, "memory": 0.6}, 7, 3600.0) == (found.limits, found.max_moves, found.min_pod_age)
    assert (True, 2_000_000_000) == (found.allow_local_data, found.priority_threshold)
    assert ("kube-system", "kube-public", "kube-node-lease", "db") == found.excluded_namespaces
    assert LabelSelector((), (Requirement("tier", "DoesNotExist"),)) == found.excluded_pod_selector


def test_a_selector_without_an_opposite() -> None:
    """Of two requirements there is none: a note says that more pods are planned for."""
    evictor = "{labelSelector: {matchLabels: {a: b, c: d}}}"
    found = convert_policy(policy(DefaultEvictor=evictor, **SHARED), FILE)
    assert found.settings.excluded_pod_selector is None
    assert any("several requirements have no opposite" in each for each in messages(found))


def test_namespaces_of_one_strategy() -> None:
    """What all strategies exclude is excluded; of the rest a note says that it is not."""
    plugins = {
        "LowNodeUtilization": with_field(
            LOW_NODE_UTILIZATION, "evictableNamespaces: {exclude: [db, web, kube-system]}"
        ),
        "RemoveDuplicates": "{namespaces: {exclude: [db]}}",
    }
    found = convert_policy(policy(**plugins), FILE)
    assert "db" in found.settings.excluded_namespaces and "web" not in found.settings.excluded_namespaces
    assert any("have no such exclusion of web" in each for each in messages(found))


def test_sources() -> None:
    """Those that the policy names; a token is to be mounted."""
    top = (
        "metricsProviders:\n- {source: KubernetesMetrics}\n"
        "- {source: Prometheus, prometheus: {url: 'https://prom:9090', authToken: {secretReference: {name: a}}}}\n"
    )
    found = convert_policy(policy(top, **SHARED), FILE)
    assert ["metrics-server", "prometheus"] == [each.name for each in found.sources]
    assert any("mount the Secret, and name it as bearerTokenFile" in each for each in messages(found))
    assert any("the policy names no source" in each for each in messages(convert_policy(policy(**SHARED), FILE)))
    bad = policy(top.replace("https://prom:9090", "ftp://prom"), **SHARED)
    assert any("metricsProviders[1].prometheus.url" in each for each in problems_of(bad))


def test_koordinator() -> None:
    """LowNodeLoad waits for a node to stay hot, as HotSpot does; limiters become the cool-down."""
    migration = (
        "{maxUnavailablePerWorkload: 20%, objectLimiters: {workload: {duration: 2h}}, skipCheckExpectedReplicas: true}"
    )
    args = with_field(LOW_NODE_LOAD, "anomalyCondition: {consecutiveAbnormalities: 4}")
    content = koordinator("deschedulingInterval: 2m\n", MigrationController=migration, LowNodeLoad=args)
    found = convert_policy(content, FILE).settings
    assert ((HotSpot(hits=2),), {"cpu": 0.5, "memory": 0.6}) == (found.strategies, found.limits)  # 5 rounds of 2m
    assert (120.0, 7200.0, 0.2, True) == (
        *(found.interval, found.cooldown, found.max_unavailable),
        found.allow_last_replica,
    )


@pytest.mark.parametrize(
    "content",
    [
        policy("maxNoOfPodsToEvictPerNode: 3\n", DefaultEvictor="{labelSelector: {matchLabels: {a: b}}}", **SHARED),
        koordinator(LowNodeLoad=LOW_NODE_LOAD),
    ],
)
@pytest.mark.parametrize("read", [convert_policy, read_rival])
def test_what_is_printed_is_a_configuration(content: str, read: object) -> None:
    """It parses as the same settings."""
    found = (read_rival if read is read_rival else convert_policy)(content, FILE)
    written = to_yaml(dump_section(found.sources, found.settings))
    assert found.settings == parse(written, FILE).settings.rescheduling
