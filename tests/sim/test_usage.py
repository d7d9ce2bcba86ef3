"""What pods want and get: contention, limits, who is killed when memory runs out, and the table's slots."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.sim.small_world import GIB, MIB, RecordedWorld, node, nodes, template
from trimtab.core.model.resources import CPU
from trimtab.sim.scenario import SimulatedNode
from trimtab.sim.usage import BLOCK, StepUsage, fair_shares
from trimtab.sim.usage_patterns import Ramp, Steady

amount = st.floats(0.0, 1e5)
claims = st.lists(st.tuples(amount, st.floats(2.0, 1e5)), min_size=1, max_size=12)


def columns(claims: list[tuple[float, float]]) -> tuple["np.ndarray", "np.ndarray"]:
    wanted, weights = zip(*claims, strict=True)
    return np.array(wanted), np.array(weights)


@given(claims, amount)
def test_nobody_gets_more_than_it_wants_and_nothing_is_left_over(
    claims: list[tuple[float, float]], room: float
) -> None:
    """The shares add up to the room, or to everything that is wanted if that is less."""
    wanted, weights = columns(claims)
    shares = fair_shares(wanted, weights, room)
    assert (shares >= 0).all()
    assert (shares <= wanted + 1e-6).all()
    assert min(room, wanted.sum()) == pytest.approx(shares.sum(), rel=1e-9, abs=1e-6)


@given(claims, amount)
def test_who_wants_more_gets_by_weight_and_at_least_as_much_as_the_others(
    claims: list[tuple[float, float]], room: float
) -> None:
    """All unsatisfied pods have the same share per weight, and no satisfied one has more per weight."""
    wanted, weights = columns(claims)
    shares = fair_shares(wanted, weights, room)
    level = shares / weights
    hungry = shares < wanted - 1e-6 * (1 + wanted)
    if hungry.any():
        assert level[hungry].max() == pytest.approx(level[hungry].min(), rel=1e-6, abs=1e-9)
        assert (level[~hungry] <= level[hungry].max() * (1 + 1e-6) + 1e-9).all()


@given(claims, amount)
def test_shares_do_not_depend_on_the_order_of_pods(claims: list[tuple[float, float]], room: float) -> None:
    """Reversed claims get reversed shares."""
    wanted, weights = columns(claims)
    backwards = fair_shares(wanted[::-1], weights[::-1], room)[::-1]
    assert backwards == pytest.approx(fair_shares(wanted, weights, room), rel=1e-6, abs=1e-6)


def last_step(world: RecordedWorld) -> StepUsage:
    usage = world.world.usage.latest
    assert usage is not None
    return usage


def used(world: RecordedWorld, resource: int = 0) -> dict[str, float]:
    usage = last_step(world)
    return dict(zip((key.split("/")[1] for key in usage.pod_keys), usage.pod_used[resource].tolist(), strict=True))


def test_an_overloaded_node_is_shared_by_requests() -> None:
    """4 cores: `small` wants 300 and gets it; the others share the other 3,700 as 1 to 3."""
    world = RecordedWorld(*nodes(1))
    world.running("small", template(cpu=500, uses=300), "n1")
    world.running("one", template(cpu=1000, uses=4000), "n1")
    world.running("three", template(cpu=3000, uses=4000), "n1")
    world.run(1.0)
    assert {"small": 300.0, "one": 925.0, "three": 2775.0} == used(world)
    assert (8300.0, 4000.0) == (last_step(world).demand[0, 0], last_step(world).used[0, 0])


def test_what_a_satisfied_pod_leaves_goes_to_the_others() -> None:
    """By requests `big` had 3,000, but wants 1,000 only."""
    world = RecordedWorld(*nodes(1))
    world.running("big", template(cpu=3000, uses=1000), "n1")
    world.running("hungry", template(cpu=1000, uses=9000), "n1")
    world.run(1.0)
    assert {"big": 1000.0, "hungry": 3000.0} == used(world)


def test_processes_outside_of_pods_come_first() -> None:
    """They take 3 of 4 cores; pods without requests share the rest equally."""
    world = RecordedWorld(SimulatedNode(node("n1"), system_cpu=Steady(3000.0)))
    world.running("a", template(cpu=0, uses=900), "n1")
    world.running("b", template(cpu=0, uses=5000), "n1")
    world.run(1.0)
    assert {"a": 500.0, "b": 500.0} == used(world)


def test_a_pod_never_wants_more_than_its_cpu_limit() -> None:
    """Demand is capped, so it is not unmet."""
    world = RecordedWorld(*nodes(1))
    world.running("capped", template(cpu=100, uses=2000, cpu_limit=700), "n1")
    world.run(1.0)
    assert (700.0, 700.0) == (last_step(world).pod_demand[0, 0], last_step(world).pod_used[0, 0])


def killed(world: RecordedWorld) -> list[str]:
    keys = {uid: life.key.split("/")[1] for uid, life in world.world.lives.items()}
    return [keys[uid] for uid in last_step(world).out_of_memory]


def test_a_pod_above_its_memory_limit_is_killed_although_the_node_has_room() -> None:
    """One at its limit is not."""
    world = RecordedWorld(*nodes(1))
    world.running("over", template(uses_mib=101, memory_limit_mib=100), "n1")
    world.running("at", template(uses_mib=100, memory_limit_mib=100), "n1")
    world.run(1.0)
    assert ["over"] == killed(world)


def test_where_memory_runs_out_those_furthest_above_their_requests_are_killed_until_it_fits() -> None:
    """8 GiB, 10 wanted: `greedy` at three times its request frees 3 GiB, and the others stay."""
    world = RecordedWorld(*nodes(1))
    world.running("modest", template(memory_mib=5 * 1024, uses_mib=5 * 1024), "n1")
    world.running("greedy", template(memory_mib=1024, uses_mib=3 * 1024), "n1")
    world.running("double", template(memory_mib=1024, uses_mib=2 * 1024), "n1")
    world.run(1.0)
    assert ["greedy"] == killed(world)
    assert {"modest", "double"} == {*used_after(world)}


def used_after(world: RecordedWorld) -> dict[str, float]:
    world.run(1.0)
    return used(world)


def test_who_was_over_its_limit_counts_for_the_node() -> None:
    """9 GiB wanted of 8: what is over its limit frees enough, and nobody else is killed."""
    world = RecordedWorld(*nodes(1))
    world.running("over", template(memory_mib=4096, uses_mib=4 * 1024, memory_limit_mib=1024), "n1")
    world.running("other", template(memory_mib=10, uses_mib=5 * 1024), "n1")
    world.run(1.0)
    assert ["over"] == killed(world)


def test_without_oom_kills_nobody_is_killed() -> None:
    """For traces whose memory was only a demand; more than the node has is shown as used up to its capacity."""
    world = RecordedWorld(*nodes(1), oom_kills=False)
    world.running("over", template(uses_mib=9 * 1024, memory_limit_mib=100), "n1")
    world.run(1.0)
    assert [] == killed(world)
    assert (9 * GIB, 8 * GIB) == (last_step(world).demand[1, 0], last_step(world).used[1, 0])


def test_slots_are_used_again_and_the_table_grows() -> None:
    """200 pods come and half of them leave, then 150 come: each use is counted once."""
    world = RecordedWorld(*nodes(1, 1000, 1000))
    uids = [world.running(f"a{number}", template(uses=number), "n1") for number in range(200)]
    world.run(1.0)
    for uid in uids[::2]:
        world.world.remove_pod(uid, "deleted")
    for number in range(150):
        world.running(f"b{number}", template(uses=1000 + number), "n1")
    world.run(1.0)
    expected = {f"a{number}": number for number in range(1, 200, 2)} | {f"b{n}": 1000 + n for n in range(150)}
    assert expected == used(world)
    assert sum(expected.values()) == last_step(world).demand[0, 0]


def test_patterns_go_on_beyond_a_block() -> None:
    """A ramp of a millicore per second is read in the middle of each step, however many steps a block has."""
    world = RecordedWorld(*nodes(1))
    world.running("ramp", template(uses=Ramp(0.0, 1000.0, seconds=1000.0)), "n1")
    world.run(BLOCK + 10.0)
    assert BLOCK + 9.5 == pytest.approx(used(world)["ramp"])


def test_pods_of_a_node_that_is_gone_are_not_counted() -> None:
    """Its row stays, is not present, and demands nothing."""
    world = RecordedWorld(SimulatedNode(node("n1"), system_cpu=Steady(100.0)), *nodes(2)[1:])
    world.running("a", template(uses=100), "n1")
    world.run(1.0)
    world.world.delete_node("n1")
    world.run(1.0)
    usage = last_step(world)
    assert (("n1", "n2"), [False, True]) == (usage.nodes, usage.present.tolist())
    assert ((), [0.0, 0.0]) == (usage.pods, usage.demand[0].tolist())
    assert [[0.0], [0.0]] == usage.utilisation.tolist()


def test_requests_are_those_of_bound_pods_until_they_finish_or_leave() -> None:
    """A pod holds them from its bind on, also before it runs; not when it has succeeded."""
    world = RecordedWorld(*nodes(1))
    uid = world.world.create_pod("web", template(cpu=300, memory_mib=64, lifetime=10.0))
    world.bind(uid, "n1")
    requested = world.world.usage.requested
    assert [0.0, 0.0] == requested[:, 0].tolist()
    world.run(1.0)
    assert [300.0, 64.0 * MIB] == requested[:, 0].tolist()
    world.run(20.0)
    assert ("Succeeded", [0.0, 0.0]) == (world.world.pods[uid].phase, requested[:, 0].tolist())
    world.world.remove_pod(uid, "deleted")
    assert [0.0, 0.0] == requested[:, 0].tolist()


def test_a_node_without_capacity_has_what_is_allocatable() -> None:
    """As nodes of snapshots may have it."""
    world = RecordedWorld(SimulatedNode(replace(node("n1"), capacity=())))
    assert [4000.0, 8.0 * GIB] == world.world.usage.capacity[:, 0].tolist()
    assert 4000 == dict(world.world.nodes["n1"].node.allocatable)[CPU]


def test_a_pod_counts_in_every_step_in_which_it_ran() -> None:
    """Also if it ran for a part of it; one that starts as the step ends counts in the next."""
    world = RecordedWorld(*nodes(1), step=10.0)
    world.clock.call_at(9.0, lambda: world.running("early", template(uses=1), "n1"))
    world.clock.call_at(10.0, lambda: world.running("late", template(uses=2), "n1"))
    world.run(10.0)
    assert {"early": 1.0} == used(world)
    world.run(10.0)
    assert {"early": 1.0, "late": 2.0} == used(world)
