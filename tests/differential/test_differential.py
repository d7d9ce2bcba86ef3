"""kube-scheduler's own plugins and Trimtab's agree on random cases."""

from collections.abc import Iterator
from functools import cache

import pytest

from tests.conformance.check_cases import check
from tests.conformance.corpus import FOLDER, Case, cases
from tests.differential.generators.profiles import MAKERS
from tests.differential.oracle import Oracle
from tests.differential.run_cases import EXPECTED, shares, with_answers
from tests.live.requires_controlplane import controlplane_or_skip

pytestmark = pytest.mark.live

CASES = 300
SEED = 20240101
EVERY = 25


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(controlplane_or_skip()) as running:
        yield running


@cache
def recorded() -> dict[str, list[Case]]:
    return cases(FOLDER)


@pytest.mark.parametrize("plugin", MAKERS)
def test_same_answers(oracle: Oracle, plugin: str) -> None:
    """The plugin returns Go's codes, reasons, scores and victims on random clusters."""
    found, _ = with_answers(oracle, plugin, shares(CASES)[plugin], SEED)
    result = check(plugin, list(found))
    if result.missing:
        pytest.skip(str(result))
    assert [] == result.disagreements
    assert found


@pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the recorded cases (../shared/conformance) are not beside this repository"
)
@pytest.mark.parametrize("plugin", MAKERS)
def test_answers_as_recorded(oracle: Oracle, plugin: str) -> None:
    """The program returns exactly the recorded answers."""
    chosen = recorded()[plugin][::EVERY]
    asked = [{key: value for key, value in case.items() if key != EXPECTED} for case in chosen]
    assert [case[EXPECTED] for case in chosen] == [oracle.ask(question) for question in asked]
    assert chosen


def test_nonsense_is_answered(oracle: Oracle) -> None:
    """An invalid question gets an error, and the next one is answered as usual."""
    assert {"error"} == set(oracle.ask({"plugin": "NoSuchPlugin"}))
    told = oracle.ask({"plugin": "SchedulingGates", "extensionPoints": ["PreEnqueue"], "pod": {}})
    assert {"preEnqueue": {"code": "Success"}} == told
    assert oracle.settled({"plugin": "NoSuchPlugin"}) is None
