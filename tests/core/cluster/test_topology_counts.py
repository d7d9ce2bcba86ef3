"""Topology counts stay correct whenever they were first asked for; property tests are in tests/laws."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.core.cluster.topology import topology_counts as module
from trimtab.core.cluster.topology.pod_selectors import PodSelector
from trimtab.core.model.selectors import LabelSelector

ZONE = "topology.kubernetes.io/zone"
WEB = PodSelector(frozenset(("default",)), LabelSelector((("app", "web"),)))


def test_a_count_made_before_the_first_pod() -> None:
    """It has, by row and by domain, the pods that were added since."""
    held = cluster(node("a", labels={ZONE: "one"}), node("b", labels={ZONE: "one"}), node("c", labels={ZONE: "two"}))
    census = held.view.topology_counts
    count = census.count_selected((PodSelector(None, LabelSelector()),))
    domains = count.by_key(census.key(ZONE))
    assert [0.0, 0.0, 0.0] == domains.at_rows(slice(None)).tolist()

    held.assume(pod("first"), "b")

    assert [0.0, 1.0, 0.0] == census.refresh(count).rows.tolist()
    assert [1.0, 1.0, 0.0] == domains.at_rows(slice(None)).tolist()


def test_labels_that_change_under_a_count() -> None:
    """A placed pod that gets other labels, or is terminating, counts as it is now."""
    held = cluster(node("a"), pod("web", on="a", labels={"app": "web"}, version=1))
    alive = held.topology_counts.count_selected((WEB,), skip_terminating=True)
    present = held.topology_counts.count_selected((WEB,))
    assert (1.0, 1.0) == (alive.rows[0], present.rows[0])
    held.upsert_pod(replace(pod("web", on="a", labels={"app": "web"}, version=2), terminating=True))
    assert (0.0, 1.0) == (alive.rows[0], present.rows[0])
    held.upsert_pod(pod("web", on="a", labels={"app": "db"}, version=3))
    assert (0.0, 0.0) == (alive.rows[0], present.rows[0])


def test_label_sets_that_are_new_since_the_count() -> None:
    """They are found when the count is next asked for, and removed again."""
    held = cluster(node("a"), node("b"), pod("first", on="a", labels={"app": "web", "index": "0"}))
    count = held.topology_counts.count_selected((WEB,))
    for number in range(1, 9):
        held.upsert_pod(pod(f"p{number}", on="b", labels={"app": "web", "index": str(number)}))
    assert [1.0, 8.0] == held.topology_counts.refresh(count).rows.tolist()
    held.delete_pod("uid-p3")
    assert [1.0, 7.0] == count.rows.tolist()


@pytest.mark.parametrize("one_by_one", [0, 100], ids=["at once", "one by one"])
def test_pods_that_are_new_since_the_count_by_domain(one_by_one: int) -> None:
    """Few are added one by one and many at once, to rows, domains and totals; terminating pods only where they count."""
    held = cluster(node("a", labels={ZONE: "one"}), node("b", labels={ZONE: "one"}), node("c"))
    census = held.topology_counts
    count = census.count_selected((WEB,), skip_terminating=True, later=True)
    domains = count.by_key(census.key(ZONE))
    own = count.by_key(census.key(ZONE), np.array([True, False, True]))
    for number, on in enumerate("aabbc"):
        held.upsert_pod(pod(f"p{number}", on=on, labels={"app": "web", "index": str(number)}))
    held.upsert_pod(replace(pod("leaving", on="a", labels={"app": "web"}), terminating=True))
    with patch.object(module, "MAX_NEW_SLOTS", one_by_one):
        assert [2.0, 2.0, 1.0] == census.refresh(count).rows.tolist()
    assert ([4.0, 4.0], 4.0) == (domains.at_rows(slice(2)).tolist(), domains.total)
    assert ([2.0, 2.0], 2.0) == (own.at_rows(slice(2)).tolist(), own.total)


def test_counts_are_bounded() -> None:
    """However many selectors are counted, only so many counts are kept, and the last one is correct."""
    held = cluster(node("a"), pod("web", on="a", labels={"app": "web"}))
    with patch.object(module, "MIN_COUNTS", 8), patch.object(module, "MAX_CELLS", 8):
        for number in range(50):
            pick = PodSelector(frozenset((str(number),)), LabelSelector())
            held.topology_counts.memo(number, lambda pick=pick: held.topology_counts.count_selected((pick,)))  # type: ignore[misc]
        assert len(held.topology_counts.counts) <= 9
        assert 1.0 == held.topology_counts.memo("web", lambda: held.topology_counts.count_selected((WEB,))).rows[0]
