"""The doctor's findings about label rules: nodes with and without samples, and what would be labelled now."""

from __future__ import annotations

import pytest

from tests.apps.fake_apiserver import FakeApiServer, configured, findings_of
from tests.config.config_files import TRIMTAB_HEAD
from tests.kube.fault_server import ReceivedRequest, serving
from tests.sources.fake_prometheus import NOW, respond_with, series, vector
from trimtab.apps.doctor.finding import Area, Finding, Severity
from trimtab.apps.doctor.label_checks import has_comparison
from trimtab.config.trimtab.labeller import from_rule_file, labeller_configuration
from trimtab.core.model.node import Node

RULES = "Rulename: {Node_mem: {Promsql: used, Threshold: 70}}"


def node(name: str, **labels: str) -> Node:
    return Node(name, labels=labels, addresses=(name,))


async def examined(
    nodes: tuple[Node, ...],
    *found: list[object],
    text: str = RULES,
    apply: bool = False,
    requests: list[ReceivedRequest] | None = None,
) -> list[Finding]:
    """The findings if Prometheus answers a rule.yaml's query with these series, and the requests it received."""
    async with serving(respond_with(vector(*found))) as prometheus:
        url = f"http://127.0.0.1:{prometheus.port}"
        findings = [*await FakeApiServer(nodes).run_doctor(from_rule_file(text, "rule.yaml", url, 10.0, apply))]
    if requests is not None:
        requests += prometheus.received
    return findings


def sample(name: str, percent: float, at: float = NOW - 5) -> list[object]:
    return list(series({"instance": name}, str(percent), at))


def of(findings: list[Finding], subject: str) -> Finding:
    (found,) = (each for each in findings if each.area is Area.LABELS and each.subject == subject)
    return found


async def test_a_rule_that_knows_every_node() -> None:
    """The finding says so and what the labeller would do now; nothing is queried twice."""
    requests: list[ReceivedRequest] = []
    found = await examined((node("a"), node("b")), sample("a", 83), sample("b", 12), requests=requests)
    assert 1 == len(requests)
    assert "its query is known for all 2 eligible nodes" == of(found, "Node_mem").message
    now = of(found, "now")
    assert (Severity.OK, ("a",)) == (now.severity, now.nodes)
    why = "Node_mem is 83 (labels above 70, clears at 63)"
    assert f"would label 1, if it lasts: a (+status=presure; {why})" == now.message
    assert [] == findings_of(found, Severity.PROBLEM) + findings_of(found, Severity.WARNING)


async def test_nodes_that_a_rule_knows_nothing_of() -> None:
    """Each with its reason, the remedy of the most frequent one, and all nodes for scripts."""
    nodes = tuple(map(node, "abcdef"))
    found = await examined(nodes, *(sample(name, 10) for name in "abc"), sample("d", 10, NOW - 400), sample("x", 10))
    rule = of(found, "Node_mem")
    assert (Severity.WARNING, ("d", "e", "f")) == (rule.severity, rule.nodes)
    assert "its query is known for 3 of 6 nodes; others are not labelled, and lose labels" in rule.message
    assert "no series for 2 of 6 nodes: e (e), f (f)" in rule.message
    assert (
        "series that match no node have instance=x" in rule.message
        and "too old for 1 of 6 nodes: d (400 s)" in rule.message
    )
    assert "set nodeLabel" in rule.remedy
    assert [] == [each for each in found if each.area is Area.NODES]  # said once


@pytest.mark.parametrize(
    ("query", "leaves_out"),
    [
        ("used > 70", True),
        ("used >= 70 or other", True),
        ("a == b", True),
        ("used", False),
        ("used > bool 70", False),
        ("used >=  bool 70", False),
        ("used{job!='x', path=~'a>b'} / on (instance) all", False),
        ('label_replace(used, "a", "<$1>", "b", "(.*)")', False),
        ("", False),
    ],
)
def test_a_query_that_leaves_nodes_out(query: str, leaves_out: bool) -> None:
    """A comparison that filters; not one in label matchers or strings."""
    assert leaves_out == has_comparison(query)


async def test_a_comparison_in_a_query_is_told() -> None:
    """It looks as if nodes were not scraped, but they are calm."""
    found = await examined((node("a"), node("b")), sample("a", 90), text=RULES.replace("used", "used > 70"))
    assert "compare by above or below" in of(found, "Node_mem").remedy


@pytest.mark.parametrize("many", [0, 1])
async def test_a_rule_that_knows_nobody_or_few(many: int) -> None:
    """A problem if more are missing than load.mostMissing allows."""
    nodes = tuple(map(node, "abcd"))
    found = await examined(nodes, *([sample("a", 10)] if many else [sample("x", 10)]))
    rule = of(found, "Node_mem")
    assert (Severity.PROBLEM, 4 - many) == (rule.severity, len(rule.nodes))
    assert many or "its query is known for no node, so the rule labels none" in rule.message


async def test_control_planes_are_not_missed() -> None:
    """They are never labelled, so a query without them is complete, and pressure on them is not reported."""
    plane = Node("m", labels={"node-role.kubernetes.io/control-plane": ""}, addresses=("m",))
    found = await examined((node("a"), plane), sample("a", 10))
    assert "its query is known for the one eligible node" == of(found, "Node_mem").message
    found = await examined((node("a"), plane), sample("a", 10), sample("m", 99))
    assert "would label no node, and none is labelled" == of(found, "now").message
    found = await examined((plane,), sample("m", 99))
    assert "every node is excluded, so none is ever labelled" == of(found, "rules").message


async def test_marks_that_are_there() -> None:
    """Labels stay on pressed and unknown nodes and go from calm ones; on all nodes at once they are a warning."""
    labelled = {"status": "presure"}
    nodes = (node("hot", **labelled), node("calm", **labelled), node("silent", **labelled), node("new"))
    found = await examined(nodes, sample("hot", 90), sample("calm", 10), sample("new", 99))
    says = of(found, "now").message
    assert "would remove labels from 1: calm (-status; no rule holds any more)" in says
    assert "would label 1, if it lasts: new" in says and "2 already labelled: hot, silent" in says
    crowded = of(await examined(nodes[:1], sample("hot", 90)), "now")
    assert Severity.OK is crowded.severity  # one alone is no crowd
    crowded = of(await examined((node("a"), node("b")), sample("a", 90), sample("b", 91)), "now")
    assert (Severity.WARNING, True) == (crowded.severity, "all eligible nodes are under pressure" in crowded.message)


async def test_a_key_that_somebody_else_uses() -> None:
    """A warning: these nodes are never labelled."""
    found = await examined((node("a", status="mine"), node("b")), sample("a", 90), sample("b", 10))
    taken = of(found, "status")
    assert (("a",), True) == (taken.nodes, "which are never labelled: a" in taken.message)
    assert "would label no node" in of(found, "now").message


@pytest.mark.parametrize(("mode", "found"), [("apply", ["a"]), ("observe", [])])
async def test_marks_that_no_rule_gives(mode: str, found: list[str]) -> None:
    """They would be removed, and may belong to another labeller: a warning."""
    nodes = (Node("a", labels={"pressure.trimtab.dev/old": "high"}, addresses=("a",)), node("b"))
    async with serving(respond_with(vector(sample("a", 1), sample("b", 1)))) as prometheus:
        source = f"{{name: p, prometheus: {{url: 'http://127.0.0.1:{prometheus.port}'}}}}"
        labels = f"labels: {{mode: {mode}, rules: [{{name: own, query: used, above: 70}}]}}\n"
        configuration = labeller_configuration(configured(f"{TRIMTAB_HEAD}sources: [{source}]\n{labels}"), "f.yaml")
        findings = await FakeApiServer(nodes).run_doctor(configuration)
    assert found == [name for each in findings if each.subject == "leftovers" for name in each.nodes]


async def test_more_nodes_than_are_written_at_once() -> None:
    """All are listed, however many patches the labeller sends at once."""
    nodes = tuple(node(f"n{number:03}") for number in range(120))
    found = await examined(nodes, *(sample(each.name, 90 if each.name < "n110" else 10) for each in nodes))
    now = of(found, "now")
    assert ("would label 110, if it lasts: n000", 110) == (now.message[:34], len(now.nodes))
    assert "and 107 more" in now.message
