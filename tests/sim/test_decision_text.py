"""The words for a decision: they agree with the decision itself, and each kind reads as it should."""

import pytest
from msgspec.structs import replace

from tests.sim.random_cluster import random_cluster, run
from trimtab.core.framework.explain import Explanation, NodeRow
from trimtab.core.model.schedule_result import Decision, Placement, Unschedulable
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import explain_now
from trimtab.sim.decision_text import format_scores, full_reason, short_reason
from trimtab.sim.driver import SimulationDriver

TAINTED = NodeRow("cp", refused_by="TaintToleration", reasons=("node(s) had untolerated taint(s)",))
ONE = NodeRow("w1", scores={"NodeResourcesFit": 80, "TaintToleration": 300, "ImageLocality": 0}, total=380)
TWO = NodeRow("w2", scores={"NodeResourcesFit": 70, "TaintToleration": 300, "ImageLocality": 5}, total=375)
TWIN = NodeRow("w3", scores=ONE.scores, total=380)


def told(node: str, *lines: NodeRow, by_requests: str = "") -> tuple[str, str]:
    explanation = Explanation("demo/p", "0/1 nodes are available: 1 Insufficient cpu.", node, lines)
    return full_reason(explanation, by_requests), short_reason(explanation)


def test_the_table_agrees_with_the_decision_it_explains() -> None:
    """For every decision of a run, the table computed afterwards gives the same node, total, count and refusal."""
    seen = {Placement: 0, Unschedulable: 0}

    def look(drive: SimulationDriver, decision: Decision) -> None:
        table = explain_now(drive.engine.controller(Scheduling), drive.engine.cluster.pods[decision.uid])
        verdict = decision.verdict
        seen[type(verdict)] += 1
        if isinstance(verdict, Placement):
            chosen = next(line for line in table.lines if line.node == verdict.node)
            assert (verdict.node, verdict.total) == (table.node, chosen.total)
            assert verdict.feasible == sum(not line.refused_by for line in table.lines)
        else:
            assert ("", replace(verdict, preemption_message="").message()) == (table.node, table.verdict)

    run(random_cluster(5, look), 200.0)
    assert min(seen.values()) > 5


def test_explaining_leaves_the_engine_as_it_was() -> None:
    """A run with an onlooker who explains everything is the same run as one without."""
    tables: list[Explanation] = []
    plain, explaining = (
        random_cluster(6),
        random_cluster(
            6,
            lambda drive, decision: tables.append(
                explain_now(drive.engine.controller(Scheduling), drive.engine.cluster.pods[decision.uid])
            ),
        ),
    )
    for drive in (plain, explaining):
        run(drive, 200.0)
    assert plain.world.kube_events == explaining.world.kube_events
    assert plain.world.pods == explaining.world.pods
    assert 60 <= len(tables)


def test_a_clear_best_is_told_with_the_scores_that_made_it() -> None:
    """Only plugins that differ between the two best nodes are named, and the refusals are counted."""
    words, short = told("w1", ONE, TWO, TAINTED)
    assert (
        "best of 2 of 3 nodes: score 380, next w2 375 (NodeResourcesFit 80 against 70, ImageLocality 0 against 5); "
        "refused: 1 node(s) had untolerated taint(s)"
    ) == words
    assert "score 380, next w2 375; 1 refused" == short


def test_a_tie_is_called_a_tie() -> None:
    """Equal scores are said to be equal, whichever of the nodes comes first in the table."""
    words, short = told("w3", ONE, TWIN, TWO)
    assert "best of 3 of 3 nodes: score 380, a tie with w1, broken by a hash of pod and node" == words
    assert "score 380, tie with w1 380" == short


def test_the_only_node_is_not_compared() -> None:
    """Where one node passes there is nothing to compare."""
    assert (
        "the only node that will do; refused: 1 node(s) had untolerated taint(s)",
        "the only node that will do; 1 refused",
    ) == told("w1", ONE, TAINTED)


def test_no_node_is_told_in_kube_schedulers_words() -> None:
    """A refusal is the verdict's own sentence."""
    sentence_and_short = told("", TAINTED)
    assert ("0/1 nodes are available: 1 Insufficient cpu.",) * 2 == sentence_and_short


@pytest.mark.parametrize(
    ("by_requests", "words"),
    [
        ("", ""),
        ("w1", ""),
        ("w2", "; by requests alone: w2 (NodeResourcesFit 80 against 70, ImageLocality 0 against 5)"),
        ("cp", "; by requests alone: cp (refused by TaintToleration)"),
    ],
)
def test_the_node_that_requests_speak_for_is_named_where_it_is_another(by_requests: str, words: str) -> None:
    """With what was said against it: scores, or whoever refused it."""
    plain, _ = told("w1", ONE, TWO, TAINTED)
    assert plain + words == told("w1", ONE, TWO, TAINTED, by_requests=by_requests)[0]


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
def test_scores_have_the_decimals_it_takes_to_tell_them_apart(one: float, other: float, shown: tuple[str, str]) -> None:
    """Finer scores are shown finer only where they are close."""
    assert shown == format_scores(one, other)
