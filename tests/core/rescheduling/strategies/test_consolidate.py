"""The coldest nodes are emptied if the others have room at all times."""

import pytest

from tests.core.rescheduling.measured_pods import context, large, measured, running, suggested
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.strategies.consolidate import Consolidate

NODES = [large("a"), large("b"), large("c")]
COLD = [running("x", on="a", owner="x"), running("y", on="a", owner="y")]
BUSY = [running("p", on="b", owner="p"), running("q", on="c", owner="q")]


def used(b: list[float], c: list[float], *others: Pod, x: float = 500.0) -> Cluster:
    """Node a uses 6% of its CPU, and its two pods `x` and 100 millicores."""
    usage = {"x": [x] * len(b), "y": [100.0] * len(b), "p": b, "q": c}
    return measured(*NODES, *COLD, *BUSY, *others, cpu=usage)


@pytest.mark.parametrize(
    ("b", "c", "expected"),
    [
        ([5000, 5000], [4000, 4000], {"b"}),
        ([7000, 5000], [4000, 4000], {"b", "c"}),
        ([7150, 5000], [4000, 4000], {"c"}),
        ([7150, 5000], [4000, 7150], None),
    ],
)
def test_room_at_all_times(b: list[float], c: list[float], expected: set[str] | None) -> None:
    """Targets stay a tenth below the limit of 80% in each snapshot; the fullest that has room takes a pod."""
    found = list(Consolidate().suggest(context(used(b, c))))
    assert expected == (set(found[0].targets) if found else None)


def test_suggestion() -> None:
    """All pods leave, and their leaving is worth more than it costs."""
    (found,) = Consolidate().suggest(context(used([5000], [5000])))
    assert ("a", {"uid-x", "uid-y"}, 64.0) == (found.node, found.pods, found.worth)
    assert "the node is nearly idle, and its 2 pods fit elsewhere at all times" == found.reason


@pytest.mark.parametrize(
    ("other", "empties"),
    [
        (running("agent", on="a", owner="agent", kind="DaemonSet"), True),
        (running("bare", on="a", owner=""), False),
        (running("large", on="a", owner="large", cpu="8"), True),
        (running("too-large", on="a", owner="large", cpu="11"), False),
        (running("bound", on="a", owner="bound", selector={"disk": "ssd"}), False),
    ],
)
def test_pods_that_matter(other: Pod, empties: bool) -> None:
    """Pods of a DaemonSet go with the node; a pod that cannot leave, or fits nowhere else, keeps it."""
    assert empties == bool(suggested(Consolidate(), used([5000], [5000], other)))


def test_not_cold() -> None:
    """A node that uses 30% of its limit at some time is not cold."""
    assert {} == suggested(Consolidate(), used([5000], [5000], x=2400.0))


def test_several_nodes() -> None:
    """The coldest come first, and an emptied node takes no pods."""
    cluster = used([1000], [4000])
    assert ["a"] == list(suggested(Consolidate(), cluster))
    found = list(Consolidate(max_nodes=2).suggest(context(cluster)))
    assert [("a", {"c"}), ("b", {"c"})] == [(each.node, each.targets) for each in found]
