"""Disruption budgets are kept: by what they say, and by our own count."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.guards.replicas import budget, context, refused, replica, replicas
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.rescheduling.guards import UnderWay, owner_slot

FIRST, SECOND, THIRD = replicas(3)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (budget(), ""),
        (budget(disruptions_allowed=0), "disruption budget default/web allows no eviction"),
        (budget(disruptions_allowed=0, app="cart"), ""),
        (budget(disruptions_allowed=0, namespace="other"), ""),
        (budget(disruptions_allowed=0, selector=None), ""),
        (budget(observed=False), "disruption budget default/web was changed, and its status is not up to date"),
    ],
)
def test_what_a_budget_allows(found: PodDisruptionBudget, reason: str) -> None:
    """Of the pods that it selects in its namespace, and only while its status is up to date."""
    expected = ("disruption budget", reason) if reason else None
    assert expected == refused(context(FIRST, SECOND, THIRD, found), FIRST)


def test_two_budgets_for_one_pod() -> None:
    """The API server answers 500 to such an eviction."""
    found = refused(context(FIRST, SECOND, budget("b"), budget("a")), FIRST)
    assert ("several budgets", "2 disruption budgets cover it (a, b): it cannot be evicted") == found


@pytest.mark.parametrize(
    ("desired", "fields", "healthy"),
    [
        (2, {}, None),
        (3, {}, 3),
        (2, {"under_way": {SECOND.uid: UnderWay(owner_slot(SECOND))}}, 2),
    ],
)
def test_ready_pods_are_counted_here_too(desired: int, fields: dict[str, Any], healthy: int | None) -> None:
    """The status may be old: after the eviction as many pods must be ready as the budget needs."""
    reason = f"disruption budget default/web needs {desired} ready pods, of which {healthy} are there"
    expected = None if healthy is None else ("healthy pods", reason)
    found = context(FIRST, SECOND, THIRD, budget(desired_healthy=desired), **fields)
    assert expected == refused(found, FIRST)


def test_pods_of_other_owners_count_for_a_budget() -> None:
    """One that is not ready, or that the API server has already counted as disrupted, is missing."""
    other = replica("worker-1-0", owner="worker-1", labels={"app": "web"})
    needs = budget(desired_healthy=2)
    assert refused(context(FIRST, SECOND, other, needs), FIRST) is None
    for missing in (replace(other, ready=False), replace(other, terminating=True), replace(other, namespace="other")):
        assert "healthy pods" == (refused(context(FIRST, SECOND, missing, needs), FIRST) or ("",))[0]
    found = context(FIRST, SECOND, other, replace(needs, disrupted_pods=("worker-1-0",)))
    assert "healthy pods" == (refused(found, FIRST) or ("",))[0]
