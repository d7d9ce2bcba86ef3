"""The text for a decision: it agrees with the decision, and reads as expected."""

import pytest
from msgspec.structs import replace

from tests.sim.random_cluster import random_cluster
from trimtab.core.framework.explain import Explanation, NodeRow
from trimtab.core.model.schedule_result import Decision, Placement, Unschedulable
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import explain_now
from trimtab.sim.demo.decision_text import format_scores, full_reason, short_reason
from trimtab.sim.simulation import Simulation

TAINTED = NodeRow("cp", rejected_by="TaintToleration", reasons=("node(s) had untolerated taint(s)",))
ONE = NodeRow("w1", scores={"NodeResourcesFit": 80, "TaintToleration": 300, "ImageLocality": 0}, total=380)
TWO = NodeRow("w2", scores={"NodeResourcesFit": 70, "TaintToleration": 300, "ImageLocality": 5}, total=375)
TWIN = NodeRow("w3", scores=ONE.scores, total=380)


def reasons(node: str, *rows: NodeRow, by_requests: str = "") -> tuple[str, str]:
    explanation = Explanation("demo/p", "0/1 nodes are available: 1 Insufficient cpu.", node, rows)
    return full_reason(explanation, by_requests), short_reason(explanation)


def test_the_table_agrees_with_the_decision_it_explains() -> None:
    """For every decision of a run, the table computed afterwards gives the same node, total, count and message."""
    seen = {Placement: 0, Unschedulable: 0}

    def check(simulation: Simulation, decision: Decision) -> None:
        table = explain_now(simulation.engine.controller(Scheduling), simulation.engine.cluster.pods[decision.uid])
        verdict = decision.verdict
        seen[type(verdict)] += 1
        if isinstance(verdict, Placement):
            chosen = next(line for line in table.rows if line.node == verdict.node)
            assert (verdict.node, verdict.total) == (table.node, chosen.total)
            assert verdict.feasible == sum(not line.rejected_by for line in table.rows)
        else:
            assert ("", replace(verdict, preemption_message="").message()) == (table.node, table.verdict)

    random_cluster(5, check).run_until(200.0)
    assert min(seen.values()) > 5


def test_explaining_does_not_change_the_engine() -> None:
    """A run in which every decision is explained equals one without."""
    tables: list[Explanation] = []
    plain, explaining = (
        random_cluster(6),
        random_cluster(
            6,
            lambda simulation, decision: tables.append(
                explain_now(simulation.engine.controller(Scheduling), simulation.engine.cluster.pods[decision.uid])
            ),
        ),
    )
    for simulation in (plain, explaining):
        simulation.run_until(200.0)
    assert plain.world.kube_events == explaining.world.kube_events
    assert plain.world.pods == explaining.world.pods
    assert 60 <= len(tables)


def test_a_clear_winner_has_the_scores_that_differ() -> None:
    """Only plugins that differ between the two best nodes are named, and rejections are counted."""
    words, short = reasons("w1", ONE, TWO, TAINTED)
    assert (
        "best of 2 of 3 nodes: score 380, next w2 375 (NodeResourcesFit 80 vs 70, ImageLocality 0 vs 5); "
        "rejected: 1 node(s) had untolerated taint(s)"
    ) == words
    assert "score 380, next w2 375; 1 rejected" == short


def test_a_tie() -> None:
    """Whichever of the nodes comes first in the table."""
    words, short = reasons("w3", ONE, TWIN, TWO)
    assert "best of 3 of 3 nodes: score 380, a tie with w1, broken by a hash of pod and node" == words
    assert "score 380, tie with w1 380" == short


def test_the_only_feasible_node() -> None:
    """There is nothing to compare with."""
    assert (
        "the only feasible node; rejected: 1 node(s) had untolerated taint(s)",
        "the only feasible node; 1 rejected",
    ) == reasons("w1", ONE, TAINTED)


def test_no_feasible_node() -> None:
    """The message is kube-scheduler's."""
    sentence_and_short = reasons("", TAINTED)
    assert ("0/1 nodes are available: 1 Insufficient cpu.",) * 2 == sentence_and_short


@pytest.mark.parametrize(
    ("by_requests", "words"),
    [
        ("", ""),
        ("w1", ""),
        ("w2", "; by requests alone: w2 (NodeResourcesFit 80 vs 70, ImageLocality 0 vs 5)"),
        ("cp", "; by requests alone: cp (rejected by TaintToleration)"),
    ],
)
def test_the_node_that_requests_would_choose_is_named_if_it_is_another(by_requests: str, words: str) -> None:
    """With why not: lower scores, or the filter that rejected it."""
    plain, _ = reasons("w1", ONE, TWO, TAINTED)
    assert plain + words == reasons("w1", ONE, TWO, TAINTED, by_requests=by_requests)[0]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (380, 375, ("380", "375")),
        (979.2, 978.9, ("979.2", "978.9")),
        (979.231, 979.208, ("979.23", "979.21")),
        (979.231, 979.234, ("979.231", "979.234")),
        (12.5, 12.5, ("12", "12")),
    ],
)
def test_scores_have_as_many_decimals_as_needed(one: float, other: float, shown: tuple[str, str]) -> None:
    """More decimals only if the scores are close."""
    assert shown == format_scores(one, other)
