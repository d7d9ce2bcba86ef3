"""What the disruption of a pod must be worth."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests import build
from trimtab.core.model.pod import DELETION_COST, EVICT_ANYWAY, SAFE_LOCAL_VOLUMES, Pod, PodSpec
from trimtab.core.rescheduling.disruption import disruption_cost, start_up_time

ORDINARY = build.pod("web", cpu="100m")


def ready_after(seconds: float, **more: Any) -> Pod:
    return replace(ORDINARY, started=100.0, ready_since=100.0 + seconds, **more)


def changed(**fields: Any) -> Pod:
    return replace(ORDINARY, **fields)


def guaranteed() -> Pod:
    amounts = (("cpu", 100), ("memory", 2**20))
    return changed(requests=replace(ORDINARY.requests, amounts=amounts, limits=amounts))


def test_an_ordinary_pod_costs_what_is_required() -> None:
    """Exactly, and there is nothing to explain; also with siblings that started quickly, or whose start was not seen."""
    assert (32.0, "") == disruption_cost(ORDINARY, 32.0)
    assert (32.0, "") == disruption_cost(ORDINARY, 32.0, [ready_after(60.0), ORDINARY])


@pytest.mark.parametrize(
    ("pod", "factor", "why"),
    [
        (changed(priority=1000), 1.333, "priority 1000"),
        (changed(priority=1_000_000_000), 2.0, "priority 1000000000"),
        (changed(priority=-1000), 0.75, "priority -1000"),
        (guaranteed(), 1.25, "Guaranteed"),
        (build.pod("idle"), 0.8, "BestEffort"),
        (changed(restarts=1), 1.1, "restarted once"),
        (changed(restarts=3), 1.3, "restarted 3 times"),
        (changed(restarts=300), 1.5, "restarted 300 times"),
        (changed(annotations={DELETION_COST: "1000"}), 1.333, "deletion cost 1000"),
        (changed(annotations={DELETION_COST: "-2147483648"}), 0.5, "deletion cost -2147483648"),
        (changed(annotations={DELETION_COST: "0"}), 1.0, ""),
        (changed(spec=PodSpec(local_volumes=("cache",))), 1.5, "local data"),
        (changed(spec=PodSpec(local_volumes=("cache",)), annotations={SAFE_LOCAL_VOLUMES: "cache"}), 1.0, ""),
        (changed(spec=PodSpec(local_volumes=("cache",)), annotations={EVICT_ANYWAY: ""}), 1.0, ""),
        (changed(priority=1000, restarts=1), 1.467, "priority 1000, restarted once"),
    ],
)
def test_factors(pod: Pod, factor: float, why: str) -> None:
    """Each with its reason in words."""
    found = disruption_cost(pod, 100.0)
    assert (pytest.approx(100 * factor, abs=0.1), why) == (found.cost, found.why)


@pytest.mark.parametrize(("seconds", "factor"), [(61, 1.006), (120, 1.25), (240, 1.5), (3600, 2.0)])
def test_start_up_time(seconds: float, factor: float) -> None:
    """The pod's own is one of its workload's; longer ones count less and less."""
    found = disruption_cost(ORDINARY, 100.0, [ready_after(seconds)])
    assert (pytest.approx(100 * factor, abs=0.1), f"starts in {seconds} s") == (found.cost, found.why)


def test_a_pod_that_became_ready_again_says_little() -> None:
    """One that was not ready for a while is outvoted; a restarted one does not count, nor one whose start is unknown."""
    assert 70.0 == start_up_time(
        [ready_after(70.0), ready_after(9000.0), ready_after(65.0), ready_after(80.0, restarts=1)]
    )
    assert 65.0 == start_up_time([ready_after(65.0), ready_after(9000.0)])
    assert None is start_up_time([ORDINARY, ready_after(80.0, restarts=1)])
    assert None is start_up_time([replace(ORDINARY, ready_since=5.0)])


def test_bounds() -> None:
    """However many reasons there are."""
    dear = replace(guaranteed(), priority=10**9, restarts=9, annotations={DELETION_COST: "2000000000"})
    assert 400.0 == disruption_cost(dear, 100.0, [ready_after(9000.0)]).cost
    cheap = replace(build.pod("idle"), priority=-(10**9), annotations={DELETION_COST: "-2000000000"})
    assert 50.0 == disruption_cost(cheap, 100.0).cost
