"""Gates: conditions on results under which a run fails, for CI.

hot80 > 0.02                 the mean over seeds, of any policy
ratio(hot80) > 0.9           relative to the first policy, of any other
PeakRisk: pending_p99 >= 30  of one policy
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from trimtab.apps.simulate.results import Results
from trimtab.config.diagnostics import did_you_mean
from trimtab.sim.measures import MEASURES_BY_NAME

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_TOKEN = re.compile(r"\s*(?:(?P<ratio>ratio)\s*\(\s*(?P<of>\w+)\s*\)|(?P<name>\w+))\s*")
_NUMBER = re.compile(r"\s*(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<percent>%?)\s*$")


class GateError(Exception):
    """An expression that cannot be understood: what is wrong, and the column from 0 on."""

    def __init__(self, expression: str, column: int, message: str) -> None:
        super().__init__(message)
        self.expression, self.column, self.message = expression, column, message

    def __str__(self) -> str:
        return f"{self.message}\n  {self.expression}\n  {' ' * self.column}^"


class Gate(Struct, frozen=True):
    """A parsed expression; `policy` is empty for all."""

    expression: str
    policy: str
    measure: str
    ratio: bool
    comparison: str
    limit: float


class Violation(Struct, frozen=True):
    """A gate that is violated, by which policy and value; `value` is None where there is none to compare."""

    gate: Gate
    policy: str
    value: float | None

    def __str__(self) -> str:
        gate = self.gate
        what = f"ratio({gate.measure})" if gate.ratio else gate.measure
        if self.value is None:
            return (
                f"{self.policy}: {what} cannot be computed (no run, or the first policy has 0), for {gate.expression!r}"
            )
        by = abs(self.value - gate.limit)
        return f"{self.policy}: {what} is {self.value:.6g}, which is {gate.comparison} {gate.limit:g}, by {by:.3g}"


def parse_gate(expression: str, policies: Sequence[str]) -> Gate:
    """Raises GateError."""
    policy, start = _policy(expression, policies)
    token = _TOKEN.match(expression, start)
    if token is None:
        raise GateError(expression, start, f"a measure is missing: write one of {_names()}")
    measure, ratio = token["of"] or token["name"], token["ratio"] is not None
    if measure not in MEASURES_BY_NAME:
        near = did_you_mean(measure, MEASURES_BY_NAME)
        column = token.start("of" if ratio else "name")
        raise GateError(expression, column, f"there is no measure {measure!r}{near}: write one of {_names()}")
    if ratio and len(policies) < 2:
        raise GateError(expression, start, "a ratio needs a second policy to compare with the first")
    if ratio and policy == policies[0]:
        raise GateError(expression, 0, f"{policy} is the first policy, which ratios are relative to")
    comparison = next((each for each in COMPARISONS if expression.startswith(each, token.end())), None)
    if comparison is None:
        raise GateError(expression, token.end(), "a comparison is missing: write one of <, <=, >, >=")
    return Gate(expression, policy, measure, ratio, comparison, _limit(expression, token.end() + len(comparison)))


def _policy(expression: str, policies: Collection[str]) -> tuple[str, int]:
    """The policy before a colon, and where the rest begins."""
    name, colon, _ = expression.rpartition(":")
    if not colon:
        return "", 0
    policy = name.strip()
    if policy not in policies:
        near = did_you_mean(policy, policies)
        raise GateError(expression, 0, f"there is no policy {policy!r}{near}: write one of {', '.join(policies)}")
    return policy, len(name) + 1


def _limit(expression: str, start: int) -> float:
    number = _NUMBER.match(expression, start)
    if number is None:
        raise GateError(expression, start, "a number is missing at the end, such as 0.02 or 2%")
    return float(number["number"]) / (100 if number["percent"] else 1)


def _names() -> str:
    return ", ".join(MEASURES_BY_NAME)


def violations(gates: Sequence[Gate], results: Results) -> Iterator[Violation]:
    """Every gate that is violated, for each policy that violates it."""
    for gate in gates:
        for policy in [gate.policy] if gate.policy else [each.name for each in results.policies]:
            if gate.ratio and policy == results.baseline:
                continue
            value = _value(gate, policy, results)
            if value is None or COMPARISONS[gate.comparison](value, gate.limit):
                yield Violation(gate, policy, value)


def _value(gate: Gate, policy: str, results: Results) -> float | None:
    if policy not in results.measured:
        return None
    summary = results.summaries[gate.measure][policy]
    if not gate.ratio:
        return summary.mean
    if summary.ratio is None:  # the baseline has 0: equal is 1, and anything else infinitely more
        return 1.0 if summary.mean == 0 and results.baseline in results.measured else None
    return summary.ratio.ratio
