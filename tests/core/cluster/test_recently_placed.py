"""Recently placed pods, for any selection of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.build import cluster, node, pod
from trimtab.core.cluster import recently_placed
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.recently_placed import recent_count, recent_sum
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import ALL_ROWS, Rows
from trimtab.core.load.view import LoadView
from trimtab.core.model.resources import CPU
from trimtab.core.tables import Floats

ONE = slice(1, 2)
PICKED = np.array([2, 0], dtype=np.intp)


class FixedPlacementTimes(LoadView):
    """Knows only when pods were placed."""

    def __init__(self, times: dict[str, float], held: Cluster) -> None:
        super().__init__()
        self.times = np.full(len(held.pod_table.row), np.nan)
        for name, at in times.items():
            self.times[held.pod_table.slot[f"uid-{name}"]] = at

    @property
    def placed_at(self) -> Floats:
        return self.times


@pytest.fixture(params=[0, recently_placed.SMALL_SELECTION])
def view(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> View:
    """Three nodes; both ways of finding recent pods must agree."""
    monkeypatch.setattr(recently_placed, "SMALL_SELECTION", request.param)
    placed = [pod("old", cpu="1", on="a"), pod("new", cpu="2", on="b"), pod("newer", cpu="3", on="b")]
    held = cluster(node("a"), node("b"), node("c"), *placed, pod("elsewhere", on="nowhere"))
    load = FixedPlacementTimes({"old": 10.0, "new": 20.0, "newer": 30.0, "elsewhere": 30.0}, held)
    return View(
        held.node_table, load, on_node=held.on_node, pod_table=held.pod_table, topology_counts=held.topology_counts
    )


@pytest.mark.parametrize(("rows", "expected"), [(ALL_ROWS, [0, 2, 0]), (ONE, [2]), (PICKED, [0, 0])])
def test_one_time_for_all_rows(view: View, rows: Rows, expected: list[int]) -> None:
    """Pods placed after that time count on their row, others do not."""
    assert expected == recent_count(view, 10.0, rows).tolist()


def test_one_time_per_row(view: View) -> None:
    """No pod is recent where the time is unknown."""
    assert [1, 1, 0] == recent_count(view, np.array([0.0, 20.0, 0.0]), ALL_ROWS).tolist()
    assert [1, 0, 0] == recent_count(view, np.array([0.0, np.nan, 0.0]), ALL_ROWS).tolist()


def test_sum_of_amounts(view: View) -> None:
    """Each recent pod counts with its amount."""
    assert [0, 5000, 0] == recent_sum(view, 10.0, ALL_ROWS, lambda each: each.requests.of(CPU)).tolist()


def test_overlays(view: View) -> None:
    """A pod removed by an overlay does not count, and an added one is recent."""
    gone = next(each for each in view.pods_on("b").values() if each.name == "newer")
    assert [0, 1, 1] == recent_count(view.with_pods({"c": [pod("added")]}, {"b": [gone]}), 10.0, ALL_ROWS).tolist()
