"""Generates random cases, gets kube-scheduler's answers, and compares Trimtab's.

generate (hypothesis) ──▶ ask Go, three times ──▶ a case with Go's answer ──▶ compare, as for recorded cases
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase

from tests.conformance.check_cases import Result, check
from tests.differential.generators.profiles import MAKERS, question
from tests.differential.generators.rng import JsonObject
from tests.differential.generators.tags import tags
from tests.differential.oracle import Oracle

EXPECTED = "expected"


class PluginRun(NamedTuple):
    """The cases of one plugin, the result, and how many questions had no stable answer by Go."""

    cases: list[JsonObject]
    result: Result
    unclear: int


def generate(plugin: str, count: int, seed: int) -> list[JsonObject]:
    """Questions that depend only on the seed."""
    found: list[JsonObject] = []

    @hypothesis.seed(seed ^ zlib.crc32(plugin.encode()))
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(question(plugin))
    def collect(each: JsonObject) -> None:
        found.append(each)

    collect()
    return found[:count]


def shares(total: int) -> dict[str, int]:
    """How many of the questions each plugin gets, at least one."""
    weights = {plugin: weight for plugin, (weight, _) in MAKERS.items()}
    return {plugin: max(1, -(-total * weight // sum(weights.values()))) for plugin, weight in weights.items()}


def with_answers(oracle: Oracle, plugin: str, count: int, seed: int) -> tuple[list[JsonObject], int]:
    """Cases with Go's answers, in the format of recorded ones, and how many questions had none."""
    asked = generate(plugin, count, seed)
    cases = []
    for number, each in enumerate(asked):
        if (answer := oracle.settled(each)) is not None:
            identity = {"id": f"differential/{plugin}/{seed}-{number:04}", "source": "random", "tags": tags(each)}
            cases.append({**identity, **each, EXPECTED: answer})
    return cases, len(asked) - len(cases)


def run_all(oracle: Oracle, total: int, seed: int) -> Iterator[PluginRun]:
    for plugin, count in shares(total).items():
        cases, unclear = with_answers(oracle, plugin, count, seed)
        yield PluginRun(cases, check(plugin, list(cases)), unclear)
