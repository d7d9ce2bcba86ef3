"""Gates: what they compare, whom they accuse, and what is said about expressions that cannot be understood."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trimtab.apps.simulate.gates import Gate, GateError, parse_gate, violations
from trimtab.apps.simulate.results import PolicyFacts, Results, Run, ScenarioFacts
from trimtab.sim.comparison import summarise

POLICIES = ("stock", "PeakRisk", "slow")
FACTS = ScenarioFacts("small", "", "", 3, 0.0, 60.0, 1.0, 0.0, 30.0)


def results(values: Mapping[str, Mapping[str, float]], policies: tuple[str, ...] = POLICIES) -> Results:
    """One seed; by measure and policy."""
    summaries = {
        measure: summarise({policy: {1: value} for policy, value in of.items()}) for measure, of in values.items()
    }
    runs = [Run(policy, 1, 0, {}) for policy in next(iter(values.values()))]
    facts = [PolicyFacts(policy, "") for policy in policies]
    return Results("", "", {}, "", FACTS, facts, [1], [], runs, summaries, {}, {})


RESULTS = results(
    {"hot80": {"stock": 0.02, "PeakRisk": 0.01, "slow": 0.05}, "oom_kills": {"stock": 0, "PeakRisk": 0, "slow": 3}}
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("hot80 > 0.02", ["slow"]),
        ("hot80 >= 0.02", ["stock", "slow"]),
        ("hot80<1%", []),
        ("hot80 <= 1 %", ["PeakRisk"]),
        ("hot80 < 2e-2", ["PeakRisk"]),
        ("PeakRisk: hot80 > 0.02", []),
        ("slow:hot80>.02", ["slow"]),
        ("ratio(hot80) > 0.9", ["slow"]),
        ("ratio( hot80 ) < 0.9", ["PeakRisk"]),
        ("PeakRisk: ratio(hot80) > 0.4", ["PeakRisk"]),
        ("ratio(oom_kills) > 1", ["slow"]),  # the first policy has 0, so a ratio of more is not known to be good
    ],
)
def test_who_violates_what(expression: str, expected: list[str]) -> None:
    """The policies that a gate accuses."""
    gate = parse_gate(expression, POLICIES)
    assert expected == [each.policy for each in violations([gate], RESULTS)]


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ("hto80 > 1", 0, "there is no measure 'hto80' (did you mean hot80?): write one of hot80, hot90"),
        ("ratio(spred) > 1", 6, "there is no measure 'spred' (did you mean spread?)"),
        ("", 0, "a measure is missing"),
        ("hot80", 5, "a comparison is missing: write one of <, <=, >, >="),
        ("hot80 = 1", 6, "a comparison is missing"),
        ("hot80 > much", 7, "a number is missing at the end"),
        ("hot80 > 1 2", 7, "a number is missing at the end"),
        ("PeekRisk: hot80 > 1", 0, "there is no policy 'PeekRisk' (did you mean PeakRisk?): write one of stock"),
        ("stock: ratio(hot80) > 1", 0, "stock is the first policy"),
    ],
)
def test_expressions_that_cannot_be_understood(expression: str, column: int, message: str) -> None:
    """What is wrong and where, with a mark under the place."""
    with pytest.raises(GateError) as error:
        parse_gate(expression, POLICIES)
    assert column == error.value.column
    assert error.value.message.startswith(message)
    assert str(error.value).endswith(f"\n  {expression}\n  {' ' * column}^")


def test_a_ratio_needs_two_policies() -> None:
    """Alone it would always be 1."""
    with pytest.raises(GateError, match="needs a second policy"):
        parse_gate("ratio(hot80) > 1", ("stock",))


def test_a_violation_says_by_how_much() -> None:
    """The value, the limit and the difference."""
    (found,) = violations([parse_gate("PeakRisk: hot80 > 0.004", POLICIES)], RESULTS)
    assert "PeakRisk: hot80 is 0.01, which is > 0.004, by 0.006" == str(found)


def test_a_policy_without_results_violates_its_gates() -> None:
    """What cannot be checked must not pass."""
    gate = Gate("hot80 > 1", "", "hot80", False, ">", 1.0)
    missing = results({"hot80": {"stock": 0.0, "PeakRisk": 0.0}})
    (found,) = violations([gate], missing)
    assert ("slow", None) == (found.policy, found.value)
    assert "cannot be computed" in str(found)
