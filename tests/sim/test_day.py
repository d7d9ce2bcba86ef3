"""The demo's second act under the engine: the twelve pods, the refusal, the new node, the cordon, the day."""

import pytest

from tests.sim.demo_recording import day_scenes, record_demo
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.demo.day import POD_REQUESTS
from trimtab.sim.workloads import HOUR, MIB


def test_the_twelve_are_those_of_the_acceptance_workload() -> None:
    """The requests add up to 13,750 thousandths of a core and 17,268 MiB."""
    assert (12, 13_750, 17_268) == (
        len(POD_REQUESTS),
        sum(cpu for cpu, _ in POD_REQUESTS),
        sum(memory for _, memory in POD_REQUESTS),
    )


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 10**12])
def test_twelve_pods_are_bound_and_none_to_the_tainted_node(seed: int) -> None:
    """Whatever the seed, the first scene binds all twelve at the first try, each to a worker, and requests add up."""
    scenes = day_scenes(seed)
    decided = scenes[0].decided
    assert [f"pod-{number}" for number in range(1, 13)] == [each.pod.name for each in decided]
    assert {"worker-1", "worker-2", "worker-3"} == {each.node for each in decided}
    last = scenes[0].snapshots[-1]
    assert 13_750 == sum(node.cpu.requested for node in last.nodes)
    assert 17_268 * MIB == sum(node.memory.requested for node in last.nodes)
    for node in last.nodes:
        pods = [each.pod for each in decided if each.node == node.name]
        assert (len(pods), sum(pod.requests.of(CPU) for pod in pods), sum(pod.requests.of(MEMORY) for pod in pods)) == (
            node.pods,
            node.cpu.requested,
            node.memory.requested,
        )


def test_bars_never_pass_what_a_node_has() -> None:
    """In no picture of the whole demo is a node asked for, or using, more than it has."""
    scenes, _ = record_demo()
    meters = [m for scene in scenes for p in scene.snapshots for node in p.nodes for m in (node.cpu, node.memory)]
    assert 1000 < len(meters)
    assert [] == [m for m in meters if m.requested > m.allocatable or (m.used is not None and m.used > m.allocatable)]


def test_use_is_unknown_until_it_is_measured() -> None:
    """Before the first scrape a node's use is None, never zero."""
    first, *_, last = day_scenes()[0].snapshots
    assert {None} == {node.cpu.used for node in first.nodes}
    assert all(node.cpu.used for node in last.nodes)


def test_a_pod_too_large_is_refused_in_kube_schedulers_words_and_waits() -> None:
    """The second scene has one decision, a refusal that counts each node once, and the pod is shown as waiting."""
    scene = day_scenes()[1]
    (refused,) = scene.decided
    assert ("pod-13", "") == (refused.pod.name, refused.node)
    assert "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu." == refused.why
    assert ("pod-13",) == scene.snapshots[-1].pending


def test_the_waiting_pod_lands_on_the_node_that_joins() -> None:
    """The third scene has one decision: the second try of the same pod, on the new node."""
    scene = day_scenes()[2]
    (landed,) = scene.decided
    assert ("pod-13", "worker-4", 2) == (landed.pod.name, landed.node, landed.attempt)
    assert () == scene.snapshots[-1].pending


def test_a_cordoned_node_gets_no_new_pod_and_keeps_its_old_ones() -> None:
    """The fourth scene places its pod elsewhere, names the reason, and leaves what runs on the cordoned node."""
    scenes = day_scenes()
    (placed,) = scenes[3].decided
    assert "worker-2" != placed.node
    assert "1 node(s) were unschedulable" in placed.why
    before, after = (next(n for n in scenes[i].snapshots[-1].nodes if n.name == "worker-2") for i in (2, 3))
    assert ("", "cordoned") == (before.status, after.status)
    assert 0 < before.pods == after.pods


def test_over_the_day_use_changes_and_requests_do_not() -> None:
    """In the last two scenes requests stand still until the pod at two o'clock, while use moves by more than a core."""
    use = list[float]()
    for scene in day_scenes()[4:]:
        (placed,) = scene.decided
        before = [picture.nodes for picture in scene.snapshots if picture.at < placed.at]
        assert 20 < len(before)
        for nodes in zip(*before, strict=True):
            assert 1 == len({(node.cpu.requested, node.memory.requested) for node in nodes})
            use += [node.cpu.used or 0.0 for node in nodes if node.name == "worker-4"]
    assert max(use) - min(use) > 1000


def test_twins_come_at_two_in_the_afternoon_and_at_two_at_night() -> None:
    """Both ask for the same, and each is placed at once."""
    twins = [each for scene in day_scenes()[4:] for each in scene.decided]
    assert [("pod-15", 14.0), ("pod-16", 26.0)] == [(each.pod.name, round(each.at / HOUR, 3)) for each in twins]
    assert 1 == len({each.pod.requests for each in twins})
    assert all(each.node for each in twins)


def test_the_end_lists_each_pod_once_with_its_last_decision() -> None:
    """Sixteen rows in the order in which pods came, all bound, and as many Scheduled events."""
    _, ended = record_demo()
    assert [f"pod-{number}" for number in range(1, 17)] == [row.pod.name for row in ended.rows]
    assert all(row.node for row in ended.rows)
    told = dict(ended.events)
    assert (1, 16) == (told["FailedScheduling"], told["Scheduled"])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_words_name_the_node_that_was_chosen(seed: int) -> None:
    """Whatever is measured, the table that explains a decision comes to the same node as the decision itself."""
    scenes, _ = record_demo(seed)
    decided = [each for scene in scenes for each in scene.decided if each.node]
    assert 40 < len(decided)
    assert [] == [each.why for each in decided if f"next {each.node} " in each.why]
    assert [] == [each.why for each in decided if f"by requests alone: {each.node} " in each.why]
