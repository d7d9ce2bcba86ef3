"""LoadVariationRiskBalancing scores mean and variation of the worse resource, and missing data."""

from __future__ import annotations

import pytest

from tests.build import cluster, pod
from tests.core.plugins.measured_cluster import NOW, large, loaded, place_all, points, with_samples
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.readings import Reading, Statistic, Unit
from trimtab.core.model.resources import pod_requests
from trimtab.core.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing

PLAIN, STRICT = LoadVariationRiskBalancing(), LoadVariationRiskBalancing(strict=True)
NOTHING = pod("nothing", requests=pod_requests([]))


def varied(cpu: tuple[float, float], memory: tuple[float, float] = (0.0, 0.0)) -> Cluster:
    """One node `a` with mean and deviation of each, given by the source, as shares of 10 cores and 10 GiB."""
    held = cluster(large("a"))
    readings = [
        Reading("meter", resource, ("a",), (value,), (NOW - 10,), unit=Unit.FRACTION, statistic=statistic)
        for resource, (mean, deviation) in (("cpu", cpu), ("memory", memory))
        for statistic, value in (
            (Statistic.LATEST, mean),
            (Statistic.MEAN, mean),
            (Statistic.DEVIATION, deviation),
        )
    ]
    held.ingest_samples(tuple(readings), NOW)
    return held


VECTORS = [(0.0, 0.0, 100), (0.3, 0.1, 80), (0.6, 0.1, 65), (0.6, 0.3, 55), (0.9, 0.1, 50), (1.0, 0.0, 50)]


@pytest.mark.parametrize(("mean", "deviation", "expected"), VECTORS)
def test_the_original(mean: float, deviation: float, expected: int) -> None:
    """With `strict` mean and deviation are halved: a node that is 100 % busy has half of the points."""
    assert {"a": expected} == points(STRICT, NOTHING, varied((mean, deviation)))


@pytest.mark.parametrize(
    ("mean", "deviation", "expected"),
    [
        (0.0, 0.0, 100),
        (0.3, 0.1, 60),
        (0.6, 0.1, 30),
        (0.6, 0.3, 10),
        (0.9, 0.05, 5),
        (1.0, 0.0, 1.839),
        (1.0, 0.1, 0.249),
    ],
)
def test_the_whole_range(monkeypatch: pytest.MonkeyPatch, mean: float, deviation: float, expected: float) -> None:
    """Without it the points are what mean and deviation leave, and more risk is less even beyond the end."""
    held = varied((mean, deviation))
    monkeypatch.setattr(held.load, "estimate", lambda each, resource: (0.0, 0.0, "siblings"))
    assert {"a": pytest.approx(expected, abs=0.001)} == points(PLAIN, NOTHING, held)


@pytest.mark.parametrize(("plugin", "expected"), [(PLAIN, 30.0), (STRICT, 65.0)])
def test_the_worse_resource(
    monkeypatch: pytest.MonkeyPatch, plugin: LoadVariationRiskBalancing, expected: float
) -> None:
    """The resource with the higher risk decides."""
    held = varied((0.1, 0.1), (0.6, 0.1))
    monkeypatch.setattr(held.load, "estimate", lambda each, resource: (0.0, 0.0, "siblings"))
    assert {"a": pytest.approx(expected)} == points(plugin, NOTHING, held)


@pytest.mark.parametrize(
    ("margin", "sensitivity", "deviation", "expected"),
    [(2.0, 1.0, 0.05, 75), (1.0, 2.0, 0.16, 60), (1.0, 0.0, 0.05, 80), (0.0, 1.0, 0.05, 80), (9.0, 1.0, 0.2, 30)],
)
def test_arguments(margin: float, sensitivity: float, deviation: float, expected: int) -> None:
    """The deviation counts as a multiple of its root, and never for more than everything."""
    plugin = LoadVariationRiskBalancing(margin, sensitivity, strict=True)
    assert {"a": expected} == points(plugin, NOTHING, varied((0.4, deviation)))


def test_the_pod_counts() -> None:
    """The original adds the pod's request; the node has 10 cores."""
    assert {"a": 90} == points(STRICT, pod("p", cpu="2"), varied((0.0, 0.0)))


def test_one_sample_says_nothing_of_variation() -> None:
    """With one sample the deviation is taken for half of the most it can be, not for none."""
    held = loaded(a=(50.0, 0.0))
    assert 26.0 > points(PLAIN, NOTHING, held)["a"] > 20.0
    assert {"a": 75} == points(STRICT, NOTHING, held)


def test_no_measurement_is_not_the_best() -> None:
    """A node of which a resource is not measured has half of the points of its requests at most; the original left it out."""
    held = with_samples(cluster(large("a"), large("b"), large("c")), {"a": 0.0, "b": 0.0}, {"a": 0.0})
    for _ in range(2):
        held = with_samples(held, {"a": 0.0, "b": 0.0}, {"a": 0.0}, NOW + 15)
    told = points(PLAIN, pod("p", cpu="100m", memory="100Mi"), held)
    assert told["a"] > 90 > 50 >= told["b"] > 45
    assert told["b"] >= told["c"] > 45
    assert {"a": 99, "b": 99, "c": 0} == points(STRICT, pod("p", cpu="200m"), held)


def test_bursts_are_felt() -> None:
    """Equal pods go to equal nodes in turn, although no measurement shows them yet."""
    held = loaded(a=(10.0, 10.0), b=(10.0, 10.0), c=(10.0, 10.0))
    told = place_all(PLAIN, held, [pod(f"p{number}", cpu="10m", memory="1Mi") for number in range(9)])
    assert [3, 3, 3] == [told.count(name) for name in "abc"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"safe_variance_margin": -1.0}, "safeVarianceMargin: -1 must be 0 or more"),
        ({"safe_variance_margin": float("nan")}, "safeVarianceMargin: nan"),
        ({"safe_variance_sensitivity": -0.5}, "safeVarianceSensitivity: -0.5 must be"),
        ({"safe_variance_sensitivity": float("inf")}, "safeVarianceSensitivity: inf"),
    ],
)
def test_senseless_arguments(arguments: dict[str, float], words: str) -> None:
    """Invalid arguments are rejected with the field and the value."""
    with pytest.raises(ValueError, match=words):
        LoadVariationRiskBalancing(**arguments)  # type: ignore[arg-type]
