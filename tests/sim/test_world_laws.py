"""Laws over random scenarios: the engine sees the world, no pod is bound twice, and requests fit."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.sim.small_world import nodes, scenario, stock, template, workload
from tests.sim.world_checks import Bound, agrees, over_allocatable
from trimtab.sim.scenario import DisruptionBudget, Failover, NodeAction, NodeEvent, OwnerKind, Rollout, Scale, Scenario
from trimtab.sim.simulation import Simulation

names = st.sampled_from(["n1", "n2", "n3"])
times = st.floats(10.0, 600.0)
actions = st.lists(st.builds(NodeEvent, times, names, st.sampled_from([*NodeAction])), max_size=4)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    workloads = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([*OwnerKind]))
        pod = template(
            cpu=draw(st.integers(0, 3000)),
            memory_mib=draw(st.integers(0, 3000)),
            uses=draw(st.integers(0, 3000)),
            uses_mib=draw(st.integers(0, 4000)),
            lifetime=60.0 if kind is OwnerKind.JOB else None,
            priority=draw(st.sampled_from([0, 0, 100])),
            labels={"app": f"w{number}"},
        )
        rolling = kind in (OwnerKind.DEPLOYMENT, OwnerKind.STATEFUL_SET)
        workloads.append(
            workload(
                f"w{number}",
                kind,
                draw(st.integers(0, 5)),
                template=pod,
                created=draw(st.floats(0.0, 100.0)),
                deleted=draw(st.none() | st.floats(200.0, 600.0)),
                rollouts=(Rollout(draw(times)),) if rolling and draw(st.booleans()) else (),
                scales=(Scale(draw(times), draw(st.integers(0, 6))),) if rolling and draw(st.booleans()) else (),
                budget=DisruptionBudget(max_unavailable=1) if draw(st.booleans()) else None,
            )
        )
    failovers = tuple(Failover(at) for at in draw(st.lists(times, max_size=2)))
    cluster = tuple(replace(each, joins=draw(st.sampled_from([0.0, 0.0, 90.0]))) for each in nodes(3))
    return scenario(cluster, *workloads, node_events=tuple(draw(actions)), failovers=failovers, step=20.0)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(), st.integers(0, 1000))
def test_whatever_happens_the_engine_sees_the_world_and_no_node_is_over(given_: Scenario, seed: int) -> None:
    """At a quiet moment both hold the same objects; no pod was bound twice, and requests fit at every bind."""
    simulation = Simulation(given_, stock(), seed)
    bound, over = Bound(simulation.world), list[str]()
    simulation.world.pod_listeners.append(
        lambda before, after: (
            over.extend(over_allocatable(simulation.world)) if after is not None and after.node else None
        )
    )
    simulation.run_until(900.0)
    while simulation.world.pending or any(each.terminating for each in simulation.world.pods.values()):
        if not simulation.clock.step(1000.0):
            break
    moment = simulation.clock.now
    quiet(simulation)
    assert [] == agrees(simulation), moment
    assert ([], []) == (bound.moved, over)
    assert set(bound.counts.values()) <= {1}
    assert simulation.world.usage.requested.min(initial=0.0) == 0.0


def quiet(simulation: Simulation) -> None:
    """Go on until nothing changes for a while: pods that back off and restart make one wait."""
    versions = -1
    while versions != (versions := simulation.world._version):
        simulation.run_until(simulation.clock.now + 0.2)
