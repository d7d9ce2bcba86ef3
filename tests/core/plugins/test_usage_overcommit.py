"""UsageOvercommit counts what pods really use, with a margin and within bounds, and requests where it knows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import asks, cluster, node, pod
from tests.core.plugins.ask_plugin import rejection
from tests.core.plugins.measured_cluster import NOW, large, points, rejections, with_samples
from trimtab.config.diagnostics import ConfigError
from trimtab.config.plugin_args import build_plugin
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.plugins.node_resources_fit import NodeResourcesFit
from trimtab.core.plugins.usage_overcommit import Discount, MemoryDiscount, UsageOvercommit, deviations_at

PLUGIN = UsageOvercommit()
EXACT = UsageOvercommit(Discount(50, 1, 10), MemoryDiscount(50, 1, 10))  # the mean, without a margin
GIB = 1 << 30


def half_used(cpu: float = 20.0, requested: str = "8") -> Cluster:
    """Node a uses so many percent of 10 cores, of which its pod requests 8; node b is the same without metrics."""
    pods = (pod(f"on-{name}", cpu=requested, memory="5Gi", on=name) for name in "ab")
    held = cluster(large("a"), large("b"), *pods)
    for scrape in range(4):
        with_samples(held, {"a": cpu}, {"a": 30}, at=NOW + 15 * scrape)
    return held


def test_a_node_that_is_full_by_requests_only_takes_more() -> None:
    """Without metrics requests count, as in NodeResourcesFit."""
    held = half_used()
    assert {"a": "", "b": "Insufficient cpu"} == rejections(PLUGIN, pod("new", cpu="4"), held)
    assert {"a": "Insufficient cpu", "b": "Insufficient cpu"} == rejections(
        NodeResourcesFit(), pod("new", cpu="4"), held
    )


@pytest.mark.parametrize(
    ("discount", "requested", "use", "trust", "counted"),
    [
        (Discount(95, 1.0, 10), 8000, 2000, 1.0, 2000),  # what is used
        (Discount(95, 1.1, 10), 8000, 2000, 1.0, 2200),  # with a margin
        (Discount(95, 1.1, 10), 8000, 7900, 1.0, 8000),  # the margin never exceeds requests
        (Discount(95, 1.1, 10), 8000, 9000, 1.0, 9000),  # the use itself may
        (Discount(95, 1.1, 1.5), 8000, 2000, 1.0, 3000),  # so that at most 15000 are requested of 10000
        (Discount(95, 1.1, 1.0), 8000, 2000, 1.0, 8000),  # no overcommitment at all
        (Discount(95, 1.0, 10), 8000, 2000, 0.5, 5000),  # ageing metrics: half of the discount
        (Discount(95, 1.0, 10), 8000, 9000, 0.5, 9000),  # and never less than the use
        (Discount(95, 1.1, 10), 8000, np.nan, 0.0, 8000),  # missing is never zero
        (Discount(95, 1.1, 10), 0, 500, 1.0, 500),  # pods without requests use something, too
    ],
)
def test_what_counts(discount: Discount, requested: int, use: float, trust: float, counted: int) -> None:
    """Of a node with 10000 allocatable."""
    columns = np.array([requested]), np.array([10_000]), np.array([use]), np.array([trust])
    assert [counted] == discount.counted(*columns).tolist()


@pytest.mark.parametrize(("percentile", "deviations"), [(50, 0.0), (84.1345, 1.0), (95, 1.644854), (99.9, 3.090232)])
def test_percentiles(percentile: float, deviations: float) -> None:
    """Those of the normal distribution."""
    assert pytest.approx(deviations, abs=1e-5) == deviations_at(percentile)


def test_load_that_varies_leaves_less_room() -> None:
    """Two nodes with the same mean and last sample differ by their deviation."""
    held = cluster(large("steady"), large("varies"), *(pod(f"on-{n}", cpu="9", on=n) for n in ("steady", "varies")))
    for scrape, percent in enumerate((30, 10, 30, 10, 20)):
        with_samples(held, {"steady": 20, "varies": percent}, {"steady": 1, "varies": 1}, at=NOW + 15 * scrape)
    plugin = UsageOvercommit(Discount(99, 1, 10))
    assert {"steady": "", "varies": "Insufficient cpu"} == rejections(plugin, pod("new", cpu="7"), held)
    scores = points(plugin, pod("new", cpu="1"), held)
    assert scores["steady"] > scores["varies"]


def test_the_last_sample_counts_at_least() -> None:
    """A jump that the mean hides counts at once."""
    held = half_used(10.0)
    with_samples(held, {"a": 70}, {"a": 30}, at=NOW + 60)
    assert "Insufficient cpu" == rejections(EXACT, pod("new", cpu="3500m"), held)["a"]


def test_placed_pods_count_at_once() -> None:
    """With their estimated usage, here their requests, before any sample shows them."""
    held = half_used()
    assert "" == rejections(PLUGIN, pod("new", cpu="4"), held)["a"]
    held.assume(pod("burst", cpu="4"), "a")
    assert "Insufficient cpu" == rejections(PLUGIN, pod("new", cpu="4"), held)["a"]


def test_the_emptier_node_by_usage_scores_higher() -> None:
    """As much as it is emptier, and not by requests."""
    held = half_used()
    scores = points(PLUGIN, pod("new", cpu="1", memory="1Gi"), held)
    assert scores["a"] > scores["b"]


@pytest.mark.parametrize(
    ("asked", "reasons"),
    [
        (pod("p", cpu="1"), ""),
        (pod("p", cpu="5"), "! Insufficient cpu"),
        (pod("p", memory="9Gi"), "! Insufficient memory"),
        (pod("p", extra={"example.com/foo": "1"}), "Insufficient example.com/foo"),
        (pod("p", extra={"example.com/foo": "3"}), "! Insufficient example.com/foo"),
        (pod("p", cpu="3", extra={"example.com/foo": "1"}), "Insufficient cpu, Insufficient example.com/foo"),
    ],
)
def test_other_resources_are_exact(asked: Any, reasons: str) -> None:
    """As in NodeResourcesFit, with its reasons."""
    there = pod("there", cpu="2", extra={"example.com/foo": "2"}, on="a")
    assert reasons == rejection(PLUGIN, asked, node("a", extra={"example.com/foo": "2"}), there)


def test_the_number_of_pods_is_exact() -> None:
    """However little they use."""
    assert "Too many pods" == rejection(PLUGIN, pod("p"), node("a", pods="1"), pod("there", on="a"))


@settings(deadline=None)
@given(cpu=st.integers(0, 12_000), memory=st.integers(0, 12 * GIB), there=st.integers(0, 9_000), foo=st.integers(0, 3))
def test_without_metrics_it_is_node_resources_fit(cpu: int, memory: int, there: int, foo: int) -> None:
    """Code by code, whatever is asked for."""
    held = cluster(large("a"), node("b", extra={"example.com/foo": "2"}), pod("p", cpu=f"{there}m", on="a"))
    new = pod("new", requests=asks(cpu=f"{cpu}m", memory=str(memory), extra={"example.com/foo": str(foo)}))
    expected = NodeResourcesFit().filter(held.view, new, ALL_ROWS)
    assert expected.tolist() == PLUGIN.filter(held.view, new, ALL_ROWS).tolist()


def test_the_note_says_what_is_counted_by_requests() -> None:
    """Empty when every node has metrics."""
    note = "1 of 2 nodes without cpu metrics, 1 of 2 nodes without memory metrics: counted by requests"
    assert note == PLUGIN.explain_note(half_used().view, pod("new"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"cpu": {"percentile": 40}}, "40 is not between 50 and 99.99"),
        ({"cpu": {"margin": 0.9}}, "0.9 is not between 1 and 10"),
        ({"memory": {"maxOvercommit": 0.5}}, "0.5 is not between 1 and 10"),
        ({"ignoredResourceGroups": ["a/b"]}, "is not a valid resource group"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, object], error: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(ConfigError, match=error):
        build_plugin("UsageOvercommit", UsageOvercommit, arguments)


def test_memory_has_defaults_of_its_own() -> None:
    """Also where only one of its arguments is set."""
    plugin = build_plugin("UsageOvercommit", UsageOvercommit, {"memory": {"margin": 1.3}})
    assert UsageOvercommit(memory=MemoryDiscount(99.9, 1.3, 1.2)) == plugin
