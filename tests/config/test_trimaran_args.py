"""Trimaran's arguments are parsed and dumped in its own form, and rejected with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.config.diagnostics import ConfigError
from trimtab.config.plugin_args import build_plugin
from trimtab.config.registry import IN_TREE
from trimtab.config.schema import dump_fields
from trimtab.core.framework.resource_amounts import ResourceAmounts, ResourceValues
from trimtab.core.plugins.trimaran import MetricProvider

PROVIDER = {"type": "Prometheus", "address": "http://prometheus:9090", "insecureSkipVerify": True}


def made(name: str, **args: object) -> Any:
    return build_plugin(name, IN_TREE[name], args)


def test_target_load_packing() -> None:
    """Quantities are parsed in the units of requests, quoted or not."""
    plugin = made("TargetLoadPacking", defaultRequests={"cpu": "2", "memory": 1024}, defaultRequestsMultiplier="2")
    assert ResourceAmounts((("cpu", 2000), ("memory", 1024))) == plugin.default_requests
    assert "2" == plugin.default_requests_multiplier
    assert {"cpu": "2000m", "memory": "1024"} == dump_fields(plugin)["defaultRequests"]
    assert plugin == made("TargetLoadPacking", **dump_fields(plugin))


def test_low_risk_over_commitment() -> None:
    """Weights are numbers by resource; a missing one has its default."""
    plugin = made("LowRiskOverCommitment", riskLimitWeights={"cpu": 0.25}, smoothingWindowSize=7)
    assert (ResourceValues((("cpu", 0.25),)), 7) == (plugin.risk_limit_weights, plugin.smoothing_window_size)
    assert {"cpu": 0.25} == dump_fields(plugin)["riskLimitWeights"]
    assert plugin == made("LowRiskOverCommitment", **dump_fields(plugin))


@pytest.mark.parametrize("name", ["TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment"])
def test_metric_provider(name: str) -> None:
    """All three accept a metricProvider; metrics-server is the default."""
    expected = MetricProvider("Prometheus", "http://prometheus:9090", insecure_skip_verify=True)
    assert expected == made(name, metricProvider=PROVIDER, watcherAddress="http://watcher").metric_provider
    assert "KubernetesMetricsServer" == made(name).metric_provider.type


def test_a_token_is_not_shown() -> None:
    """The repr of a provider does not contain its token."""
    assert "hush" not in repr(MetricProvider("Prometheus", token="hush"))


@pytest.mark.parametrize(
    ("name", "args", "complaint"),
    [
        ("TargetLoadPacking", {"defaultRequests": {"cpu": "much"}}, 'args.defaultRequests.cpu: "much"'),
        ("TargetLoadPacking", {"defaultRequests": {"cpu": "-1"}}, "args.defaultRequests.cpu"),
        ("TargetLoadPacking", {"defaultRequests": {"cpu": True}}, "expected a quantity such as"),
        ("TargetLoadPacking", {"defaultRequests": {"cpu": ["1"]}}, "expected a quantity such as"),
        ("TargetLoadPacking", {"defaultRequests": "1"}, "args.defaultRequests: expected a mapping"),
        ("TargetLoadPacking", {"defaultRequestsMultiplier": 1.5}, "put it in quotes"),
        ("TargetLoadPacking", {"targetUtilization": 120}, "targetUtilization: 120 is not between 1 and 99"),
        (
            "TargetLoadPacking",
            {"metricProvider": {"type": "Graphite"}},
            "is not one of KubernetesMetricsServer, Prometheus",
        ),
        ("LoadVariationRiskBalancing", {"safeVarianceMargin": "1"}, "args.safeVarianceMargin: expected a number"),
        ("LowRiskOverCommitment", {"riskLimitWeights": {"cpu": "x"}}, "args.riskLimitWeights.cpu: expected a number"),
        ("LowRiskOverCommitment", {"riskLimitWeights": {"cpu": 2}}, "2 for cpu is not between 0 and 1"),
    ],
)
def test_rejected(name: str, args: dict[str, object], complaint: str) -> None:
    """Invalid values are rejected with their position, value and what is allowed."""
    with pytest.raises(ConfigError) as told:
        made(name, **args)
    assert complaint.replace('"', "'") in str(told.value).replace('"', "'")
