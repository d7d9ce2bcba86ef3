"""Shows that every plugin that is built answers as kube-scheduler's does; the cases are recorded, not written here."""

from functools import cache

import pytest

from tests.conformance import whole
from tests.conformance.compare import differences
from tests.conformance.corpus import FOLDER, Case, cases
from tests.conformance.judge import judge
from trimtab.config.registry import IN_TREE, default_profile
from trimtab.core.placing.profile import Ties

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the recorded cases (../shared/conformance) are not beside this repository"
)


@cache
def corpus() -> dict[str, list[Case]]:
    return cases(FOLDER)


@pytest.mark.parametrize("plugin", IN_TREE)
def test_recorded_answers(plugin: str) -> None:
    """The plugin gives the recorded codes, reasons and scores in every case."""
    if plugin not in corpus():
        pytest.skip(f"no case of {plugin} is recorded")
    result = judge(plugin, corpus()[plugin])
    assert [] == result.disagreements
    assert [] == result.missing
    assert 0 < result.cases


def within_reach(case: Case) -> bool:
    """Whether only plugins that are built have refused nodes, so that their scores are scaled over the same nodes."""
    return all(verdict.get("plugin", "NodeName") in IN_TREE for verdict in case["expected"]["filter"].values())


def built_only(expected: dict[str, object]) -> dict[str, object]:
    """The recorded answer without the scores of plugins that are not built, and without sums that hold them."""
    scores = {
        node: {plugin: score for plugin, score in by_plugin.items() if plugin in IN_TREE}
        for node, by_plugin in expected.get("weightedScore", {}).items()  # type: ignore[attr-defined]
    }
    kept = {key: value for key, value in expected.items() if key != "totalScore" or not whole.missing()}
    return {**kept, "weightedScore": scores} if scores else kept


def test_whole_profile() -> None:
    """Where no plugin refuses that is not built, the profile charges and scores each node as recorded, nominations too."""
    profile = default_profile("default-scheduler", Ties.NAME)
    reached = [case for case in corpus()["DefaultProfile"] if within_reach(case)]
    found = {}
    for case in reached:
        got = {key: value for key, value in whole.answer(profile, case).items() if key != "totalScore"}
        found[case["id"]] = list(differences(built_only({**case["expected"], "totalScore": None}), got))
    assert {} == {case: each for case, each in found.items() if each}
    assert any(case.get("nominatedPods") for case in reached)
