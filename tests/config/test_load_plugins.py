"""Files written for the load plugins of other projects have the same meaning here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.config.config_files import FILE, HEAD, parse_body, problems_of_body
from trimtab.apps.config_file import IncludedFiles
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.plugin_args import build_plugin
from trimtab.config.registry import IN_TREE
from trimtab.config.schema import dump_fields
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.model.duration import Duration
from trimtab.core.plugins.dynamic import DEFAULT_POLICY, DynamicSchedulerPolicy, HotValue, Predicate, Priority
from trimtab.core.plugins.load_aware_scheduling import LoadAwareScheduling
from trimtab.core.plugins.load_aware_scheduling.arguments import Aggregated, ByResource
from trimtab.core.plugins.rescheduler import Rescheduler
from trimtab.core.rescheduling.settings import Mode

RESCHEDULER = """\
profiles:
- schedulerName: rescheduler-scheduler
  plugins:
    filter: {enabled: [{name: Rescheduler}]}
    score: {enabled: [{name: Rescheduler, weight: 100}]}
    reserve: {enabled: [{name: Rescheduler}]}
    preBind: {enabled: [{name: Rescheduler}]}
  pluginConfig:
  - name: Rescheduler
    args:
      cpuThreshold: 85.0
      memoryThreshold: 75
      reschedulingInterval: "60s"
      enableReschedulingController: true
      excludedNamespaces: [kube-system, kube-public, kube-node-lease]
      cpuScoreWeight: 0.7
      memoryScoreWeight: 0.3
      loadBalanceBonus: 5.0
"""
KOORDINATOR = """\
profiles:
- schedulerName: koord-scheduler
  plugins:
    filter: {enabled: [{name: LoadAwareScheduling}]}
    score: {enabled: [{name: LoadAwareScheduling, weight: 1}]}
    reserve: {enabled: [{name: LoadAwareScheduling}]}
  pluginConfig:
  - name: LoadAwareScheduling
    args:
      filterExpiredNodeMetrics: false
      nodeMetricExpirationSeconds: 300
      resourceWeights: {cpu: 1, memory: 2}
      usageThresholds: {cpu: 70}
      estimatedScalingFactors: {cpu: 80, memory: 60}
      aggregated:
        usageThresholds: {cpu: 65, memory: 90}
        usageAggregationType: p95
        usageAggregatedDuration: 5m
"""
CRANE = """\
profiles:
- schedulerName: default-scheduler
  plugins:
    filter: {enabled: [{name: Dynamic}]}
    score: {enabled: [{name: Dynamic, weight: 3}]}
  pluginConfig:
  - name: Dynamic
    args:
      policy:
        syncPolicy: [{name: cpu_usage_avg_5m, period: 3m}]
        predicate: [{name: cpu_usage_avg_5m, maxLimitPecent: 0.7}]
        priority: [{name: mem_usage_max_avg_1d, weight: 1}]
        hotValue: [{timeRange: 5m, count: 3}]
"""


def only(body: str) -> Profile:
    (profile,) = parse_body(body).settings.profiles
    return profile


def named(profile: Profile, name: str) -> Any:
    (found,) = [each for each in profile.filters if plugin_name(each) == name]
    return found


def test_rescheduler() -> None:
    """The first seed's file: all four points, its thresholds, weights and interval."""
    profile = only(RESCHEDULER)
    plugin = named(profile, "Rescheduler")
    assert isinstance(plugin, Rescheduler)
    assert (85.0, 75.0, 0.7, 0.3, 5.0) == (
        plugin.cpu_threshold,
        plugin.memory_threshold,
        plugin.cpu_score_weight,
        plugin.memory_score_weight,
        plugin.load_balance_bonus,
    )
    assert 60.0 == plugin.rescheduling_interval
    assert [["Rescheduler"]] * 2 == [
        [plugin_name(each) for each in stage if each is plugin] for stage in (profile.reserves, profile.pre_binds)
    ]


def test_moves_are_planned() -> None:
    """The arguments for rescheduling take effect as settings of the rescheduler, which only plans; one note says so."""
    configuration = parse_body(RESCHEDULER)
    found = configuration.settings.rescheduling
    assert found is not None
    assert (Mode.OBSERVE, 60.0, {"cpu": 0.85, "memory": 0.75}) == (found.mode, found.interval, found.limits)
    (noted,) = [str(note) for note in configuration.notes if "moves are only planned" in note.message]
    assert ".enableReschedulingController: " in noted


def test_an_empty_map_of_koordinators_says_nothing() -> None:
    """Its defaults hold, and prod pods are judged as all are; a map with zeros takes the limits away."""
    maps = ("usageThresholds", "prodUsageThresholds", "resourceWeights", "estimatedScalingFactors")
    empty: dict[str, object] = {name: {} for name in maps}
    assert LoadAwareScheduling() == build_plugin("LoadAwareScheduling", LoadAwareScheduling, empty)
    zeros = build_plugin("LoadAwareScheduling", LoadAwareScheduling, {"prodUsageThresholds": {"cpu": 0}})
    assert LoadAwareScheduling(prod_usage_thresholds=ByResource()) == zeros


def test_koordinator() -> None:
    """Koordinator's own file: maps by resource, percentiles, durations; a map that is given replaces the default."""
    plugin = named(only(KOORDINATOR), "LoadAwareScheduling")
    assert isinstance(plugin, LoadAwareScheduling)
    assert (False, 300, ByResource(1, 2), ByResource(70, 0)) == (
        plugin.filter_expired_node_metrics,
        plugin.node_metric_expiration_seconds,
        plugin.resource_weights,
        plugin.usage_thresholds,
    )
    assert isinstance(plugin.aggregated, Aggregated)
    assert ("p95", 300.0) == (plugin.aggregated.usage_aggregation_type, plugin.aggregated.usage_aggregated_duration)


def test_crane() -> None:
    """The spec of Crane's policy as an argument; what it leaves out is Crane's own."""
    plugin = named(only(CRANE), "Dynamic")
    policy = plugin.policy
    assert (Predicate("cpu_usage_avg_5m", 0.7),) == policy.predicate
    assert (Priority("mem_usage_max_avg_1d", 1),) == policy.priority
    assert (300.0, 3) == (policy.hot_value[0].time_range, policy.hot_value[0].count)
    default = DynamicSchedulerPolicy()
    assert DEFAULT_POLICY == build_plugin("Dynamic", IN_TREE["Dynamic"], {"policy": {}}).policy == default  # type: ignore[attr-defined]


POLICY_HEAD = "apiVersion: scheduler.policy.crane.io/v1alpha1\nkind: DynamicSchedulerPolicy\n"
BY_PATH = (
    HEAD
    + """\
profiles:
- plugins: {multiPoint: {enabled: [{name: Dynamic}]}}
  pluginConfig: [{name: Dynamic, args: {policyConfigPath: policies/crane.yaml}}]
"""
)


def with_policy(folder: Path, policy: str | None, body: str = BY_PATH) -> Configuration:
    """The configuration of a file in this folder, with that policy where it says that one stands."""
    (folder / "policies").mkdir(exist_ok=True)
    if policy is not None:
        (folder / "policies" / "crane.yaml").write_text(policy)
    return parse(body, FILE, read_file=IncludedFiles(folder / FILE))


def test_a_policy_in_a_file(tmp_path: Path) -> None:
    """The file is read from where the configuration stands; what its spec leaves out is not there, as for Crane."""
    spec = (
        "spec:\n  predicate: [{name: cpu_usage_avg_5m, maxLimitPecent: 0.7}]\n  hotValue: [{timeRange: 1m, count: 3}]\n"
    )
    found = with_policy(tmp_path, POLICY_HEAD + spec)
    (profile,) = found.settings.profiles
    expected = DynamicSchedulerPolicy((), (Predicate("cpu_usage_avg_5m", 0.7),), (), (HotValue(Duration(60), 3),))
    assert expected == named(profile, "Dynamic").policy
    (told,) = [str(note) for note in found.notes if "crane.yaml" in str(note)]
    assert told.endswith("crane.yaml:4:3: spec: without syncPolicy Crane ignores cpu_usage_avg_5m; here all count")
    (again,) = parse(dump(found), FILE).settings.profiles
    assert named(profile, "Dynamic") == named(again, "Dynamic")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            None,
            "policyConfigPath: 'policies/crane.yaml' cannot be read: No such file or directory: write its path",
        ),
        ("spec: {}\n", "crane.yaml:1:1: apiVersion is missing: the file must start with apiVersion: scheduler.policy"),
        (POLICY_HEAD, "crane.yaml:1:1: spec is missing"),
        (
            POLICY_HEAD + "spec: {predicate: [{name: gpu}]}\n",
            "crane.yaml:3:20: spec.predicate[0]: unknown metric 'gpu'",
        ),
        (
            POLICY_HEAD + "spec: {predicates: []}\n",
            "crane.yaml:3:8: spec.predicates: unknown field (did you mean predicate?)",
        ),
        (POLICY_HEAD + "spec: {hotValue: [{count: 3}]}\n", "crane.yaml:3:19: spec.hotValue[0]: "),
        (POLICY_HEAD + "spec: [\n", "crane.yaml:4:1: not YAML"),
        (POLICY_HEAD + "spec: {}\n---\na: b\n", "crane.yaml:5:1: a second document is not supported"),
        ("apiVersion: v1\nkind: DynamicSchedulerPolicy\nspec: {}\n", "crane.yaml:1:13: apiVersion: 'v1' is not one of"),
    ],
)
def test_what_is_wrong_with_a_policy_file(tmp_path: Path, policy: str | None, words: str) -> None:
    """A problem in the policy file is reported with its file, line, field and remedy."""
    with pytest.raises(ConfigError) as caught:
        with_policy(tmp_path, policy)
    (problem,) = caught.value.problems
    assert words in str(problem)


def test_one_policy_is_enough(tmp_path: Path) -> None:
    """A path next to a policy, and one that cannot be read, are rejected; an empty one is unset."""
    both = BY_PATH.replace("policyConfigPath: ", "policy: {}, policyConfigPath: ")
    with pytest.raises(ConfigError, match="keep one of the two"):
        with_policy(tmp_path, POLICY_HEAD + "spec: {}\n", both)
    with pytest.raises(ConfigError, match="no other file can be read here"):
        parse(BY_PATH, FILE)
    (profile,) = parse(BY_PATH.replace("policies/crane.yaml", '""'), FILE).settings.profiles
    assert DEFAULT_POLICY == named(profile, "Dynamic").policy


@pytest.mark.parametrize(
    ("plugin", "args", "words"),
    [
        ("Rescheduler", "cpuThreshold: 180", "args.cpuThreshold: 180 is not above 0 and at most 100"),
        ("Rescheduler", "reschedulingInterval: fast", "'fast' is not a duration"),
        ("LoadAwareScheduling", "usageThresholds: {gpu: 5}", "gpu: unknown field"),
        ("LoadAwareScheduling", "aggregated: {usageAggregationType: p66}", "'p66' is not one of avg, p50"),
        ("Dynamic", "policy: {predicate: [{name: gpu, maxLimitPecent: 0.5}]}", "unknown metric 'gpu'"),
        ("Dynamic", "policy: {hotValue: [{timeRange: 0s, count: 2}]}", "timeRange must be positive"),
        ("Usage", "thresholds: {cpu: -1}", "args.thresholds.cpu: -1 is not between 0 and 100"),
        ("MemRealUsage", "queryMetricTimeSeconds: 0", "args.queryMetricTimeSeconds: 0 is not between 1 and 3600"),
        ("LowestLoad", "cpuWeight: 1000", "args.cpuWeight: 1000 is not between 0 and 100"),
    ],
)
def test_nonsense_is_named(plugin: str, args: str, words: str) -> None:
    """The message has the field, its value and what is allowed."""
    (complaint,) = problems_of_body(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {{{args}}}}}]}}]\n")
    assert words in complaint


@pytest.mark.parametrize("body", [RESCHEDULER, KOORDINATOR, CRANE])
def test_written_and_read_again(body: str) -> None:
    """The dumped arguments parse as the same plugin."""
    for plugin in only(body).filters:
        args = dump_fields(plugin)
        assert plugin == build_plugin(plugin_name(plugin), type(plugin), args)  # type: ignore[arg-type]


def test_defaults_are_those_of_the_origin() -> None:
    """Crane's hot value: 5 binds in 5 minutes, 2 in a minute."""
    assert [(300.0, 5), (60.0, 2)] == [(each.time_range, each.count) for each in DEFAULT_POLICY.hot_value]
    assert isinstance(DEFAULT_POLICY.hot_value[0], HotValue)
