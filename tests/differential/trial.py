"""Decides which questions a run asks and which of them Trimtab answers otherwise; leaves printing to `__main__`.

draw (hypothesis) ──▶ ask Go, thrice ──▶ a case with Go's answer ──▶ judge as recorded cases are judged
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase

from tests.conformance.judge import Result, judge
from tests.differential.making.dice import Thing
from tests.differential.making.profiles import MAKERS, question
from tests.differential.making.tags import tags
from tests.differential.oracle import Oracle

EXPECTED = "expected"


class Trial(NamedTuple):
    """The cases of one plugin, what came of them, and how many questions Go itself gave no clear answer to."""

    cases: list[Thing]
    result: Result
    unclear: int


def drawn(plugin: str, count: int, seed: int) -> list[Thing]:
    """Questions that depend on nothing but the seed."""
    found: list[Thing] = []

    @hypothesis.seed(seed ^ zlib.crc32(plugin.encode()))
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(question(plugin))
    def collect(each: Thing) -> None:
        found.append(each)

    collect()
    return found[:count]


def shares(total: int) -> dict[str, int]:
    """How many questions each plugin gets of so many: at least one."""
    weights = {plugin: weight for plugin, (weight, _) in MAKERS.items()}
    return {plugin: max(1, -(-total * weight // sum(weights.values()))) for plugin, weight in weights.items()}


def answered(oracle: Oracle, plugin: str, count: int, seed: int) -> tuple[list[Thing], int]:
    """Cases with Go's answers, in the form of the recorded ones, and how many questions had none."""
    asked = drawn(plugin, count, seed)
    cases = []
    for number, each in enumerate(asked):
        if (answer := oracle.settled(each)) is not None:
            identity = {"id": f"differential/{plugin}/{seed}-{number:04}", "source": "random", "tags": tags(each)}
            cases.append({**identity, **each, EXPECTED: answer})
    return cases, len(asked) - len(cases)


def trials(oracle: Oracle, total: int, seed: int) -> Iterator[Trial]:
    for plugin, count in shares(total).items():
        cases, unclear = answered(oracle, plugin, count, seed)
        yield Trial(cases, judge(plugin, list(cases)), unclear)
