"""When a wish goes out again: after refusals, while nobody has seen it yet, and when somebody else undoes it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.labelling.labeller_harness import CPU_KEY, HOST, Labeller, cpu_rule, node
from trimtab.core.labelling.controller import Labelling as LabellingController
from trimtab.core.load.pressure_rules import LabellingSettings
from trimtab.core.model.events import LabelDone, LabelFailed, LeaseAcquired, LeaseLost, SettingsRead
from trimtab.core.model.instructions import LabelNode
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.settings import Settings

HOT = 3900.0


class Heard(MetricsRecorder):
    """Notes whose marks are contested."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def label_contested(self, node: str) -> None:
        self.nodes.append(node)


def hot(*names: str, recorder: MetricsRecorder | None = None) -> Labeller:
    """Nodes above the threshold, none of them marked."""
    scene = Labeller(cpu_rule(), recorder=recorder)
    scene.sees(*map(node, names))
    scene.measures("cpu", **dict.fromkeys(names, HOT))
    return scene


def test_no_second_wish_while_one_is_under_way_or_not_yet_seen() -> None:
    """Unanswered: never. Answered: when the watch shows another version, or after half a minute."""
    scene = hot("a")
    assert 1 == len(scene.later())
    assert [] == scene.later(600)
    scene.tells(LabelDone("a", scene.at))
    assert [] == scene.later(29)
    assert 1 == len(scene.later(1))


def test_news_from_before_our_patch_are_no_reason_for_another() -> None:
    """A kubelet that reports in between shows an older version than the patch made: what we wrote is on its way."""
    scene = hot("a")
    scene.later()
    scene.tells(LabelDone("a", scene.at, version=scene.version + 2))
    scene.sees(replace(scene.known("a"), unschedulable=True))
    assert [] == scene.later()
    scene.sees(scene.known("a"))  # the version of the patch, and it is not there: somebody took it away at once
    assert 1 == len(scene.later())


def test_a_refused_wish_is_tried_again_later_and_later() -> None:
    """After one second, two, four, and so on up to a minute; what others say of the node does not hurry it."""
    scene = hot("a")
    scene.later()
    waits = []
    for _ in range(8):
        scene.tells(LabelFailed("a", "conflict", scene.at))
        scene.sees(scene.known("a"))
        waits.append(next(second for second in range(1, 100) if scene.later(1.0)))
    assert [1, 2, 4, 8, 16, 32, 60, 60] == waits


def test_a_missing_right_stops_all_wishes_for_a_minute() -> None:
    """It is missing for every node: thousands of refusals would tell nothing new."""
    scene = hot("a")
    scene.measures("cpu", b=HOT)
    scene.later()
    scene.tells(LabelFailed("a", "no right", scene.at, forbidden=True))
    scene.sees(node("b"))
    assert [] == scene.later(59)
    assert ["a", "b"] == [each.node for each in scene.later(1)]


@pytest.mark.parametrize("first", ["a", "b"])
def test_one_node_that_may_not_be_written_holds_up_no_other(first: str) -> None:
    """A policy may forbid one alone: where others are granted, before or after, only that one waits its minute."""
    scene = hot("a", "b")
    for wish in sorted(scene.later(), key=lambda wish: wish.node != first):
        if wish.node == "a":
            scene.tells(LabelFailed("a", "not this one", scene.at, forbidden=True))
        else:
            scene.grants(wish)
    scene.sees(node("c"))
    scene.measures("cpu", c=HOT)
    assert ["c"] == [each.node for each in scene.later()]
    assert [] == scene.later(58)
    assert ["a"] == [each.node for each in scene.later(2)]


def undone(scene: Labeller, instructions: list[LabelNode]) -> None:
    """Granted, and taken away by somebody else in the next moment."""
    scene.grants(*instructions)
    for wish in instructions:
        scene.sees(replace(scene.known(wish.node), labels=HOST))


def test_whoever_is_undone_again_and_again_is_in_no_hurry() -> None:
    """Once is put right at once; a fight with another program goes slower and slower, is told once, and ends with it."""
    heard = Heard()
    scene = hot("a", recorder=heard)
    undone(scene, scene.later())
    waits = []
    for _ in range(9):
        waits.append(next(half for half in range(1, 300) if (wishes := scene.later())))
        undone(scene, wishes)
    assert [1, 2, 4, 8, 16, 32, 64, 120, 120] == waits  # halves of a second
    assert ["a"] == heard.nodes
    scene.runs(70)
    assert "high" == scene.label("a")
    scene.runs(601)
    scene.sees(replace(scene.known("a"), labels=HOST))
    assert 1 == len(scene.later())


def test_a_load_that_really_swings_is_no_fight() -> None:
    """Marks that come and go by the rule are written when they are due."""
    heard = Heard()
    scene = hot("a", recorder=heard)
    for level in (HOT, 100.0) * 6:
        scene.measures("cpu", a=level)
        assert 1 == len(scene.runs(11))
    assert [] == heard.nodes


def test_marks_of_a_leader_with_other_rules_are_taken_away() -> None:
    """A rollout: the old one puts a mark while we look on, and we have no rule for it when we lead."""
    scene = Labeller(cpu_rule(), leads=False)
    scene.sees(node("a"), node("b"))
    scene.measures("cpu", a=100.0, b=100.0)
    scene.later()
    old = "pressure.trimtab.dev/old"
    scene.sees(replace(scene.known("b"), labels={**HOST, old: "high"}))
    scene.tells(LeaseAcquired(2, scene.at))
    assert [("b", ((old, None),))] == [(wish.node, wish.labels) for wish in scene.runs(2)]


def test_a_stranger_under_our_prefix_that_comes_again_and_again_is_not_chased() -> None:
    """Whoever puts it back each time is met slower and slower, too."""
    scene, waits = Labeller(cpu_rule()), []
    scene.sees(node("a"))
    scene.later()
    for _ in range(5):
        scene.sees(replace(scene.known("a"), labels={**HOST, "pressure.trimtab.dev/other": "1"}))
        waits.append(next(half for half in range(1, 300) if (wishes := scene.later())))
        scene.grants(*wishes)
        assert HOST == scene.known("a").labels
    assert [1, 1, 2, 4, 8] == waits  # halves of a second


def test_what_somebody_writes_over_a_mark_is_put_right() -> None:
    """The key is ours: another value gives way to the rule's, and a mark by hand on a calm node goes."""
    scene = hot("a", "b")
    scene.measures("cpu", b=100.0)
    scene.runs(1)
    scene.sees(*(replace(scene.known(name), labels={**HOST, CPU_KEY: "mine"}) for name in "ab"))
    scene.runs(1)
    assert ("high", None) == (scene.label("a"), scene.label("b"))


def test_a_restart_in_the_midst_of_patience_begins_it_anew() -> None:
    """Half of the time before and half after are not enough, for a mark and for its end."""
    first = Labeller(cpu_rule(for_seconds=10.0))
    first.sees(node("a"))
    first.measures("cpu", a=HOT)
    assert [] == first.runs(9)
    second = Labeller(cpu_rule(for_seconds=10.0))
    second.sees(first.known("a"))
    second.measures("cpu", a=HOT)
    assert ([], 1) == (second.runs(9), len(second.runs(3)))
    second.measures("cpu", a=100.0)
    assert [] == second.runs(9)
    third = Labeller(cpu_rule(for_seconds=10.0))
    third.sees(second.known("a"))
    third.measures("cpu", a=100.0)
    assert ([], 1) == (third.runs(9), len(third.runs(3)))


def test_a_node_that_returns_while_it_is_written_to() -> None:
    """The answer to the old one counts for nobody, and the new one is judged by itself."""
    scene = hot("a")
    (wish,) = scene.later()
    scene.loses("a")
    scene.sees(node("a", uid="another"))
    assert [] == scene.later()
    scene.tells(LabelFailed("a", "uid mismatch", scene.at))
    (again,) = [wish for _ in range(4) for wish in scene.later()]
    assert (wish.uid != again.uid, "another") == (True, again.uid)


def test_nothing_is_kept_of_nodes_that_have_gone() -> None:
    """Granted or refused: names come and go by the thousand where nodes are made by the hour."""
    scene = hot("a", "b")
    wishes = scene.later()
    scene.grants(wishes[0])
    scene.tells(LabelFailed("b", "conflict", scene.at))
    scene.loses("a")
    scene.loses("b")
    scene.later()
    scene.later(601)
    marking = scene.engine.controller(LabellingController).labeller
    assert marking is not None and ({}, {}) == (scene.engine.state.writes.of(LabelNode), marking.patches.repeats)


def test_rules_that_change_while_a_wish_is_under_way() -> None:
    """It is answered first; then the key that no rule gives any more is taken away."""
    scene = hot("a")
    (wish,) = scene.later()
    other = cpu_rule(name="other", label=("pressure.trimtab.dev/other", "high"), threshold=0.99, clear=0.98)
    scene.tells(SettingsRead(Settings((), labels=LabellingSettings((other,), apply=True)), scene.at))
    assert [] == scene.later()
    scene.grants(wish)
    scene.runs(2)
    assert HOST == scene.known("a").labels


def test_who_follows_again_wishes_for_nothing() -> None:
    """Not even what was due."""
    scene = hot("a")
    scene.tells(LeaseLost(scene.at))
    assert [] == scene.runs(30)
