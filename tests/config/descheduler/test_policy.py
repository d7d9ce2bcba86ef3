"""Policies of other reschedulers: no field is ignored without a word, and bad input is refused with its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from tests.config.descheduler.policies import (
    FILE,
    LOW_NODE_LOAD,
    LOW_NODE_UTILIZATION,
    MINIMAL,
    koordinator,
    messages,
    policy,
    problems_of,
    with_field,
)
from trimtab.config.descheduler.equivalent import convert_policy
from trimtab.config.descheduler.evictor_shapes import EVICTORS
from trimtab.config.descheduler.rivals import read_rival
from trimtab.config.descheduler.shapes import OPERATIONAL, STRATEGY_ARGS, DeschedulerConfiguration, DeschedulerPolicy
from trimtab.config.diagnostics import ConfigError
from trimtab.config.schema import fields_of

# A value other than the default, by the field's name.
SAMPLES = {
    "nodeSelector": "pool=a",
    "labelSelector": "{matchLabels: {app: web}}",
    "namespaceLabelSelector": "{matchLabels: {team: a}}",
    "priorityThreshold": "{value: 7}",
    "minReplicas": "3",
    "minPodAge": "20m",
    "noEvictionPolicy": "Mandatory",
    "podProtections": "{extraEnabled: [PodsWithoutPDB]}",
    "namespaces": "{exclude: [db]}",
    "evictableNamespaces": "{exclude: [db]}",
    "thresholds": "{cpu: 10, memory: 10}",
    "targetThresholds": "{cpu: 70, memory: 70}",
    "metricsUtilization": "{metricsServer: true}",
    "evictionLimits": "{node: 3}",
    "evictionModes": "[OnlyThresholdingResources]",
    "excludeOwnerKinds": "[Job]",
    "excludedTaints": "[a]",
    "includedTaints": "[a]",
    "nodeAffinityType": "[preferredDuringSchedulingIgnoredDuringExecution]",
    "constraints": "[ScheduleAnyway]",
    "topologyBalanceNodeFit": "false",
    "highThresholds": "{cpu: 70, memory: 70}",
    "lowThresholds": "{cpu: 10, memory: 10}",
    "prodHighThresholds": "{cpu: 70}",
    "prodLowThresholds": "{cpu: 10}",
    "resourceWeights": "{cpu: 2}",
    "anomalyCondition": "{consecutiveAbnormalities: 40}",
    "detectorCacheTimeout": "10m",
    "nodePools": "[{name: a}]",
    "podSelectors": "[{name: a, selector: {matchLabels: {app: a}}}]",
    "nodeMetricExpirationSeconds": "60",
    "objectLimiters": "{workload: {duration: 2h}}",
    "maxMigratingPerWorkload": "20%",
    "maxUnavailablePerWorkload": "20%",
    "evictQPS": '"5"',
    "defaultJobTTL": "10m",
    "schedulerNames": "[mine]",
    "defaultDeleteOptions": "{gracePeriodSeconds: 3}",
    "arbitrationArgs": "{enabled: true}",
    "defaultJobMode": "EvictDirectly",
    "evictionPolicy": "Delete",
    "metricsCollector": "{enabled: true}",
    "metricsProviders": "[{source: KubernetesMetrics}]",
    "deschedulingInterval": "90s",
}


def sample(name: str, default: object, kind: object) -> str:
    if name in SAMPLES:
        return SAMPLES[name]
    return ("false" if default else "true") if kind is bool else "7"


def fields(*plugins: str) -> Iterator[tuple[str, str, str]]:
    """Plugin, field and another value than its default."""
    kinds = {**STRATEGY_ARGS, **EVICTORS}
    for plugin in plugins:
        for each in fields_of(kinds[plugin]):
            if not (plugin in ("LowNodeLoad", "MigrationController") and each.key == "nodeSelector"):
                yield plugin, each.key, sample(each.key, each.default, each.type)
    if "LowNodeLoad" in plugins:
        yield "LowNodeLoad", "nodeSelector", "{matchLabels: {pool: a}}"
        yield "MigrationController", "nodeSelector", "pool=a"


def document(plugin: str, key: str = "", value: str = "") -> str:
    """A policy that enables the plugin, with one more argument of it."""
    args = {name: value for name, value in _parsed(MINIMAL.get(plugin, "{}")).items() if name != key}
    written = (
        "{" + ", ".join([*(f"{name}: {each}" for name, each in args.items()), *([f"{key}: {value}"] * bool(key))]) + "}"
    )
    if plugin in ("LowNodeLoad", "MigrationController"):
        return koordinator(**{"LowNodeLoad": with_field(LOW_NODE_LOAD, "nodeFit: false"), plugin: written})
    collector = "metricsCollector: {enabled: true}\n" if key == "metricsUtilization" else ""
    return policy(collector, **{"LowNodeUtilization": LOW_NODE_UTILIZATION, plugin: written})


def _parsed(args: str) -> dict[str, str]:
    """The fields of a mapping in braces, whose values are mappings or lists in one line."""
    inner, found, depth, start = args[1:-1], dict[str, str](), 0, 0
    for at, letter in enumerate(f"{inner},"):
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth and inner[start:at].strip():
            name, _, value = inner[start:at].strip().partition(": ")
            found[name], start = value, at + 1
    return found


def is_ignored(bare: str, written: str, key: str, as_rival: bool) -> bool:
    """Whether the second, which sets one field more, is read as the first, with the same notes and no problem."""
    read = read_rival if as_rival else convert_policy
    before = read(bare, FILE)
    try:
        after = read(written, FILE)
    except ConfigError:
        return False
    noted = any(f".{key}" in f".{each.path}" for each in after.notes) or messages(before) != messages(after)
    return not noted and (before.settings, before.sources) == (after.settings, after.sources)


@pytest.mark.parametrize(("plugin", "key", "value"), [*fields(*STRATEGY_ARGS, *EVICTORS)])
def test_no_field_is_ignored_when_it_is_converted(plugin: str, key: str, value: str) -> None:
    """Each changes the settings, or there is a note on it, or a problem."""
    assert not is_ignored(document(plugin), document(plugin, key, value), key, as_rival=False)


@pytest.mark.parametrize(
    ("plugin", "key", "value"), [*fields("LowNodeUtilization", "DefaultEvictor", "LowNodeLoad", "MigrationController")]
)
def test_no_field_is_ignored_by_the_rival(plugin: str, key: str, value: str) -> None:
    """The same for what runs the policy by its own rules."""
    assert not is_ignored(document(plugin), document(plugin, key, value), key, as_rival=True)


@pytest.mark.parametrize("as_rival", [False, True])
@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (kind, each.key, sample(each.key, each.default, each.type) if each.key != "nodeSelector" else selector)
        for kind, selector in ((DeschedulerPolicy, "pool=a"), (DeschedulerConfiguration, "{matchLabels: {a: b}}"))
        for each in fields_of(kind)
    ],
)
def test_no_field_of_the_whole_is_ignored(kind: type, key: str, value: str, as_rival: bool) -> None:
    """Limits, selectors, providers and the like."""
    if key == "metricsCollector" and as_rival:
        pytest.skip("it is read with metricsUtilization")
    if kind is DeschedulerPolicy:
        bare, written = (policy(top, LowNodeUtilization=LOW_NODE_UTILIZATION) for top in ("", f"{key}: {value}\n"))
    else:
        bare, written = (koordinator(top, LowNodeLoad=LOW_NODE_LOAD) for top in ("", f"{key}: {value}\n"))
    assert not is_ignored(bare, written, key, as_rival)


@pytest.mark.parametrize("name", OPERATIONAL)
def test_how_the_process_runs(name: str) -> None:
    """A note says that it is not needed."""
    found = convert_policy(koordinator(f"{name}: x\n", LowNodeLoad=LOW_NODE_LOAD), FILE)
    assert f"{name}: not needed: it says how Koordinator's own process runs" in messages(found)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            policy(LowNodeUtilization=LOW_NODE_UTILIZATION).replace("v1alpha2", "v1alpha1"),
            "policy.yaml:1:13: apiVersion: descheduler/v1alpha1 is not supported: convert the file to descheduler/v1alpha2",
        ),
        (
            policy(LowNodeUtilisation=LOW_NODE_UTILIZATION),
            "profiles[0].plugins.balance.enabled[0]: unknown plugin 'LowNodeUtilisation' (did you mean LowNodeUtilization?)",
        ),
        (
            policy(LowNodeUtilization="{thresholds: {cpu: 60}, targetThresholds: {cpu: 50}}"),
            "args.thresholds.cpu: 60 is above the 50 of targetThresholds: lower it",
        ),
        (
            policy(LowNodeUtilization="{thresholds: {cpu: 20}, targetThresholds: {memory: 50}}"),
            "args.targetThresholds: thresholds and targetThresholds must have the same resources",
        ),
        (
            policy(LowNodeUtilization="{targetThresholds: {memory: 50}}"),
            "args: thresholds is missing: write percentages, such as {cpu: 20, memory: 20, pods: 20}",
        ),
        (
            policy(LowNodeUtilization="{treshold: {}}"),
            "args.treshold: unknown field (did you mean thresholds?)",
        ),
        (
            policy(DefaultEvictor="{priorityThreshold: {name: gold}}", LowNodeUtilization=LOW_NODE_UTILIZATION),
            "priorityThreshold.name: the priority of 'gold' is not known here: write value, as `kubectl get priorityclass",
        ),
        (
            policy(
                DefaultEvictor="{ignorePvcPods: true, podProtections: {extraEnabled: [PodsWithPVC]}}",
                LowNodeUtilization=LOW_NODE_UTILIZATION,
            ),
            "args.ignorePvcPods: cannot be set together with podProtections: the descheduler refuses it",
        ),
        (
            policy(LowNodeUtilization="{metricsUtilization: {source: Prometheus}, " + LOW_NODE_UTILIZATION[1:]),
            "args.metricsUtilization: prometheus.query is missing",
        ),
        (
            policy(LowNodeUtilization="{evictableNamespaces: {include: [a]}, " + LOW_NODE_UTILIZATION[1:]),
            "evictableNamespaces.include: only exclude may be set here: the descheduler refuses include",
        ),
        ("apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n", "profiles is missing"),
        (
            "apiVersion: descheduler/v1alpha2\nkind: Pod\n",
            "this is a Pod, not the policy of a descheduler: give a Desch",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n",
            "no key of this ConfigMap holds a DeschedulerPolicy or DeschedulerConfiguration, it has a: give the file",
        ),
        ("[1, 2", "policy.yaml:2:1: not YAML: did not find"),
    ],
)
def test_bad_input(content: str, expected: str) -> None:
    """File, line, field and remedy, as the rival and as settings alike."""
    for as_rival in (False, True):
        found = problems_of(content, as_rival)
        assert any(expected in each for each in found) and all(each.startswith(FILE) for each in found), found


def test_a_plugin_without_its_arguments() -> None:
    """LowNodeUtilization has no defaults."""
    content = policy(LowNodeUtilization="{}").partition("  pluginConfig")[0]
    assert any("thresholds of LowNodeUtilization is missing" in each for each in problems_of(content))


def test_failures_are_left_to_the_descheduler() -> None:
    """What evicts failing pods is named, and left out."""
    content = policy(PodLifeTime="{maxPodLifeTimeSeconds: 3}", LowNodeUtilization=LOW_NODE_UTILIZATION)
    found = convert_policy(content, FILE)
    assert any("not supported: PodLifeTime is left out, because" in each for each in messages(found))
    assert ["ResourceOptimization"] == [each.name for each in found.settings.strategies]


def test_arguments_of_what_is_not_enabled() -> None:
    """They do nothing there, either."""
    content = policy(LowNodeUtilization=LOW_NODE_UTILIZATION) + "  - {name: RemoveDuplicates, args: {}}\n"
    found = convert_policy(content, FILE)
    assert any("RemoveDuplicates is not enabled in this profile" in each for each in messages(found))


def test_positions_in_a_config_map() -> None:
    """They are those of the file as a whole."""
    inner = policy("gracePeriodSeconds: 3\n", LowNodeUtilization=LOW_NODE_UTILIZATION)
    text = "".join(f"    {line}\n" for line in inner.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: descheduler-policy}\ndata:\n  policy.yaml: |\n"
    found = convert_policy(head + text, FILE)
    assert (FILE, 8) in [(each.file, each.line) for each in found.notes if each.path == "gracePeriodSeconds"]
    assert dataclasses.asdict(found.settings) == dataclasses.asdict(convert_policy(inner, FILE).settings)


def test_two_profiles() -> None:
    """They are read as one; what both have counts as the first has it, with a note."""
    first = policy(LowNodeUtilization=LOW_NODE_UTILIZATION)
    second = policy(LowNodeUtilization="{thresholds: {cpu: 1}, targetThresholds: {cpu: 2}}", RemoveDuplicates="{}")
    found = convert_policy(first + second.partition("profiles:\n")[2], FILE)
    assert ["ResourceOptimization", "RemoveDuplicates"] == [each.name for each in found.settings.strategies]
    assert 0.5 == found.settings.limits["cpu"]
    assert any("a second profile has it, too, and the first one's arguments count" in each for each in messages(found))
