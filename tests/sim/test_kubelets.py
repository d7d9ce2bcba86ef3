"""Kubelets: what happens when memory runs out, when pods finish, and in which run of the containers."""

from itertools import pairwise

import numpy as np
import pytest

from tests.sim.small_world import RecordedWorld, nodes, template
from trimtab.core.model.events import PodUpserted
from trimtab.sim.kubelets import FIRST_BACKOFF, LONGEST_BACKOFF
from trimtab.sim.usage_patterns import Ramp, Recorded

OVER = template(uses_mib=200, memory_limit_mib=100)


def ready_changes(world: RecordedWorld, seconds: float) -> list[tuple[float, bool]]:
    """Whenever the pod became ready or ceased to be, to the second."""
    seen, last = [], None
    for event in world.run(seconds):
        if isinstance(event, PodUpserted) and event.pod.ready is not last:
            last = event.pod.ready
            seen.append((float(int(event.at)), last))
    return seen


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    """A pod that is always over its limit runs one step and then waits 10, 20, 40, 80, 160 and 300 s."""
    world = RecordedWorld(*nodes(1))
    uid = world.running("web", OVER, "n1")
    starts = [at for at, ready in ready_changes(world, 1000.0) if ready]
    waits = [later - earlier for earlier, later in pairwise(starts)]
    assert [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0] == pytest.approx(waits, abs=1.0)
    assert (10.0, 300.0) == (FIRST_BACKOFF, LONGEST_BACKOFF)
    assert len(starts) == world.world.lives[uid].oom_kills


def test_a_long_run_resets_the_back_off() -> None:
    """A leak that takes eleven minutes to fill the limit costs ten seconds each time."""
    world = RecordedWorld(*nodes(1), step=10.0)
    leak = Ramp(0.0, 100.0 * 1024 * 1024, seconds=660.0)
    world.running("web", template(uses_mib=leak, memory_limit_mib=99), "n1")
    changes = ready_changes(world, 3600.0)
    downs = [later - at for (at, ready), (later, _) in pairwise(changes) if not ready][1:]
    assert 4 <= len(downs)
    assert {10.0} == set(downs)


def test_a_killed_pod_keeps_its_node_and_its_phase_and_uses_nothing_while_it_waits() -> None:
    """It is not ready; requests stay."""
    world = RecordedWorld(*nodes(1))
    uid = world.running("web", OVER, "n1")
    world.run(5.0)
    pod = world.world.pods[uid]
    assert ("n1", "Running", False, False) == (pod.node, pod.phase, pod.ready, world.world.usage.runs(uid))
    assert 100.0 == world.world.usage.requested[0, 0]


def test_readiness_counts_from_the_last_start() -> None:
    """A pod that is ready after 8 s, and killed later, is ready 8 s after it was started again."""
    world = RecordedWorld(*nodes(1))
    leak = Ramp(0.0, 200.0 * 1024 * 1024, seconds=1.0, delay=10.0)
    uid = world.running("web", template(uses_mib=leak, memory_limit_mib=100, ready_delay=8.0), "n1")
    changes = ready_changes(world, 45.0)
    # Ready at 8, killed in the step that ends at 12, started again at 22, ready at 30, killed at 34.
    assert [(0.0, False), (8.0, True), (12.0, False), (30.0, True), (34.0, False)] == changes
    assert 2 == world.world.lives[uid].oom_kills


def test_an_earlier_run_does_not_make_the_next_one_ready() -> None:
    """Killed before it was ready: the readiness of the first run, due meanwhile, is void."""
    world = RecordedWorld(*nodes(1))
    spike = Recorded(np.array([0.0, 2.0**28, 0.0]), 1.0, begins=0.0)
    world.running("web", template(uses_mib=spike, memory_limit_mib=100, ready_delay=15.0), "n1")
    # Killed at 2, started again at 12, ready at 27; the first run would have been ready at 15.
    assert [(0.0, False), (27.0, True)] == ready_changes(world, 40.0)


def test_a_pod_finishes_after_its_lifetime_and_frees_its_node() -> None:
    """It succeeds, is not ready and uses nothing."""
    world = RecordedWorld(*nodes(1))
    uid = world.running("job", template(uses=500, lifetime=10.0), "n1")
    world.run(9.5)
    assert "Running" == world.world.pods[uid].phase
    world.run(1.5)
    pod = world.world.pods[uid]
    assert ("Succeeded", False, False) == (pod.phase, pod.ready, world.world.usage.runs(uid))


def test_a_pod_that_is_killed_before_it_finishes_starts_its_work_again() -> None:
    """Killed at 2 of 10 s, started again at 12: it finishes at 22, and not never."""
    world = RecordedWorld(*nodes(1))
    spike = Recorded(np.array([0.0, 2.0**28, 0.0]), 1.0, begins=0.0)
    uid = world.running("job", template(uses_mib=spike, memory_limit_mib=100, lifetime=10.0), "n1")
    world.run(21.9)
    assert "Running" == world.world.pods[uid].phase
    world.run(0.2)
    assert "Succeeded" == world.world.pods[uid].phase


def test_a_pod_that_is_deleted_during_its_back_off_does_not_start_again() -> None:
    """It terminates."""
    world = RecordedWorld(*nodes(1))
    uid = world.running("web", OVER, "n1")
    world.run(5.0)
    world.world.delete_pod(uid)
    world.run(30.0)
    assert ({}, 1) == (world.world.pods, world.world.lives[uid].oom_kills)
