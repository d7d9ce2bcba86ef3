"""DefaultPreemption: victims, the chosen node, and the messages when preemption does not help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.choose import choose, evaluate, final_rejections, nominated_by_node
from trimtab.core.framework.interface import FilterStatus, Plugin, PreemptionCandidate, Reject
from trimtab.core.framework.profile import Profile, multipoint
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Unschedulable
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.plugins.default_preemption import DefaultPreemption, dry_run, pick_one_node, victims
from trimtab.core.plugins.node_name import NodeName
from trimtab.core.plugins.node_ports import NodePorts
from trimtab.core.plugins.node_resources_fit import NodeResourcesFit
from trimtab.core.plugins.taint_toleration import TaintToleration

PLUGINS: tuple[Plugin, ...] = (NodeName(), TaintToleration(), NodePorts(), NodeResourcesFit())
PROFILE: Profile = multipoint("test", [(each, 1) for each in PLUGINS])
NEW = pod("new", cpu="2", priority=100)


def filter_status(held: Cluster, newcomer: Pod, nominated: list[Pod] | None = None) -> FilterStatus:
    view, answers = held.view, evaluate(held.view, newcomer, PROFILE)
    promised = nominated_by_node(view, newcomer, nominated or [])
    found = final_rejections(view, newcomer, answers, promised)
    codes = found.codes.copy()
    codes[found.rejected_by == PASSES] = 0
    codes[found.excluded] = -1
    return FilterStatus(tuple(PROFILE.filters[index] for index in sorted(answers.codes)), codes, promised)


def asked(held: Cluster, newcomer: Pod = NEW, nominated: list[Pod] | None = None) -> PreemptionCandidate | Reject:
    return DefaultPreemption().post_filter(held.view, newcomer, filter_status(held, newcomer, nominated))


def candidate(held: Cluster, newcomer: Pod = NEW, nominated: list[Pod] | None = None) -> tuple[str, list[str]]:
    answer = asked(held, newcomer, nominated)
    assert isinstance(answer, PreemptionCandidate), answer
    return answer.node, [each.name for each in answer.victims]


def running(name: str, cpu: str, on: str, priority: int = 0, started: float | None = 10.0, **fields: Any) -> Pod:
    return replace(pod(name, cpu=cpu, on=on, priority=priority, **fields), started=started)


def budget(allowed: int, name: str = "b", disrupted: tuple[str, ...] = (), **labels: str) -> PodDisruptionBudget:
    selector = LabelSelector(tuple(labels.items()))
    return PodDisruptionBudget(
        name=name,
        uid=name,
        namespace="default",
        selector=selector,
        disruptions_allowed=allowed,
        disrupted_pods=disrupted,
    )


def test_the_less_important_have_to_leave() -> None:
    """Pods of higher priority are taken back first, then those that have run longer."""
    held = cluster(
        node("a", cpu="4"),
        running("low", "1", "a"),
        running("high", "1", "a", 50),
        running("old", "1", "a", 20, started=1.0),
        running("young", "1", "a", 20, started=9.0),
    )
    assert ("a", ["young", "low"]) == candidate(held)


def test_a_large_pod_leaves_where_small_ones_would_not_do() -> None:
    """Who does not fit beside the newcomer goes, and lesser ones that do fit come back all the same."""
    held = cluster(node("a", cpu="4"), running("large", "3", "a", 50), running("small", "1", "a"))
    assert ("a", ["large"]) == candidate(held)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ([running("b1", "3", "b", 5)], "the highest priority of a victim is lower on a"),
        ([running("b1", "2", "b"), running("b2", "2", "b")], "one victim of each, so the later start decides"),
        ([running("b1", "1500m", "b"), running("b2", "1500m", "b"), running("b3", "1", "b")], "two victims on b"),
        ([running("b1", "3", "b", started=5.0)], "the victim on a started later"),
    ],
)
def test_least_harm_decides(others: list[Pod], why: str) -> None:
    """Of two nodes the one with the less important victims is picked; node a always wins here."""
    held = cluster(node("a", cpu="4"), node("b", cpu="4"), running("a1", "3", "a", started=20.0), *others)
    assert ("a", ["a1"]) == candidate(held), why


def test_fewer_victims_decide_where_priorities_add_up_to_the_same() -> None:
    """Pods of the lowest priority there is add nothing to the sum, so that their number counts, before their start."""
    lowest = -(2**31)
    held = cluster(
        node("a", cpu="4"),
        node("b", cpu="4"),
        running("a1", "3", "a", lowest),
        running("b1", "2", "b", lowest, started=20.0),
        running("b2", "1500m", "b", lowest, started=20.0),
    )
    assert ("a", ["a1"]) == candidate(held, pod("new", cpu="3", priority=100))


def test_a_budget_counts_for_more_than_priority() -> None:
    """A node where a disruption budget would break is left alone, though its victim is less important."""
    held = cluster(
        node("a", cpu="4"),
        node("b", cpu="4"),
        running("a1", "3", "a", labels={"app": "web"}),
        running("b1", "3", "b", 50),
    )
    held.upsert_object(budget(0, app="web"))
    assert ("b", ["b1"]) == candidate(held)
    held.upsert_object(budget(1, app="web"))
    assert ("a", ["a1"]) == candidate(held)


def test_who_breaks_a_budget_is_taken_back_first() -> None:
    """Within a node a pod without a budget leaves before one whose budget is spent."""
    held = cluster(
        node("a", cpu="4"), running("guarded", "2", "a", labels={"app": "web"}), running("free", "2", "a", 50)
    )
    held.upsert_object(budget(0, app="web"))
    assert ("a", ["free"]) == candidate(held)


@pytest.mark.parametrize(
    ("held_budget", "broken"),
    [
        (budget(0, app="web"), 1),
        (budget(0, app="other"), 0),
        (budget(0), 0),
        (replace(budget(0, app="web"), namespace="elsewhere"), 0),
        (replace(budget(0, app="web"), selector=None), 0),
        (budget(0, disrupted=("web",), app="web"), 0),
    ],
)
def test_which_budgets_count(held_budget: PodDisruptionBudget, broken: int) -> None:
    """Budgets of the namespace that select the pod, unless its eviction is counted; an empty selector matches none."""
    held = cluster(node("a", cpu="4"), running("web", "3", "a", labels={"app": "web"}))
    held.upsert_object(held_budget)
    answer = asked(held)
    assert isinstance(answer, PreemptionCandidate)
    assert broken == answer.pdb_violations


def test_nodes_that_refuse_for_good_are_not_looked_at() -> None:
    """Nobody is displaced where a taint keeps the pod out anyway."""
    held = cluster(
        node("a", cpu="4", taints=["gpu=yes:NoSchedule"]),
        node("b", cpu="4"),
        running("a1", "3", "a"),
        running("b1", "3", "b", 50),
    )
    assert ("b", ["b1"]) == candidate(held)


def test_a_rejection_for_good_is_believed() -> None:
    """Also where the filters would pass without the pods on the node: a plugin may know more than it can compute there."""
    held = cluster(node("a", cpu="4"), node("b", cpu="4"), running("a1", "3", "a"), running("b1", "3", "b", 50))
    status = filter_status(held, NEW)
    assert [0, 1] == dry_run(held.view, NEW, status).rows.tolist()
    status.codes[0] = -1
    assert [1] == dry_run(held.view, NEW, status).rows.tolist()


def test_ports_can_be_cleared() -> None:
    """A pod that holds the requested host port is a victim, although resources suffice."""
    held = cluster(node("a", cpu="4"), running("holder", "1", "a", ports=[80]), running("other", "1", "a", ports=[81]))
    assert ("a", ["holder"]) == candidate(held, pod("new", cpu="1", ports=[80], priority=100))


def test_promised_room_is_not_counted_on() -> None:
    """A pod nominated for the node counts there, so there are more victims, or another node is better."""
    held = cluster(node("a", cpu="4"), running("one", "2", "a", 5), running("two", "2", "a"))
    assert ("a", ["two"]) == candidate(held)
    promised = replace(pod("promised", cpu="2", priority=100), nominated_node="a")
    assert ("a", ["one", "two"]) == candidate(held, NEW, [promised])


def test_why_nobody_can_be_displaced() -> None:
    """Each node has its reason, in kube-scheduler's wording."""
    held = cluster(
        node("a", cpu="4"),
        node("b", cpu="1"),
        node("c", cpu="4"),
        running("high", "3", "a", 100),
        running("higher", "3", "c", 100),
        running("low", "500m", "c"),
    )
    words = (
        "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    assert Reject(words) == asked(held)


@pytest.mark.parametrize(
    ("leaving", "eligible"),
    [
        ({"terminating": True, "preempted": True}, False),
        ({"terminating": True}, True),
        ({"preempted": True}, True),
        ({"terminating": True, "preempted": True, "priority": 100}, True),
    ],
)
def test_who_waits_for_victims_asks_for_no_more(leaving: dict[str, Any], eligible: bool) -> None:
    """Only victims of a preemption, of lower priority and on the nominated node, are waited for."""
    held = cluster(
        node("a", cpu="4"), node("b", cpu="4"), running("b1", "3", "b", 50), replace(running("a1", "3", "a"), **leaving)
    )
    answer = asked(held, replace(NEW, nominated_node="a"))
    assert eligible is isinstance(answer, PreemptionCandidate)
    if isinstance(answer, Reject):
        assert Reject("not eligible due to a terminating pod on the nominated node.", unresolvable=False) == answer


some_pod = st.tuples(
    st.sampled_from("ab"),
    st.integers(1, 3),
    st.integers(0, 4),
    st.none() | st.floats(1, 3),
    st.sampled_from(((), (80,))),
)


@given(st.lists(some_pod, min_size=2, max_size=10), st.integers(1, 4), st.booleans(), st.integers(0, 2))
def test_victims_are_lesser_pods_and_just_enough_of_them(
    crowd: list[tuple[str, int, int, float | None, tuple[int, ...]]], cpu: int, wants_port: bool, allowed: int
) -> None:
    """For any pods: no victim has equal or higher priority, the pod then fits, and each victim was needed."""
    newcomer = pod("newcomer", cpu=str(cpu), priority=3, ports=[80] if wants_port else [])
    standing = [
        running(f"p{number}", str(size), on, priority, started, ports=ports, labels={"app": str(priority)})
        for number, (on, size, priority, started, ports) in enumerate(crowd)
    ]
    held = cluster(node("a", cpu="6"), node("b", cpu="4"), *standing)
    held.upsert_object(budget(allowed, app="1"))
    trouble = filter_status(held, newcomer)
    run = dry_run(held.view, newcomer, trouble)
    for place in range(len(run.rows)):
        leaving = victims(held.view, run, place)
        assert all(each.priority < newcomer.priority for each in leaving)
        if leaving:
            name = held.view.nodes[run.rows[place]].name
            assert fits(held, newcomer, name, leaving)
            for back in leaving:
                assert not fits(held, newcomer, name, tuple(each for each in leaving if each is not back))
    best = pick_one_node(held.view, newcomer, run)
    assert (best is not None) == bool(len(run.victims))


def fits(held: Cluster, newcomer: Pod, name: str, leaving: tuple[Pod, ...]) -> bool:
    """Whether every filter passes the node in a real copy of the cluster without these pods."""
    twin = held.fork()
    for each in leaving:
        twin.delete_pod(each.uid)
    codes = filter_status(twin, newcomer).codes
    row = twin.view.row(name)
    assert row is not None
    return not codes[row]


def test_a_pod_that_fits_needs_no_room() -> None:
    """Where a node is feasible, this plugin does not run."""
    held = cluster(node("a", cpu="4"), running("low", "1", "a"))
    assert not isinstance(choose(held.view, NEW, PROFILE), Unschedulable)
