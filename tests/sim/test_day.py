"""The day scenario: twelve pods, one that does not fit, a new node, a cordon, and the day."""

import pytest

from tests.sim.demo_recording import day_scenes, record_demo
from trimtab.core.model.duration import HOUR
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.demo.day import DAY_PLAY

MIB = 1024 * 1024


def test_the_twelve_pods_are_those_of_the_acceptance_workload() -> None:
    """Their requests add up to 13,750 millicores and 17,268 MiB."""
    pods = [each.template.requests for each in DAY_PLAY.scenario().workloads[:12]]
    assert (12, 13_750, 17_268 * MIB) == (
        len(pods),
        sum(each.of(CPU) for each in pods),
        sum(each.of(MEMORY) for each in pods),
    )


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 10**12])
def test_twelve_pods_are_bound_and_none_to_the_tainted_node(seed: int) -> None:
    """For any seed the first scene binds all twelve at the first attempt, each to a worker, and requests add up."""
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


def test_bars_never_exceed_allocatable() -> None:
    """In no snapshot of the whole demo are requests or usage above allocatable."""
    scenes, _ = record_demo()
    resources = [m for scene in scenes for p in scene.snapshots for node in p.nodes for m in (node.cpu, node.memory)]
    assert 1000 < len(resources)
    assert [] == [
        m for m in resources if m.requested > m.allocatable or (m.used is not None and m.used > m.allocatable)
    ]


def test_usage_is_unknown_until_it_is_measured() -> None:
    """Before the first scrape it is None, never zero."""
    first, *_, last = day_scenes()[0].snapshots
    assert {None} == {node.cpu.used for node in first.nodes}
    assert all(node.cpu.used for node in last.nodes)


def test_a_pod_too_large_for_any_node_stays_pending() -> None:
    """The second scene has one decision, with kube-scheduler's message, and the pod is shown as pending."""
    scene = day_scenes()[1]
    (failed,) = scene.decided
    assert ("pod-13", "") == (failed.pod.name, failed.node)
    assert "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu." == failed.why
    assert ("pod-13",) == scene.snapshots[-1].pending


def test_the_pending_pod_is_placed_on_the_node_that_joins() -> None:
    """The third scene has one decision: the second attempt of the same pod, on the new node."""
    scene = day_scenes()[2]
    (placed,) = scene.decided
    assert ("pod-13", "worker-4", 2) == (placed.pod.name, placed.node, placed.attempt)
    assert () == scene.snapshots[-1].pending


def test_a_cordoned_node_gets_no_new_pod_and_keeps_its_old_ones() -> None:
    """The fourth scene places its pod on another node, names the reason, and keeps the pods of the cordoned node."""
    scenes = day_scenes()
    (placed,) = scenes[3].decided
    assert "worker-2" != placed.node
    assert "1 node(s) were unschedulable" in placed.why
    before, after = (next(n for n in scenes[i].snapshots[-1].nodes if n.name == "worker-2") for i in (2, 3))
    assert ("", "cordoned") == (before.status, after.status)
    assert 0 < before.pods == after.pods


def test_over_the_day_usage_changes_and_requests_do_not() -> None:
    """In the last two scenes requests are constant until the pod at two o'clock, while usage varies by over a core."""
    usage = list[float]()
    for scene in day_scenes()[4:]:
        (placed,) = scene.decided
        before = [picture.nodes for picture in scene.snapshots if picture.at < placed.at]
        assert 20 < len(before)
        for nodes in zip(*before, strict=True):
            assert 1 == len({(node.cpu.requested, node.memory.requested) for node in nodes})
            usage += [node.cpu.used or 0.0 for node in nodes if node.name == "worker-4"]
    assert max(usage) - min(usage) > 1000


def test_equal_pods_arrive_at_two_in_the_afternoon_and_at_two_at_night() -> None:
    """With the same requests, and each is placed at once."""
    pods = [each for scene in day_scenes()[4:] for each in scene.decided]
    assert [("pod-15", 14.0), ("pod-16", 26.0)] == [(each.pod.name, round(each.at / HOUR, 3)) for each in pods]
    assert 1 == len({each.pod.requests for each in pods})
    assert all(each.node for each in pods)


def test_the_end_lists_each_pod_once_with_its_last_decision() -> None:
    """Sixteen rows in the order of creation, all bound, and as many Scheduled Events."""
    _, ended = record_demo()
    assert [f"pod-{number}" for number in range(1, 17)] == [row.pod.name for row in ended.rows]
    assert all(row.node for row in ended.rows)
    events = dict(ended.events)
    assert (1, 16) == (events["FailedScheduling"], events["Scheduled"])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_text_names_the_node_that_was_chosen(seed: int) -> None:
    """The table that explains a decision chooses the same node as the decision."""
    scenes, _ = record_demo(seed)
    decided = [each for scene in scenes for each in scene.decided if each.node]
    assert 40 < len(decided)
    assert [] == [each.why for each in decided if f"next {each.node} " in each.why]
    assert [] == [each.why for each in decided if f"by requests alone: {each.node} " in each.why]
