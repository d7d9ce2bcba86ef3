"""The shadow of a scheduler: it decides as pods appear, one step from reality, and nothing that it wants is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from tests.build import node, pod
from trimtab.config.registry import default_profile
from trimtab.core.driver import Driver
from trimtab.core.model.events import (
    Event,
    KindForbidden,
    LeaseAcquired,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    Synced,
    Tick,
)
from trimtab.core.model.instructions import Bind, Instruction
from trimtab.core.model.pod import Owner, Pod, Volume
from trimtab.core.model.readings import Reading, Subject, Unit
from trimtab.core.settings import Settings
from trimtab.sim.shadow.outcomes import Comparison
from trimtab.sim.shadow.shadow import Shadow

PROFILE = default_profile("policy")


class World:
    """A shadow with its driver, a clock, and pods that others create and bind."""

    def __init__(self, *nodes: Any, profile: Any = PROFILE, synced: bool = True, cumulative: bool = False) -> None:
        self.shadow = Shadow(Settings((profile,)), cumulative=cumulative)
        self.now, self.version = 100.0, 10
        self.wanted: list[Instruction] = []
        self._driver = Driver(self.shadow.engine, self._perform, self.shadow.on_decision)
        self._driver.put(LeaseAcquired(0, self.now))
        for each in nodes:
            self.put(NodeUpserted(each, self.now))
        if synced:
            self.sync()

    def _perform(self, instruction: Instruction) -> None:
        self.wanted.append(instruction)
        self.shadow.perform(instruction)

    def sync(self) -> None:
        for kind in self.shadow.engine.state.settings.kinds:
            self.put(Synced(kind, self.now))

    def put(self, event: Event) -> None:
        self.shadow.take(event, self._driver.put)

    def see(self, each: Pod, **changes: Any) -> Pod:
        """The watch shows the pod, with these changes."""
        self.now, self.version = self.now + 1, self.version + 1
        seen = structs.replace(each, version=self.version, **changes)
        self.put(PodUpserted(seen, self.now))
        return seen

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now += 1
            self._driver.put(Tick(self.now))
            self._driver.decide(self.now)

    def outcomes(self) -> list[tuple[str, str, str]]:
        return [(each.pod.partition("/")[2], each.comparison.value, each.shadow) for each in self.shadow.differences]


def test_the_same_node() -> None:
    """Decided when it appears as pending; nothing but the dropped instructions says so."""
    world = World(node("a"), node("b", cpu="1"))
    web = world.see(pod("web", cpu="2"))
    assert 1 == world.shadow.unbound and [Bind] == [type(each) for each in world.wanted]
    world.see(web, node="a")
    assert (1, 1, 0, 0) == (
        world.shadow.counts.decided,
        world.shadow.counts.same,
        world.shadow.counts.late,
        world.shadow.unbound,
    )
    world.see(web, node="a", phase="Running")
    assert 1 == world.shadow.counts.decided


def test_another_node() -> None:
    """An empty large node is preferred to a small one, and the pod's load would be there."""
    world = World(node("a", cpu="8"), node("b", cpu="2"))
    world.see(world.see(pod("web", cpu="1")), node="b")
    assert [("web", "different", "a")] == world.outcomes() and {"uid-web"} == {*world.shadow.moved}


def test_a_node_that_is_as_good() -> None:
    """Of two nodes with the same score the tie break takes one; that the pod is on the other is no difference."""
    world = World(node("a"), node("b"), node("small", cpu="1"))
    web = world.see(pod("web", cpu="1"))
    (bind,) = [each for each in world.wanted if isinstance(each, Bind)]
    world.see(web, node="b" if bind.node == "a" else "a")
    assert (1, 1) == (world.shadow.counts.equal, world.shadow.counts.decided)
    assert [] == world.outcomes() and {} == world.shadow.moved


def test_later_pods_are_decided_on_the_real_state() -> None:
    """The policy put the first pod on a, but it is on b: so a has room, and the next one goes there again."""
    world = World(node("a", cpu="4"), node("b", cpu="3"))
    first = world.see(pod("first", cpu="3"))
    world.see(first, node="b")
    second = world.see(pod("second", cpu="3"))
    world.see(second, node="a")
    assert (1, 1) == (world.shadow.counts.different, world.shadow.counts.same)


def test_pods_that_still_wait_count_where_the_policy_has_put_them() -> None:
    """A burst does not all go to one node, though none of it is bound in reality."""
    world = World(node("a", cpu="2"), node("b", cpu="2"))
    for name in ("one", "two"):
        world.see(pod(name, cpu="2"))
    assert {"a", "b"} == {each.node for each in world.wanted if isinstance(each, Bind)}
    assert 2 == world.shadow.unbound


def test_a_tie_that_was_broken_differently_is_no_difference() -> None:
    """Of two pods that came together each scheduler put one on each node: the second is where the policy would have put it,
    had it known where the first one went."""
    world = World(node("a"), node("b"))
    one, two = world.see(pod("one", cpu="1")), world.see(pod("two", cpu="1"))
    first, second = [each.node for each in world.wanted if isinstance(each, Bind)]
    assert {"a", "b"} == {first, second}
    world.see(one, node=second)
    world.see(two, node=first)
    assert (2, 0) == (world.shadow.counts.equal, world.shadow.counts.different)


@pytest.mark.parametrize(("cumulative", "chosen"), [(False, ["a", "a", "a"]), (True, ["a", "b", "a"])])
def test_placements_add_up_if_asked_for(cumulative: bool, chosen: list[str]) -> None:
    """All pods really go to a small node. In one-step mode each is decided as if the policy had never scheduled one; in
    cumulative mode the policy sees where it has put those before."""
    world = World(node("a", cpu="6"), node("b", cpu="4"), node("small", cpu="2"), cumulative=cumulative)
    for name in ("one", "two", "three"):
        world.see(world.see(pod(name, cpu="1")), node="small")
    assert chosen == [each.shadow for each in world.shadow.differences]
    assert {"small"} == {each.node for each in world.shadow.real.cluster.placements.values()}


@pytest.mark.parametrize("unit", [Unit.ABSOLUTE, Unit.FRACTION])
def test_measurements_move_in_the_policys_world(unit: Unit) -> None:
    """The node that really has the pod is measured without it there, and the other one with it; the real state is as it
    was measured, and custom metrics are not touched."""
    world = World(node("a", cpu="8"), node("b", cpu="2"), cumulative=True)
    world.see(world.see(pod("web", cpu="1")), node="b")
    of_pod = Reading("p", "cpu", ("default/web",), (500.0,), (world.now,), Subject.PODS)
    scale = {"a": 8000.0, "b": 2000.0} if unit is Unit.FRACTION else {"a": 1.0, "b": 1.0}
    for _ in range(2):  # the pod's own usage is known from the first answer on
        world.now += 30
        values = (1000.0 / scale["a"], 900.0 / scale["b"], 7.0)
        of_nodes = Reading("n", "cpu", ("a", "b", "gone"), values, (world.now,) * 3, unit=unit)
        custom = Reading("c", "psi.cpu", ("a", "b"), (0.5, 0.25), (world.now,) * 2, unit=Unit.RAW)
        world.put(SamplesRead((of_nodes, structs.replace(of_pod, measured=(world.now,)), custom), world.now))
    shadow, real = world.shadow.engine.cluster.view.load, world.shadow.real.cluster.view.load
    assert [1500.0, 400.0] == pytest.approx(shadow.latest("cpu").tolist())
    assert [1000.0, 900.0] == pytest.approx(real.latest("cpu").tolist())
    assert [0.5, 0.25] == shadow.custom("psi.cpu").tolist()


def test_a_pod_that_was_bound_before_it_was_seen() -> None:
    """It is decided on the state without it, and counted as late."""
    world = World(node("a", cpu="4"), node("b", cpu="2"))
    world.see(pod("web", cpu="1", on="b"))
    assert (1, 1) == (world.shadow.counts.late, world.shadow.counts.different)
    assert [("web", "different", "a")] == world.outcomes()


def test_would_be_pending() -> None:
    """No node is feasible for the policy, neither when the pod came nor when it was bound; its reason is kept."""
    world = World(node("a", cpu="1"))
    web = world.see(pod("web", cpu="2"))
    world.see(web, node="a")
    (found,) = world.shadow.differences
    assert (Comparison.PENDING, "", True) == (found.comparison, found.shadow, found.late)
    assert "Insufficient cpu" in found.reason


def test_a_pod_that_fits_in_the_end() -> None:
    """It was pending for the policy, too, until a node came: what counts is the moment in which it was bound."""
    world = World(node("a", cpu="1"))
    web = world.see(pod("web", cpu="2"))
    world.put(NodeUpserted(node("b", cpu="4"), world.now))
    world.see(web, node="b")
    assert (1, 0) == (world.shadow.counts.same, world.shadow.counts.pending)


def test_a_retry_counts() -> None:
    """An unschedulable pod is tried again as the queue has it, and the last decision is the one that is compared."""
    world = World(node("a", cpu="1"))
    web = world.see(pod("web", cpu="2"))
    world.put(NodeUpserted(node("b", cpu="4"), world.now))
    world.wait(15)
    world.see(web, node="b")
    assert (1, 0) == (world.shadow.counts.same, world.shadow.counts.late)


def test_preemption_is_told_and_not_done() -> None:
    """The policy would have preempted; the pod is pending for it, until the real scheduler has made room."""
    world = World(node("a", cpu="2"))
    world.see(pod("low", cpu="2", on="a", priority=0))
    high = world.see(pod("high", cpu="2", priority=100))
    world.see(high, node="a")
    assert (1, 1) == (world.shadow.counts.preempting, world.shadow.counts.pending)


def test_what_was_there_before_is_not_compared() -> None:
    """Bound pods of the first list, and mirror pods at any time; pods that wait at the start are decided."""
    world = World(node("a"), synced=False)
    old = world.see(pod("old", on="a"))
    waiting = world.see(pod("waiting"))
    world.sync()
    world.wait(1)
    world.see(old, phase="Running")
    world.see(waiting, node="a")
    world.see(structs.replace(pod("mirror", on="a"), owner=Owner("Node", "a", "n")))
    assert (1, 1, 0) == (world.shadow.counts.decided, world.shadow.counts.same, world.shadow.counts.late)


def test_pods_that_go() -> None:
    """Deleted before they were bound they are only counted; the load of a finished or deleted pod is nowhere."""
    world = World(node("a", cpu="4"), node("b", cpu="2"))
    world.see(pod("short", cpu="1", uid="short"))
    world.put(PodDeleted("short", world.now))
    world.see(pod("ended", cpu="1"), terminating=True)
    assert (1, 0) == (world.shadow.counts.unscheduled, world.shadow.counts.decided)
    jobs = [world.see(pod(name, cpu="1", on="b", uid=name)) for name in ("job", "gone")]
    assert {"job", "gone"} == {*world.shadow.moved}
    world.see(jobs[0], phase="Succeeded")
    world.put(PodDeleted("gone", world.now))
    assert {} == world.shadow.moved and 2 == world.shadow.counts.different


def test_any_scheduler() -> None:
    """A name that is no profile is decided by the first one, and reported as it is."""
    world = World(node("a", cpu="4"), node("b", cpu="2"))
    world.see(pod("web", cpu="1", on="b"), scheduler_name="somebody-else")
    assert ["somebody-else"] == [each.scheduler for each in world.shadow.differences]


def test_a_nomination_of_the_real_scheduler_is_not_followed() -> None:
    """It is that scheduler's plan, not the policy's."""
    world = World(node("a", cpu="8"), node("b", cpu="2"))
    world.see(pod("web", cpu="1"), nominated_node="b")
    assert ["a"] == [each.node for each in world.wanted if isinstance(each, Bind)]


def test_a_forbidden_kind_leaves_pods_undecided() -> None:
    """They are not called pending: the policy might well have found a node."""
    world = World(node("a"), synced=False)
    for kind in world.shadow.engine.state.settings.kinds:
        forbidden = kind == "persistentvolumeclaims"
        world.put(KindForbidden(kind, "403", world.now) if forbidden else Synced(kind, world.now))
    claim = Volume("persistentVolumeClaim", "data")
    plain = pod("web")
    world.see(structs.replace(plain, spec=structs.replace(plain.spec, volumes=(claim,))), node="a")
    assert (1, 0) == (world.shadow.counts.undecided, world.shadow.counts.decided)


class Broken:
    """A filter that raises."""

    name = "Broken"
    requeue_on = depends_on = 0

    def filter(self, view: Any, pod: Pod, rows: Any) -> Any:
        raise RuntimeError("broken")

    def reasons(self, view: Any, pod: Pod, code: int) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize("seen_pending", [True, False])
def test_a_plugin_that_raises(seen_pending: bool) -> None:
    """The pod is not decided, and the shadow goes on."""
    profile = replace(PROFILE, filters=(Broken(), *PROFILE.filters))
    world = World(node("a"), profile=profile)
    if seen_pending:
        world.see(pod("web"))
    world.see(pod("web"), node="a")
    assert (1, 0) == (world.shadow.counts.undecided, world.shadow.counts.decided)
