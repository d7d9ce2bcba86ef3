"""What happens to nodes: cordon, drain, failure, recovery and removal, and what becomes of their pods."""

from msgspec.structs import replace

from tests.sim.small_world import RecordedWorld, node, nodes, ready_names, scenario, simulate, template, workload
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE
from trimtab.sim.node_lifecycle import UNREACHABLE
from trimtab.sim.scenario import NodeAction, NodeEvent, OwnerKind, SimulatedNode
from trimtab.sim.simulation import Simulation


def on(simulation: Simulation, name: str) -> list[str]:
    """The UIDs of the pods on this node."""
    return [pod.uid for pod in simulation.world.pods.values() if pod.node == name]


def events(*actions: tuple[float, NodeAction], node: str = "n1") -> tuple[NodeEvent, ...]:
    return tuple(NodeEvent(at, node, action) for at, action in actions)


def test_a_cordoned_node_keeps_its_pods_and_gets_no_more() -> None:
    """The field and its taint are set, and both are removed by the uncordon."""
    late = workload("late", replicas=4, created=100.0)
    actions = events((60.0, NodeAction.CORDON), (200.0, NodeAction.UNCORDON))
    simulation = simulate(scenario(nodes(2), workload(replicas=4), late, node_events=actions), 150.0)
    before = on(simulation, "n1")
    assert {"web"} == {simulation.world.pods[uid].labels["app"] for uid in before}
    cordoned = simulation.world.nodes["n1"].node
    assert (True, [("node.kubernetes.io/unschedulable", NO_SCHEDULE)]) == (
        cordoned.unschedulable,
        [(taint.key, taint.effect) for taint in cordoned.taints],
    )
    simulation.run_until(250.0)
    free = simulation.world.nodes["n1"].node
    assert (False, ()) == (free.unschedulable, free.taints)
    assert before == on(simulation, "n1")


def test_a_drained_node_is_left_to_its_daemon_sets() -> None:
    """All others are evicted and replaced elsewhere; the node stays cordoned."""
    agent = workload("agent", OwnerKind.DAEMON_SET)
    simulation = simulate(
        scenario(nodes(2), workload(replicas=6), agent, node_events=events((60.0, NodeAction.DRAIN))), 120.0
    )
    (left,) = on(simulation, "n1")
    assert "agent" == simulation.world.pods[left].labels["app"]
    assert 8 == len(ready_names(simulation.world))
    assert simulation.world.nodes["n1"].node.unschedulable
    assert {"drained"} == {why for _, _, why in simulation.budgets.evictions}


def test_a_finished_pod_is_not_evicted() -> None:
    """It counts for its Job, and in no figure of evictions."""
    job = workload("job", OwnerKind.JOB, 1, template=template(lifetime=5.0))
    simulation = simulate(scenario(nodes(1), job, node_events=events((60.0, NodeAction.DRAIN))), 120.0)
    assert (["Succeeded"], []) == ([pod.phase for pod in simulation.world.pods.values()], simulation.budgets.evictions)


def test_a_failed_node_is_noticed_after_40_seconds_and_given_up_after_300_more() -> None:
    """Its pods stop at once, are unready after 40 s, and are replaced elsewhere after 340 s."""
    web = workload(replicas=4, template=template(uses=100))
    simulation = simulate(scenario(nodes(2), web, step=1.0, node_events=events((60.0, NodeAction.FAIL))), 59.5)
    lost, world = on(simulation, "n1"), simulation.world
    assert 0 < len(lost) < 4
    simulation.run_until(62.0)
    assert not any(world.usage.runs(uid) for uid in lost)
    assert all(world.pods[uid].ready for uid in lost), "the API server does not know yet"
    usage = world.usage.latest
    assert usage is not None and [False, True] == usage.present.tolist()
    simulation.run_until(99.9)
    assert world.nodes["n1"].node.ready
    simulation.run_until(101.0)
    failed = world.nodes["n1"].node
    assert not failed.ready
    assert {NO_SCHEDULE, NO_EXECUTE} == {taint.effect for taint in failed.taints}
    assert not any(world.pods[uid].ready for uid in lost)
    simulation.run_until(399.9)
    assert lost == on(simulation, "n1")
    simulation.run_until(410.0)
    assert ([], 4) == (on(simulation, "n1"), len(ready_names(world)))
    assert {"node failed"} == {world.lives[uid].left for uid in lost}


def test_pods_of_a_node_that_recovers_in_time_run_again() -> None:
    """The same ones, ready again; taints are gone."""
    actions = events((60.0, NodeAction.FAIL), (200.0, NodeAction.RECOVER))
    simulation = simulate(scenario(nodes(2), workload(replicas=4), node_events=actions), 59.5)
    before = {*simulation.world.pods}
    simulation.run_until(600.0)
    assert before == {*simulation.world.pods}
    assert 4 == len(ready_names(simulation.world))
    assert (True, ()) == (simulation.world.nodes["n1"].node.ready, simulation.world.nodes["n1"].node.taints)


def test_a_short_failure_is_never_noticed() -> None:
    """Its containers start again, and the node was ready all the time."""
    actions = events((60.0, NodeAction.FAIL), (80.0, NodeAction.RECOVER))
    simulation = simulate(scenario(nodes(1), workload(replicas=2), node_events=actions), 79.0)
    assert not any(map(simulation.world.usage.runs, on(simulation, "n1")))
    simulation.run_until(150.0)
    assert all(map(simulation.world.usage.runs, on(simulation, "n1")))
    assert {0.0} == {life.unready for life in simulation.world.lives.values()}


def test_each_failure_has_its_own_time() -> None:
    """A node that recovers and fails again is noticed 40 s after the second failure, and given up 300 s after that."""
    actions = events((60.0, NodeAction.FAIL), (80.0, NodeAction.RECOVER), (90.0, NodeAction.FAIL))
    simulation = simulate(scenario(nodes(2), workload(replicas=4), node_events=actions), 101.0)
    assert simulation.world.nodes["n1"].node.ready
    simulation.run_until(131.0)
    assert not simulation.world.nodes["n1"].node.ready
    simulation.run_until(429.0)
    assert 0 < len(on(simulation, "n1"))
    simulation.run_until(431.0)
    assert [] == on(simulation, "n1")


def test_pods_that_tolerate_it_stay_on_the_failed_node() -> None:
    """As those of DaemonSets do."""
    agent = workload("agent", OwnerKind.DAEMON_SET)
    simulation = simulate(scenario(nodes(1), agent, node_events=events((60.0, NodeAction.FAIL))), 600.0)
    (left,) = simulation.world.pods.values()
    assert ("n1", False) == (left.node, left.ready)
    assert UNREACHABLE in simulation.world.nodes["n1"].node.taints


def test_a_pod_that_was_bound_to_a_silent_node_does_not_start() -> None:
    """Until the node recovers."""
    world = RecordedWorld(*nodes(1))
    world.lifecycle.fail("n1")
    uid = world.world.create_pod("web", template())
    world.bind(uid, "n1")
    world.run(30.0)
    assert ("Pending", "n1") == (world.world.pods[uid].phase, world.world.pods[uid].node)
    world.lifecycle.recover("n1")
    world.run(1.0)
    assert "Running" == world.world.pods[uid].phase


def test_a_removed_node_takes_its_pods_along_and_may_come_back() -> None:
    """They are replaced elsewhere; a new node of the same name works although the old one had failed."""
    actions = events((60.0, NodeAction.FAIL), (70.0, NodeAction.REMOVE))
    simulation = simulate(scenario(nodes(2), workload(replicas=4), node_events=actions), 90.0)
    assert (["n2"], 4) == ([*simulation.world.nodes], len(ready_names(simulation.world)))
    simulation.world.put_node(SimulatedNode(replace(node("n1"), uid="another")))
    assert simulation.world.works("n1")
    simulation.run_until(600.0)
    assert simulation.world.nodes["n1"].node.ready, "what the old node had scheduled is void"


def test_events_of_nodes_that_do_not_exist_and_repeated_ones_do_nothing() -> None:
    """A second failure does not start the time anew, and a recovery without a failure starts no pod early."""
    actions = (
        *events((50.0, NodeAction.REMOVE), node="nobody"),
        *events((60.0, NodeAction.FAIL), (90.0, NodeAction.FAIL)),
        *events((10.0, NodeAction.RECOVER), node="n2"),
    )
    slow = workload(replicas=4, template=template(start_delay=(20.0, 20.0)))
    simulation = simulate(scenario(nodes(2), slow, node_events=actions), 15.0)
    assert [] == ready_names(simulation.world)
    simulation.run_until(101.0)
    assert not simulation.world.nodes["n1"].node.ready
