"""One moment: how times are written, what is explained, and what is said of pods that are not there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.apps.simulate.small_scenario import small_scenario
from trimtab.apps.simulate.moment import MomentError, explain_moment, parse_moment, parse_subject
from trimtab.apps.simulate.policies import find_policy
from trimtab.core.scheduling.explain import NodeExplanation, PodExplanation
from trimtab.sim.scenario import Failover

EIGHT = 8 * 3600.0
SCENARIO = small_scenario()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("08:05", 300.0),
        ("08:05:30", 330.0),
        ("300", 300.0),
        ("0.5", 0.5),
        ("5m", 300.0),
        ("1m30s", 90.0),
        ("20m", 1200.0),
    ],
)
def test_times(text: str, seconds: float) -> None:
    """Times of day, and durations since the beginning."""
    assert EIGHT + seconds == parse_moment(text, SCENARIO)


def test_days() -> None:
    """A day is 24 hours since the beginning, and times of later days go on after 24:00."""
    long = replace(SCENARIO, duration=3 * 86400.0)
    assert EIGHT + 86400 + 7200 == parse_moment("1d2h", long)
    assert EIGHT + 86400 == parse_moment("1d", long)
    assert 26 * 3600.0 == parse_moment("26:00", long)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("noon", "'noon' is no time"),
        ("-5m", "is no time"),
        ("8:61", "is no time"),
        ("07:00", "07:00 is outside of the scenario: choose a time after 08:00 and up to 08:20"),
        ("1h", r"1h \(09:00\) is outside"),
        ("0", r"0 \(08:00\) is outside"),
    ],
)
def test_times_that_are_none(text: str, message: str) -> None:
    """What is allowed, or when the scenario is."""
    with pytest.raises(MomentError, match=message):
        parse_moment(text, SCENARIO)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("pod/web", ("pod", "default/web")), ("pod/other/web", ("pod", "other/web")), ("node/a", ("node", "a"))],
)
def test_subjects(text: str, expected: tuple[str, str]) -> None:
    """A pod of the namespace default unless another is given, or a node."""
    assert expected == parse_subject(text)


@pytest.mark.parametrize("text", ["web", "pod/", "node/", "pods/web", "pod/a/b/c"])
def test_subjects_that_are_none(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(MomentError, match="is neither"):
        parse_subject(text)


def explain(at: float, kind: str, name: str) -> PodExplanation | NodeExplanation:
    return explain_moment(SCENARIO, find_policy("PeakRisk"), 1, EIGHT + at, kind, name)


def test_a_pod_and_a_node_are_explained() -> None:
    """As the live process would: the pod's table, and the node's measured load."""
    pod = explain(900.0, "pod", "default/late")
    assert isinstance(pod, PodExplanation)
    assert 3 == pod.nodes
    assert pod.node in ("b", "c")  # a is hot
    node = explain(600.0, "node", "a")
    assert isinstance(node, NodeExplanation)
    assert node.uses[0].latest is not None
    assert node.uses[0].latest > 3000


@pytest.mark.parametrize(
    ("at", "kind", "name", "message"),
    [
        (300.0, "pod", "default/late", "no pod default/late at 08:05: it arrives at 08:10"),
        (900.0, "pod", "default/lats", "no pod default/lats at 08:15, and none arrives later; there are default/late"),
        (60.0, "node", "c", "node c joins at 08:05: choose a later time"),
        (60.0, "node", "cc", "no node cc at 08:01"),
    ],
)
def test_what_is_not_there(at: float, kind: str, name: str, message: str) -> None:
    """When it arrives, or the nearest names."""
    with pytest.raises(MomentError, match=message):
        explain(at, kind, name)


def test_a_moment_without_a_leader() -> None:
    """During a failover nobody can explain anything."""
    scenario = replace(SCENARIO, failovers=(Failover(EIGHT + 60, 30.0),))
    with pytest.raises(MomentError, match="no replica leads at the moment: choose another time"):
        explain_moment(scenario, find_policy("stock"), 1, EIGHT + 70, "node", "a")
