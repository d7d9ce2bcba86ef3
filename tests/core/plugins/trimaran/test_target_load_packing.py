"""TargetLoadPacking packs nodes up to its target; missing and late metrics."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, pod
from tests.core.plugins.measured_cluster import NOW, large, loaded, place_all, points, with_samples
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.resource_amounts import ResourceAmounts
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import ContainerRequests, PodRequests, pod_requests
from trimtab.core.plugins.trimaran.target_load_packing import TargetLoadPacking
from trimtab.wire.quantity import nanos

PLAIN, STRICT = TargetLoadPacking(), TargetLoadPacking(strict=True)
EMPTY = pod("empty", requests=pod_requests([]))  # without containers there is nothing to predict
CURVE = {0.0: 40, 10.0: 55, 20.0: 70, 40.0: 100, 50.0: 33, 70.0: 20, 90.0: 7, 100.0: 0, 130.0: 0}


def asking(request: str = "", limit: str = "") -> ContainerRequests:
    asked, bound = ({"cpu": nanos(each)} if each else {} for each in (request, limit))
    return ContainerRequests(asked, bound)


def wanting(*containers: ContainerRequests, overhead: str = "0") -> PodRequests:
    return pod_requests(containers, overhead={"cpu": nanos(overhead)})


@pytest.mark.parametrize(("used", "expected"), [*CURVE.items(), (40.1, 40)])
def test_the_original(used: float, expected: int) -> None:
    """With `strict` the curve is the original's, with its step just above the target."""
    assert {"a": expected} == points(STRICT, EMPTY, loaded(a=(used, 0.0)))


@pytest.mark.parametrize(("used", "expected"), [*CURVE.items(), (40.1, 98.7), (45.0, 36.7)])
def test_the_curve(used: float, expected: float) -> None:
    """Without it the curve is the same but for the step, which is five percent wide."""
    assert {"a": pytest.approx(expected, abs=0.5)} == points(PLAIN, EMPTY, loaded(a=(used, 0.0)))


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        (wanting(), 40),
        (wanting(asking("1")), 63),
        (wanting(asking("1", "2"), asking("", "200m")), 73),
        (wanting(asking()), 55),
        (wanting(asking(), asking(), overhead="250m"), 74),
    ],
)
def test_prediction(demand: PodRequests, expected: int) -> None:
    """A container is taken to use its limit, or one and a half times its request, or a core; overhead comes on top."""
    assert {"a": expected} == points(STRICT, pod("p", requests=demand), loaded(a=(0.0, 0.0)))


def test_arguments_of_the_prediction() -> None:
    """What containers that name nothing, or no limit, are taken to use can be set."""
    plugin = TargetLoadPacking(ResourceAmounts((("cpu", 400),)), "2", strict=True)
    assert {"a": 58} == points(plugin, pod("p", requests=wanting(asking(), asking("400m"))), loaded(a=(0.0, 0.0)))


def test_siblings_know_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured of pods like this one goes over what its containers say."""
    held = loaded(a=(0.0, 0.0))
    monkeypatch.setattr(held.load, "estimate", lambda each, resource: (2000.0, 0.0, "siblings"))
    assert {"a": 70} == points(PLAIN, pod("p", requests=wanting(asking("", "1"))), held)


@pytest.mark.parametrize(("placed_at", "expected"), [(NOW - 71, 55), (NOW - 70, 55), (NOW - 69, 70), (NOW, 70)])
def test_the_original_adds_what_is_not_reported(placed_at: float, expected: int) -> None:
    """With `strict`, pods count that were placed less than a minute before the measurement, or after it."""
    held = with_samples(cluster(large("a")), {"a": 10.0}, {"a": 0.0})
    held.upsert_pod(replace(pod("young", requests=wanting(asking("", "1")), on="a"), started=placed_at))
    assert {"a": expected} == points(STRICT, EMPTY, held)


def test_bursts_are_felt() -> None:
    """Pods that no measurement shows yet count: a burst goes on to the next node where the target is passed."""
    held = loaded(a=(30.0, 0.0), b=(20.0, 0.0))
    burst = [pod(f"p{number}", cpu="500m") for number in range(6)]
    assert {"a", "b"} == set(place_all(PLAIN, held, burst))


def test_no_measurement_is_not_the_best() -> None:
    """A node without data has half of the points that its requests would give, and the original's 0 with `strict`."""
    held = with_samples(cluster(large("a"), large("b"), pod("on", cpu="4", on="b")), {"a": 35.0}, {"a": 0.0})
    assert {"a": pytest.approx(92.5), "b": pytest.approx(50.0)} == points(PLAIN, EMPTY, held)
    assert {"a": pytest.approx(92, abs=1), "b": 0} == points(STRICT, EMPTY, held)


def test_stale_measurements_count_less_and_then_nothing() -> None:
    """While a sample is getting on requests count for half, and once it is stale for all."""
    held = loaded(a=(20.0, 0.0))
    assert [70.0, 45.0, 20.0] == [pytest.approx(points(PLAIN, EMPTY, aged(held, by))["a"]) for by in (0, 200, 400)]


def aged(held: Cluster, seconds: float) -> Cluster:
    held.age_load(NOW + seconds)
    return held


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target_utilization": 0}, "targetUtilization: 0 is not between 1 and 99"),
        ({"target_utilization": 100}, "targetUtilization: 100 is not"),
        ({"default_requests_multiplier": "x"}, "defaultRequestsMultiplier: 'x' is not a number such as \"1.5\""),
        ({"default_requests_multiplier": "-1"}, "defaultRequestsMultiplier: '-1'"),
        ({"default_requests_multiplier": "nan"}, "defaultRequestsMultiplier: 'nan'"),
        ({"default_requests_multiplier": "inf"}, "defaultRequestsMultiplier: 'inf'"),
    ],
)
def test_senseless_arguments(arguments: dict[str, object], words: str) -> None:
    """Invalid arguments are rejected with the field, the value and what is allowed."""
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        TargetLoadPacking(**arguments)  # type: ignore[arg-type]


def test_signature() -> None:
    """Pods of one template are one question, and those of another owner are not."""
    one: Pod = pod("one", cpu="1")
    assert PLAIN.signature(one) == PLAIN.signature(pod("other", cpu="1"))
    assert PLAIN.signature(one) != PLAIN.signature(pod("other", cpu="2"))
