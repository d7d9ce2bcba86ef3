"""Koordinator's annotation of a node's own usage thresholds."""

from __future__ import annotations

import json

import pytest

from trimtab.config.registry import NODE_ANNOTATIONS
from trimtab.core.model.node import Node
from trimtab.core.plugins.load_aware_scheduling.node_thresholds import (
    ANNOTATION,
    NO_THRESHOLDS,
    UsageThresholds,
    thresholds_of,
)
from trimtab.wire.node import NodeReader


def annotated(text: str) -> Node:
    node = NodeReader(NODE_ANNOTATIONS).read(
        json.dumps({"metadata": {"name": "n", "annotations": {ANNOTATION: text, "other": "x" * 1000}}}).encode()
    )
    assert isinstance(node, Node)
    return node


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"usageThresholds": {"cpu": 70}}', UsageThresholds((70, 0))),
        ('{"usageThresholds": {"cpu": 0, "memory": 0}}', UsageThresholds((0, 0))),
        ('{"prodUsageThresholds": {"cpu": 55, "memory": 80, "gpu": 1}}', UsageThresholds(None, (55, 80))),
        (
            '{"aggregatedUsage": {"usageThresholds": {"cpu": 60}, "usageAggregationType": "p95",'
            ' "usageAggregatedDuration": "10m0s"}}',
            UsageThresholds(None, None, (60, 0), "p95", 600.0),
        ),
        ('{"aggregatedUsage": {"usageThresholds": {"cpu": 60}}}', NO_THRESHOLDS),
        ('{"aggregatedUsage": {"usageAggregationType": "p95"}}', NO_THRESHOLDS),
        ('{"usageThresholds": {}}', NO_THRESHOLDS),
        ("{}", NO_THRESHOLDS),
        ("", NO_THRESHOLDS),
    ],
)
def test_thresholds_of_its_own(text: str, expected: UsageThresholds) -> None:
    """Map by map; an empty map, and half of a percentile, set nothing, and such an annotation is not kept."""
    node = annotated(text)
    assert expected == thresholds_of(node)
    assert Node(name="n", annotations={ANNOTATION: text} if expected is not NO_THRESHOLDS else {}) == node


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "metadata.annotations[scheduling.koordinator.sh/usage-thresholds]: Input data was truncated"),
        ('{"usageThresholds": {"cpu": "70"}}', ".usageThresholds[...]: Expected `int`, got `str`"),
        ('{"usageThresholds": {"cpu": 170}}', "cpu is 170, and must be from 0 to 100"),
        (
            '{"aggregatedUsage": {"usageThresholds": {"cpu": 6}, "usageAggregationType": "p66"}}',
            "usageAggregationType 'p66' is not one of avg, p50, p90, p95, p99",
        ),
        (
            '{"aggregatedUsage": {"usageThresholds": {"cpu": 6}, "usageAggregationType": "p95",'
            ' "usageAggregatedDuration": "7m"}}',
            "usageAggregatedDuration '7m' is not 5m, 10m or 30m",
        ),
    ],
)
def test_thresholds_that_cannot_be_read(text: str, words: str) -> None:
    """The node has none of its own then, and its error says why; pods may go there as before."""
    node = annotated(text)
    assert (NO_THRESHOLDS, False) == (thresholds_of(node), node.unschedulable)
    assert words in node.error
