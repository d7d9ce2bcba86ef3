"""Which nodes controllers take for eligible: the same ones as the scheduler's plugins, in the recorded cases."""

from pathlib import Path

from tests.build import node, pod
from tests.conformance.corpus import Case, Unreadable, cases, read_node, read_pod
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from trimtab.sim.node_matching import selects, tolerates

OWN = Path(__file__).parents[1] / "conformance" / "recorded"


def recorded(plugin: str) -> list[tuple[Case, dict[str, bool]]]:
    """Cases with default arguments, and for each node whether the plugin lets the pod run there."""
    found = []
    for case in cases(OWN)[plugin]:
        expected = case["expected"]
        if case.get("args") or ("preFilter" not in expected and "filter" not in expected):
            continue
        pre = expected.get("preFilter", {"code": "Success"})
        names = [each["metadata"]["name"] for each in case["nodes"]]
        if pre["code"] == "Skip":
            found.append((case, dict.fromkeys(names, True)))
        elif pre["code"] == "Success":
            only = pre.get("nodeNames") or names
            passes = {name for name, each in expected["filter"].items() if each["code"] == "Success"}
            found.append((case, {name: name in only and name in passes for name in names}))
    return found


def test_selectors_and_required_affinity_agree_with_the_plugin() -> None:
    """For every recorded pod and node of NodeAffinity, with all operators and fields."""
    compared = 0
    for case, expected in recorded("NodeAffinity"):
        try:
            subject, nodes = read_pod(case["pod"]), [read_node(each) for each in case["nodes"]]
        except Unreadable:
            continue
        assert expected == {each.name: selects(subject.spec, each) for each in nodes}, case["id"]
        compared += len(nodes)
    assert 100 < compared


def test_tolerations_agree_with_the_plugin() -> None:
    """For every recorded pod and node of TaintToleration."""
    compared = 0
    for case, expected in recorded("TaintToleration"):
        subject, nodes = read_pod(case["pod"]), [read_node(each) for each in case["nodes"]]
        assert expected == {each.name: tolerates(subject.spec.tolerations, each) for each in nodes}, case["id"]
        compared += len(nodes)
    assert 100 < compared


def test_a_running_pod_is_ended_by_no_execute_only() -> None:
    """Other effects concern new pods."""
    tolerated = (Toleration("gpu", "Exists", "", NO_EXECUTE),)
    for taint, new, running in (
        (Taint("gpu", "", NO_SCHEDULE), False, True),
        (Taint("gpu", "", NO_EXECUTE), True, True),
        (Taint("disk", "", NO_EXECUTE), False, False),
    ):
        tainted = node("n1", taints=[f"{taint.key}=:{taint.effect}"])
        assert (new, running) == (tolerates(tolerated, tainted), tolerates(tolerated, tainted, running=True))


def test_a_pod_without_wishes_runs_anywhere() -> None:
    """Neither a selector nor an affinity."""
    assert selects(pod("web").spec, node("n1"))
