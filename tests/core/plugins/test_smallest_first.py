"""The order of pods of different size in the queue, and that no large pod starves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import pod
from tests.laws.cluster_strategies import CPUS, MEMORIES
from trimtab.core.plugins.smallest_first import SmallestFirst

sizes = st.tuples(st.sampled_from(CPUS), st.sampled_from(MEMORIES))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"cpu": "100m"}, {"cpu": "4"}),
        ({"memory": "1Gi"}, {"memory": "16Gi"}),
        ({}, {"cpu": "100m"}),
        ({"cpu": "2", "memory": "2Gi"}, {"cpu": "100m", "memory": "16Gi"}),
        ({"cpu": "8", "priority": 1}, {"cpu": "100m"}),
        ({"cpu": "8", "priority": 2**31 - 1}, {"cpu": "8", "priority": 2**31 - 2}),
    ],
)
def test_small_before_large(first: dict[str, object], second: dict[str, object]) -> None:
    """Of pods queued together the smaller goes first, by its larger resource; but priority goes before size."""
    order = SmallestFirst().queue_sort_key
    assert order(pod("a", **first), 5.0) < order(pod("b", **second), 5.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "penalty"),
    [({}, 0), ({"cpu": "4"}, 30), ({"memory": "8Gi"}, 15), ({"cpu": "8"}, 60), ({"cpu": "64", "memory": "1Ti"}, 60)],
)
def test_penalty(asked: dict[str, str], penalty: float) -> None:
    """The penalty grows with the size and ends at the longest one."""
    assert (0, 100 + penalty) == SmallestFirst().queue_sort_key(pod("a", **asked), 100.0)  # type: ignore[arg-type]


@given(sizes, sizes, st.floats(0, 2e9), st.floats(0, 600), st.floats(0.01, 1e6))
def test_no_starving(large: tuple[str, str], small: tuple[str, str], since: float, longest: float, more: float) -> None:
    """Whoever arrived more than the longest penalty later goes later, whatever the sizes are."""
    order = SmallestFirst(longest_penalty=longest).queue_sort_key
    earlier = order(pod("a", cpu=large[0], memory=large[1]), since)
    assert earlier < order(pod("b", cpu=small[0], memory=small[1]), since + longest + more)


def test_without_penalty() -> None:
    """With no penalty the order is that of arrival."""
    order = SmallestFirst(longest_penalty=0).queue_sort_key
    assert order(pod("a", cpu="8"), 1.0) < order(pod("b"), 2.0)


@pytest.mark.parametrize(
    "bad",
    [{"longest_penalty": -1.0}, {"longest_penalty": float("nan")}, {"large_cpu": 0.0}, {"large_memory": float("inf")}],
)
def test_bad_arguments(bad: dict[str, float]) -> None:
    """A penalty below nothing and sizes that cannot divide are rejected."""
    with pytest.raises(ValueError, match="must be"):
        SmallestFirst(**bad)
