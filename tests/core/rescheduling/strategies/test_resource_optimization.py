"""Pods leave nodes above the limit of a resource."""

import pytest

from tests.core.rescheduling.measured_pods import context, large, measured, running, suggested
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

GIB = 1024**3


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ResourceOptimization(), {"a": "cpu at 90%, above 80%", "c": "memory at 95%, above 90%"}),
        (ResourceOptimization(cpu_threshold=60.0), ["a", "b", "c"]),
        (ResourceOptimization(cpu_threshold=95.5), ["c"]),
        (ResourceOptimization(cpu_threshold=95.5, memory_threshold=97.0), {"c": "memory at 95%, near 97%"}),
        (ResourceOptimization(cpu_threshold=95.5, memory_threshold=97.0, margin=0.0), []),
        (
            ResourceOptimization(cpu_threshold=95.5, margin=6.0),
            {"a": "cpu at 90%, near 96%", "c": "memory at 95%, above 90%"},
        ),
    ],
)
def test_nodes_above_the_limit(strategy: ResourceOptimization, expected: dict[str, str] | list[str]) -> None:
    """The fullest node comes first, and a little below the limit is enough; own thresholds override the limits."""
    pods = [running("x", on="a"), running("y", on="b"), running("z", on="c")]
    cluster = measured(
        large("a"), large("b"), large("c"), *pods, cpu={"x": [9000], "y": [7000]}, memory={"z": [9.5 * GIB]}
    )
    found = suggested(strategy, cluster)
    assert expected == (found if isinstance(expected, dict) else list(found))


def test_a_node_near_its_limit_is_not_hot() -> None:
    """It needs no other remedy."""
    cluster = measured(
        large("a"), large("b"), running("x", on="a"), running("y", on="b"), cpu={"x": [9000], "y": [7600]}
    )
    found = {each.node: each.is_hot for each in ResourceOptimization().suggest(context(cluster))}
    assert {"a": True, "b": False} == found


def test_out_of_range() -> None:
    """A threshold is a percentage."""
    with pytest.raises(ValueError, match="cpuThreshold: 120 is not above 0 and at most 100"):
        ResourceOptimization(cpu_threshold=120.0)
