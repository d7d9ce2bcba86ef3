"""Compares plugins with recorded cases and reports where they disagree.

A plugin is looked up by name in the registry, so a new one is compared without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

from tests.conformance import gangs, preemption, single_plugin, whole_profile
from tests.conformance.compare import differences
from tests.conformance.corpus import Case
from trimtab.config.plugin_args import build_plugin
from trimtab.config.registry import IN_TREE, default_profile
from trimtab.core.framework.profile import TieBreak

WHOLE_PROFILES = {
    "DefaultProfile": whole_profile.answer,
    "DefaultProfileSequence": whole_profile.answer,
    "DefaultPreemption": preemption.answer,
}

Answer = Callable[[Case], dict[str, Any]]


class Disagreement(NamedTuple):
    """One case, and each place where the answers differ."""

    case: str
    differences: list[str]


class Result(NamedTuple):
    """How one plugin did; `missing` names what is not built yet, and then nothing was compared."""

    plugin: str
    cases: int
    disagreements: list[Disagreement]
    missing: list[str]

    def __str__(self) -> str:
        if not self.missing:
            return f"{self.plugin} {self.cases - len(self.disagreements)}/{self.cases}"
        needs = "" if self.missing == [self.plugin] else f": needs {', '.join(self.missing)}"
        return f"{self.plugin} not built ({self.cases} cases){needs}"


def check(plugin: str, cases: list[Case]) -> Result:
    missing = _missing(plugin)
    found = [] if missing else list(disagreements(_answer(plugin), cases))
    return Result(plugin, len(cases), found, missing)


def disagreements(answer: Answer, cases: Iterable[Case]) -> Iterator[Disagreement]:
    for case in cases:
        try:
            found = list(differences(case["expected"], answer(case)))
        except Exception as error:  # a case that breaks something is a case that disagrees; the others go on
            found = [f"{type(error).__name__}: {error}"]
        if found:
            yield Disagreement(case["id"], found)


def _missing(plugin: str) -> list[str]:
    if plugin in WHOLE_PROFILES:
        return whole_profile.missing()
    return [] if plugin in IN_TREE else [plugin]


def _answer(plugin: str) -> Answer:
    if plugin in WHOLE_PROFILES:
        profile = default_profile("default-scheduler", TieBreak.NAME)
        return lambda case: WHOLE_PROFILES[plugin](profile, case)
    if plugin == "Coscheduling":
        return lambda case: gangs.answer(build_plugin(plugin, IN_TREE[plugin], case.get("args")), case)  # type: ignore[arg-type]
    taken = {field.name for field in fields(IN_TREE[plugin])}  # type: ignore[arg-type]
    # A Go plugin without arguments does not look at those it is given, and one recorded test gives it another's.
    return lambda case: single_plugin.answer(
        build_plugin(plugin, IN_TREE[plugin], _arguments(case, taken) if taken else None), case
    )


def _arguments(case: Case, taken: set[str]) -> dict[str, Any]:
    """The arguments of the case, with `strict` for plugins that fix their original."""
    return {**(case.get("args") or {}), **({"strict": True} if "strict" in taken else {})}
