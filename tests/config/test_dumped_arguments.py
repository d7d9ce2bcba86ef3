"""`config show` keeps every argument: whatever a file gives a plugin stands in the dump, and means the same again."""

from __future__ import annotations

from math import inf
from typing import Any, get_args, get_origin

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.config.config_files import FILE, HEAD, comparable, parse_body
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.registry import IN_TREE, POINTS
from trimtab.config.schema import FieldSchema, fields_of
from trimtab.core.framework.profile import POINT_INTERFACES
from trimtab.core.framework.resource_amounts import ResourceAmounts, ResourceValues
from trimtab.core.model.affinity import NodeAffinity, TopologySpreadConstraint
from trimtab.core.model.duration import Duration
from trimtab.core.model.setting import Setting, Support

NAMES = st.sampled_from(["a", "team-b", "kube-system"])
TERM = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
BY_TYPE: dict[object, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    Duration: st.sampled_from(["0s", "15s", "5m", "1h30m"]),
    ResourceAmounts: st.sampled_from([{"cpu": "250m"}, {"cpu": "2", "memory": "1Gi"}]),
    ResourceValues: st.sampled_from([{"cpu": 0.25}, {"cpu": 1.0, "memory": 0.5}]),
    NodeAffinity: st.just({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}),
    TopologySpreadConstraint: st.just({"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}),
}
BY_KEY: dict[str, st.SearchStrategy[Any]] = {
    "defaultingType": st.just("List"),
    "defaultRequestsMultiplier": st.sampled_from(["0", "2.5"]),
    "name": st.sampled_from(["cpu", "memory"]),
    "policy": st.just({"priority": [{"name": "cpu_usage_avg_5m", "weight": 0.5}]}),
    "prometheusApiAddr": st.sampled_from(["http://prometheus:9090", "https://10.96.0.102:9090"]),
    "scoringStrategy": st.just({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}),
    "usageAggregationType": st.just("p95"),
    "scoreAggregationType": st.just("avg"),
    "usageAggregatedDuration": st.just("10m"),
    "scoreAggregatedDuration": st.just("5m"),
    "metricProvider": st.sampled_from([{}, {"type": "Prometheus", "address": "http://prometheus:9090"}]),
    "weight": st.just(1),
}
FROM_A_FILE = "policyConfigPath"  # read when the file is parsed, and dumped as the policy that it holds


def values(field: FieldSchema) -> st.SearchStrategy[Any]:
    """What a file may say for this field."""
    if field.key in BY_KEY:
        return BY_KEY[field.key]
    kind, setting = field.type, field.setting
    if get_origin(kind) is tuple:
        return st.lists(items(get_args(kind)[0], setting), max_size=2, unique_by=repr)
    return items(kind, setting)


def items(kind: Any, setting: Setting) -> st.SearchStrategy[Any]:
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    if kind is str:
        return st.sampled_from(setting.choices) if setting.choices else NAMES
    if kind in (int, float):
        low, high = setting.between or (0, 100)
        numbers = st.integers(max(int(low), -100), int(min(high, 1000))).filter(
            lambda each: each > (setting.above or -inf)
        )
        return numbers if kind is int else numbers.map(float)
    return arguments(kind)


def arguments(kind: type) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of the fields of a class."""
    usable = [each for each in fields_of(kind) if each.setting.support is not Support.REJECTED]
    return st.fixed_dictionaries({}, optional={each.key: values(each) for each in usable if each.key != FROM_A_FILE})


def written(plugin: str, args: dict[str, Any]) -> str:
    """A file with the plugin at one of its points."""
    points = [point for point in POINT_INTERFACES if isinstance(IN_TREE[plugin](), POINT_INTERFACES[point])]
    point = points[0].value
    lists = {point: {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}}
    return HEAD + yaml.safe_dump({"profiles": [{"plugins": lists, "pluginConfig": [{"name": plugin, "args": args}]}]})


@pytest.mark.parametrize("plugin", [name for name, kind in IN_TREE.items() if fields_of(kind)])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_every_argument_comes_back(plugin: str, data: st.DataObject) -> None:
    """Every argument that a file gives is in the dump, which means the same, and whose own dump is the same text."""
    args = data.draw(arguments(IN_TREE[plugin]))
    try:
        configuration = parse(written(plugin, args), FILE)
    except ConfigError:
        assume(False)
    shown = dump(configuration)
    again = parse(shown, FILE)
    (profile,) = next(yaml.safe_load_all(shown))["profiles"]
    kept = {each["name"]: each["args"] for each in profile["pluginConfig"]}.get(plugin, {})
    assert {key for key, value in args.items() if value != {}} <= {*kept}  # an empty mapping is unset
    assert comparable(configuration) == comparable(again)
    assert without_comments(shown) == without_comments(dump(again))


def without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_off_stays_off() -> None:
    """A switch that is written keeps its value, and so does what is equal to its default; the others are left out."""
    args = "enableReschedulingController: false, reschedulingInterval: 30s, excludedPodSelector: ''"
    shown = dump(parse_body(f"profiles: [{{pluginConfig: [{{name: Rescheduler, args: {{{args}}}}}]}}]\n"))
    (profile,) = next(yaml.safe_load_all(shown))["profiles"]
    (kept,) = [each["args"] for each in profile["pluginConfig"] if each["name"] == "Rescheduler"]
    given = {"enableReschedulingController": False, "reschedulingInterval": "30s", "excludedPodSelector": ""}
    assert given == {key: value for key, value in kept.items() if key in given}
    assert not {"maxReschedulePods", "enabledStrategies", "imbalanceThreshold", "excludedNamespaces"} & {*kept}


def test_points_of_other_projects_stay() -> None:
    """A plugin that is listed only where its own project has it, and this one needs nothing, is kept with its arguments."""
    point = next(each for each in POINTS["Coscheduling"] if each.value == "permit")
    lists = {point.value: {"enabled": [{"name": "Coscheduling"}]}}
    config = [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 7}}]
    configuration = parse(HEAD + yaml.safe_dump({"profiles": [{"plugins": lists, "pluginConfig": config}]}), FILE)
    again = parse(dump(configuration), FILE)
    assert comparable(configuration) == comparable(again)
    assert again.settings.profiles[0].gang_plugin is not None
