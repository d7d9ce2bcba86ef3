"""The demo's story as it unfolds under the engine: the twelve pods, the refusal, the new node, the cordon, the day."""

from functools import cache

import pytest

from trimtab.apps.demo import Decided, Demo, Ended, Moment, Opened, Passed
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.picture import Picture
from trimtab.sim.scenes import SCENES, TWELVE
from trimtab.sim.workloads import MIB


class Scene:
    """What was shown between one opening and the next."""

    def __init__(self) -> None:
        self.decided: list[Decided] = []
        self.pictures: list[Picture] = []


@cache
def story(seed: int = 1) -> tuple[list[Scene], Ended]:
    scenes: list[Scene] = []
    moment: Moment | None = None
    for moment in Demo(seed).moments():
        match moment:
            case Opened():
                scenes.append(Scene())
            case Decided():
                scenes[-1].decided.append(moment)
            case Passed():
                scenes[-1].pictures.append(moment.picture)
    assert isinstance(moment, Ended)
    return scenes, moment


def test_the_twelve_are_those_of_the_acceptance_workload() -> None:
    """The requests add up to 13,750 thousandths of a core and 17,268 MiB."""
    assert (12, 13_750, 17_268) == (len(TWELVE), sum(cpu for cpu, _ in TWELVE), sum(memory for _, memory in TWELVE))


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 10**12])
def test_twelve_pods_are_bound_and_none_to_the_tainted_node(seed: int) -> None:
    """Whatever the seed, scene one binds all twelve at the first try, each to a worker, and requests add up per node."""
    scenes, _ = story(seed)
    decided = scenes[0].decided
    assert [f"pod-{number}" for number in range(1, 13)] == [each.pod.name for each in decided]
    assert {"worker-1", "worker-2", "worker-3"} == {each.node for each in decided}
    last = scenes[0].pictures[-1]
    assert 13_750 == sum(node.cpu.requested for node in last.nodes)
    assert 17_268 * MIB == sum(node.memory.requested for node in last.nodes)
    for node in last.nodes:
        pods = [each.pod for each in decided if each.node == node.name]
        assert (len(pods), sum(pod.demand.of(CPU) for pod in pods), sum(pod.demand.of(MEMORY) for pod in pods)) == (
            node.pods,
            node.cpu.requested,
            node.memory.requested,
        )


def test_bars_never_pass_what_a_node_has() -> None:
    """In no picture of the whole day is a node asked for, or using, more than it has."""
    scenes, _ = story()
    meters = [m for scene in scenes for p in scene.pictures for node in p.nodes for m in (node.cpu, node.memory)]
    assert 1000 < len(meters)
    assert [] == [m for m in meters if m.requested > m.offered or (m.used is not None and m.used > m.offered)]


def test_use_is_unknown_until_it_is_measured() -> None:
    """Before the first scrape a node's use is None, never zero."""
    first, *_, last = story()[0][0].pictures
    assert {None} == {node.cpu.used for node in first.nodes}
    assert all(node.cpu.used for node in last.nodes)


def test_a_pod_too_large_is_refused_in_kube_schedulers_words_and_waits() -> None:
    """Scene two has one decision, a refusal that counts each node once, and the pod is shown as waiting."""
    scene = story()[0][1]
    (refused,) = scene.decided
    assert ("pod-13", "") == (refused.pod.name, refused.node)
    assert "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu." == refused.why
    assert ("pod-13",) == scene.pictures[-1].pending


def test_the_waiting_pod_lands_on_the_node_that_joins() -> None:
    """Scene three has one decision: the second try of the same pod, on the new node."""
    scene = story()[0][2]
    (landed,) = scene.decided
    assert ("pod-13", "worker-4", 2) == (landed.pod.name, landed.node, landed.attempt)
    assert () == scene.pictures[-1].pending


def test_a_cordoned_node_gets_no_new_pod_and_keeps_its_old_ones() -> None:
    """Scene four places its pod elsewhere, names the reason, and leaves what runs on the cordoned node."""
    scenes, _ = story()
    (placed,) = scenes[3].decided
    assert "worker-2" != placed.node
    assert "1 node(s) were unschedulable" in placed.why
    before, after = (next(n for n in scenes[i].pictures[-1].nodes if n.name == "worker-2") for i in (2, 3))
    assert ("", "cordoned") == (before.mark, after.mark)
    assert 0 < before.pods == after.pods


def test_over_the_day_use_changes_and_requests_do_not() -> None:
    """In the last two scenes nothing is decided and requests stand still, while use moves by more than a core."""
    scenes, _ = story()
    for scene in scenes[4:]:
        assert [] == scene.decided
        for nodes in zip(*(picture.nodes for picture in scene.pictures), strict=True):
            assert 1 == len({(node.cpu.requested, node.memory.requested) for node in nodes})
    use = [
        node.cpu.used or 0.0
        for scene in scenes[4:]
        for p in scene.pictures
        for node in p.nodes
        if node.name == "worker-4"
    ]
    assert max(use) - min(use) > 1000


def test_the_end_lists_each_pod_once_with_its_last_decision() -> None:
    """Fourteen rows in the order in which pods came, all bound, and as many Scheduled events."""
    scenes, ended = story()
    assert [f"pod-{number}" for number in range(1, 15)] == [row.pod.name for row in ended.rows]
    assert all(row.node for row in ended.rows)
    assert (("FailedScheduling", 1), ("Scheduled", 14)) == ended.events
    assert len(SCENES) == len(scenes)
