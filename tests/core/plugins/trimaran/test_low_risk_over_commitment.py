"""LowRiskOverCommitment weighs limits and load as in KEP 357, and missing metrics."""

from __future__ import annotations

import numpy as np
import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.measured_cluster import NOW, large, loaded, points, with_samples
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.framework.resource_amounts import ResourceValues
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Statistic, Unit
from trimtab.core.model.resources import ContainerRequests, pod_requests
from trimtab.core.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from trimtab.wire.quantity import nanos

PLAIN, STRICT = LowRiskOverCommitment(), LowRiskOverCommitment(strict=True)
BY_LIMITS = LowRiskOverCommitment(risk_limit_weights=ResourceValues((("cpu", 1.0), ("memory", 1.0))), strict=True)


def bursting(name: str, cpu: str, limit: str, on: str = "") -> Pod:
    """A pod whose limit is above its request."""
    return pod(name, requests=pod_requests([ContainerRequests({"cpu": nanos(cpu)}, {"cpu": nanos(limit)})]), on=on)


def varying(held: Cluster, mean: float, deviation: float) -> Cluster:
    """The node `a` with a mean and a deviation of CPU that its source gives, and idle memory."""
    readings = [
        Reading("meter", resource, ("a",), (value,), (NOW - 10,), unit=Unit.FRACTION, statistic=statistic)
        for resource, figures in (("cpu", (mean, mean, deviation)), ("memory", (0.0, 0.0, 0.0)))
        for statistic, value in zip((Statistic.LATEST, Statistic.MEAN, Statistic.DEVIATION), figures, strict=True)
    ]
    held.ingest_samples(tuple(readings), NOW)
    return held


def kep_357() -> Cluster:
    """Story 2 of the proposal, node-28: 3568m of 3910m requested and 4380m of limits, both with a pod that requests 100m."""
    return varying(cluster(node("a", cpu="3910m"), bursting("there", "3468m", "4280m", on="a")), 0.34, 0.24)


@pytest.mark.parametrize(("weight", "expected"), [(1.0, 42), (0.0, 98), (0.5, 70)])
def test_the_proposal(weight: float, expected: int) -> None:
    """Limits alone are a risk of .579, load alone one of .015, and half of each leaves 70 points."""
    weights = ResourceValues((("cpu", weight),))
    plugin = LowRiskOverCommitment(smoothing_window_size=1, risk_limit_weights=weights, strict=True)
    assert {"a": expected} == points(plugin, bursting("p", "100m", "100m"), kep_357())


def test_smoothing() -> None:
    """A figure that is the mean of several samples varies less than the load does, so its deviation is raised."""
    calm, wild = (
        points(LowRiskOverCommitment(size, strict=True), bursting("p", "100m", "100m"), kep_357())["a"]
        for size in (1, 5)
    )
    assert (70, 54) == (calm, wild)


@pytest.mark.parametrize(("limit", "expected"), [("6", 100), ("10", 100), ("15", 50), ("5", 100), ("1", 100)])
def test_limits(limit: str, expected: int) -> None:
    """The limit risk is the part of limits beyond the node, relative to the gap between requests and limits."""
    assert {"a": expected} == points(BY_LIMITS, bursting("p", "5", limit), loaded(a=(0.0, 0.0)))


@pytest.mark.parametrize(
    ("mean", "deviation", "expected"),
    [(0.0, 0.0, 100), (0.5, 0.0, 100), (0.51, 0.0, 0), (1.0, 0.0, 0), (0.25, 0.05, 100), (0.9, 0.05, 0)],
)
def test_load(mean: float, deviation: float, expected: int) -> None:
    """The risk of load is how likely it is above the sum of requests, here half of the node."""
    plugin = LowRiskOverCommitment(1, ResourceValues((("cpu", 0.0), ("memory", 0.0))), strict=True)
    held = varying(cluster(large("a"), bursting("there", "5", "10", on="a")), mean, deviation)
    assert {"a": expected} == points(plugin, bursting("p", "100m", "100m"), held)


def test_limits_bound_the_load() -> None:
    """Where limits are less than the node, load cannot pass them: what lies between requests and limits is what counts."""
    plugin = LowRiskOverCommitment(1, ResourceValues((("cpu", 0.0),)), strict=True)
    told = {}
    for limit in ("5", "6", "7", "10"):
        held = varying(cluster(large("a"), bursting("there", "5", limit, on="a")), 0.5, 0.1)
        told[limit] = points(plugin, bursting("p", "100m", "100m"), held)["a"]
    assert 100 == told["5"] > told["6"] > told["7"] > told["10"] == 50


def test_an_empty_node_is_no_risk() -> None:
    """What a node without pods uses is not theirs."""
    assert {"a": 100} == points(STRICT, bursting("p", "1", "1"), varying(cluster(large("a")), 0.2, 0.1))


def test_pods_without_wishes() -> None:
    """A pod without requests and limits is no concern of this plugin; the original has 0 points for every node."""
    held = loaded(a=(0.0, 0.0))
    assert PLAIN.score(held.view, pod("p"), ALL_ROWS) is None
    assert {"a": 0} == points(STRICT, pod("p"), held)


def test_no_measurement_is_not_the_best() -> None:
    """A node of which a resource is not measured has half of the points at most; the original took its load for none."""
    held = with_samples(cluster(large("a"), large("b"), large("c")), {"a": 0.0, "b": 0.0}, {"a": 0.0})
    told = points(PLAIN, bursting("p", "100m", "100m"), held)
    assert told["a"] > 99 > 51 > told["b"] > 45
    assert told["b"] >= told["c"] > 45
    assert {"a": 100, "b": 100, "c": 0} == points(STRICT, bursting("p", "100m", "100m"), held)


def test_lower_limits_decide_among_equals() -> None:
    """Without any risk the node with lower limits is the better one."""
    held = cluster(large("a"), large("b"), bursting("there", "1", "2", on="a"), bursting("too", "1", "1", on="b"))
    told = points(PLAIN, bursting("p", "1", "1"), with_samples(held, {"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.0}))
    assert told["b"] > told["a"] > 98


def test_some_rows_as_all() -> None:
    """One row, computed in plain numbers, gets the same score as among many, before and after a change."""
    names = [f"n{number:02}" for number in range(40)]
    held = cluster(*map(large, names), *(bursting(f"on-{name}", "2", "4", on=name) for name in names))
    for lap in range(3):
        shares = {name: 5.0 + number + lap for number, name in enumerate(names)}
        with_samples(held, shares, shares, NOW + 15 * lap)
    for plugin in (PLAIN, STRICT):
        for change in (None, bursting("more", "1", "3", on="n07")):
            if change is not None:
                held.upsert_pod(change)
            every = plugin.score(held.view, bursting("p", "1", "2"), ALL_ROWS)
            alone = [plugin.score(held.view, bursting("p", "1", "2"), slice(row, row + 1)) for row in range(len(names))]
            assert every is not None
            assert np.concatenate(alone).tolist() == every.tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"smoothing_window_size": 0}, "smoothingWindowSize: 0 must be 1 or more"),
        (
            {"risk_limit_weights": ResourceValues((("cpu", 1.5),))},
            "riskLimitWeights: 1.5 for cpu is not between 0 and 1",
        ),
        ({"risk_limit_weights": ResourceValues((("cpu", float("nan")),))}, "riskLimitWeights: nan for cpu"),
        ({"risk_limit_weights": ResourceValues((("gpu", 0.5),))}, "riskLimitWeights: 'gpu' is neither cpu nor memory"),
    ],
)
def test_senseless_arguments(arguments: dict[str, object], words: str) -> None:
    """Invalid arguments are rejected with the field, the value and what is allowed."""
    with pytest.raises(ValueError, match=words):
        LowRiskOverCommitment(**arguments)  # type: ignore[arg-type]
