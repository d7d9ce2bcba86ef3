"""Every built-in plugin gives the results that kube-scheduler's plugin gave in the recorded cases."""

from functools import cache
from pathlib import Path

import pytest

from tests.conformance.check_cases import WHOLE_PROFILES, check
from tests.conformance.corpus import FOLDER, Case, cases
from tests.differential.generators.profiles import MAKERS
from tests.differential.generators.tags import TEXTS
from trimtab.config.registry import IN_TREE, POINTS

OWN = Path(__file__).parent / "recorded"
# Recorded from scheduler-plugins, not rolled anew.
TRIMARAN = {"TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment"}


@cache
def corpus() -> dict[str, list[Case]]:
    """The cases of this repository, and the larger collection where it lies beside it."""
    own, beside = cases(OWN), cases(FOLDER)
    return {plugin: own.get(plugin, []) + beside.get(plugin, []) for plugin in (*own, *beside)}


@pytest.mark.parametrize("plugin", [*(name for name in IN_TREE if name in POINTS), *WHOLE_PROFILES])
def test_recorded_answers(plugin: str) -> None:
    """The plugin gives the recorded codes, reasons and scores in every case."""
    if plugin not in corpus():
        pytest.skip(f"no case of {plugin} is recorded")
    result = check(plugin, corpus()[plugin])
    assert [] == result.disagreements
    assert [] == result.missing
    assert 0 < result.cases


def test_a_clone_alone_has_cases() -> None:
    """A thousand cases and more, of every kind that the differential program rolls, come with the repository."""
    own = cases(OWN)
    tagged = {tag for found in own.values() for case in found for tag in case["tags"]}
    assert 1000 <= sum(map(len, own.values()))
    assert {*MAKERS, *TRIMARAN} == set(own)
    assert {*TEXTS, "pod-level-resources"} == tagged
    assert 3_000_000 > sum(path.stat().st_size for path in OWN.iterdir())
