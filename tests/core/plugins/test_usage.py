"""What Volcano's Usage rejects and how it ranks nodes, as fixed and with `strict`."""

from __future__ import annotations

import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.measured_cluster import NOW, large, loaded, place_all, points, rejections, with_samples
from trimtab.core.framework.load_scoring.utilisation import RESOURCES
from trimtab.core.model.readings import Reading
from trimtab.core.plugins.usage import Thresholds, Usage

WEB = pod("web", cpu="100m", memory="102.4Mi")
STRICT = Usage(strict=True)


def test_thresholds() -> None:
    """Above 80 % with the pod is rejected, and an eviction could help."""
    held = loaded(cool=(78, 78), cpu=(79.5, 10), memory=(10, 90))
    told = rejections(Usage(), WEB, held)
    assert {
        "cool": "",
        "cpu": "node(s) whose CPU is used above 80%",
        "memory": "node(s) whose memory is used above 80%",
    } == told
    assert {"cool": "", "cpu": "", "memory": "node(s) whose memory is used above 80%"} == rejections(STRICT, WEB, held)


def test_a_pod_that_is_too_much_by_itself() -> None:
    """Where the pod alone passes the threshold no eviction helps."""
    assert "! node(s) whose CPU is used above 80%" == rejections(Usage(), pod("big", cpu="9"), loaded(a=(1, 1)))["a"]


def test_no_threshold() -> None:
    """A threshold of 0 is no threshold."""
    assert {"a": ""} == rejections(Usage(thresholds=Thresholds(0, 0)), WEB, loaded(a=(99, 99)))


def test_no_data_is_not_idle() -> None:
    """A node without data passes and is scored by requests, not as if it were idle."""
    held = cluster(large("a"), large("b"), pod("big", cpu="5", memory="5Gi", on="a"))
    with_samples(held, {"b": 20}, {"b": 20})
    assert {"a": "", "b": ""} == rejections(Usage(), WEB, held)
    told = points(Usage(), WEB, held)
    assert told["b"] > told["a"] > 0


@pytest.mark.parametrize(
    ("cpu", "memory", "weights", "expected"),
    [(0, 0, (1, 1), 100), (50, 20, (1, 1), 65), (50, 20, (3, 1), 57.5), (100, 100, (1, 1), 0)],
)
def test_strict_scores(cpu: float, memory: float, weights: tuple[int, int], expected: float) -> None:
    """The weighted mean of what is free of both."""
    plugin = Usage(cpu_weight=weights[0], memory_weight=weights[1], strict=True)
    assert {"a": expected} == points(plugin, WEB, loaded(a=(cpu, memory)))


def test_what_has_just_begun_counts() -> None:
    """The average of ten minutes does not hide a load that began now; the original waits for it."""
    held = cluster(large("a"))
    for number in range(10):
        with_samples(held, {"a": 10}, {"a": 10}, at=NOW + 60 * number)
    with_samples(held, {"a": 70}, {"a": 10}, at=NOW + 600)
    assert pytest.approx(59, abs=0.1) == points(Usage(), WEB, held)["a"]
    assert 80 < points(STRICT, WEB, held)["a"]


@pytest.mark.parametrize("plugin", [Usage(), STRICT])
def test_a_burst_spreads(plugin: Usage) -> None:
    """Shadow load: pods count from the moment they are placed."""
    gone = place_all(plugin, loaded(a=(20, 20), b=(20, 20), c=(20, 20)), [pod(f"p{n}", cpu="500m") for n in range(9)])
    assert (3, 3, 3) == tuple(map(gone.count, "abc"))


def test_nonsense_is_refused() -> None:
    """Thresholds and weights out of range are named, with what is allowed."""
    with pytest.raises(ValueError, match="mem: 120 is not between 0 and 100"):
        Thresholds(80, 120)
    with pytest.raises(ValueError, match="both 0"):
        Usage(cpu_weight=0, memory_weight=0)


def test_a_node_that_offers_nothing_where_nothing_is_asked_of_it() -> None:
    """A node without memory and a limit of 0 give no NaN: the other limit still applies, and is unresolvable."""
    held = cluster(large("a"), node("none", cpu="0", memory="0"))
    used = {"a": 500.0, "none": 500.0}
    held.ingest_samples(
        tuple(Reading("meter", each, tuple(used), tuple(used.values()), (NOW,) * 2) for each in RESOURCES), NOW
    )
    told = rejections(Usage(Thresholds(cpu=80, mem=0)), WEB, held)
    assert {"a": "", "none": "! node(s) whose CPU is used above 80%"} == told
