"""The walk of one rule: what marks a node, what takes the mark off, and what happens where nothing is known."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from trimtab.core.load.pressure import NEW_ROW, STATE_NAMES, Pressure
from trimtab.core.load.pressure_rules import Direction, LabellingSettings, Rule

UNKNOWN = math.nan
EXPIRE = 300.0
LABEL = ("pressure.trimtab.dev/cpu", "high")


def rule(**fields: Any) -> Rule:
    given = {"threshold": 0.8, "clear": 0.6, "for_seconds": 20.0, "clear_for_seconds": 40.0, "label": LABEL}
    return Rule("cpu", "cpu", **{**given, **fields})


def walked(pressure: Pressure, *values: float, step: float = 10.0) -> list[str]:
    """The states of one node after each look, ten seconds apart, from second ten on."""
    states = []
    for number, value in enumerate(values, 1):
        pressure.update(np.array([value]), number * step, EXPIRE)
        states.append(STATE_NAMES[pressure.state[0]])
    return states


@pytest.mark.parametrize(
    ("values", "states"),
    [
        ((0.9, 0.9, 0.9), "rising rising pressed"),
        ((0.9, 0.9, 0.7, 0.9), "rising rising calm rising"),
        ((0.8, 0.8, 0.8, 0.8), "calm calm calm calm"),
        ((0.9, 0.9, 0.9, 0.7, 0.7), "rising rising pressed pressed pressed"),
        ((0.9, 0.9, 0.9, 0.6, 0.6, 0.7), "rising rising pressed falling falling pressed"),
        ((0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5), "rising rising pressed falling falling falling falling calm"),
    ],
)
def test_the_walk(values: tuple[float, ...], states: str) -> None:
    """A node is pressed once it was beyond the threshold long enough, and calm once it was within `clear` long enough."""
    assert states.split() == walked(Pressure(rule(), 1), *values)


def test_below_is_the_mirror_image() -> None:
    """With the direction turned round, little is trouble and much is not."""
    low = rule(direction=Direction.BELOW, threshold=2.0, clear=3.0, for_seconds=0.0, clear_for_seconds=0.0)
    assert ["pressed", "pressed", "calm", "calm"] == walked(Pressure(low, 1), 1.9, 2.5, 3.0, 2.0)


def test_without_hold_the_first_look_decides() -> None:
    """A rule that asks for no patience marks and clears at once, as those did that knew one threshold alone."""
    swift = rule(clear=0.8, for_seconds=0.0, clear_for_seconds=0.0)
    assert ["pressed", "calm", "pressed"] == walked(Pressure(swift, 1), 0.81, 0.8, 0.9)


def test_a_load_that_swings_round_the_threshold_changes_nothing() -> None:
    """Between `clear` and the threshold a mark neither comes nor goes."""
    pressure = Pressure(rule(for_seconds=0.0), 1)
    assert {"pressed"} == {*walked(pressure, *(0.81, 0.79) * 20)}


@pytest.mark.parametrize(
    ("before", "kept"),
    [((), "calm"), ((0.9,), "rising"), ((0.9, 0.9, 0.9), "pressed"), ((0.9, 0.9, 0.9, 0.5), "falling")],
)
def test_the_unknown_keeps_every_state_until_it_expires(before: tuple[float, ...], kept: str) -> None:
    """Nobody is cleared or marked for want of data; after five minutes of it nothing is left of what was known."""
    pressure = Pressure(rule(), 1)
    states = walked(pressure, *before, *[UNKNOWN] * 30)
    assert [kept] * 29 == states[len(before) : -1]
    assert "calm" == states[-1]


def test_time_without_data_does_not_count() -> None:
    """A gap of twenty seconds puts off by twenty seconds what was under way: a breach, and a clearance."""
    rising = walked(Pressure(rule(), 1), 0.9, UNKNOWN, UNKNOWN, 0.9, 0.9, 0.9)
    assert ["rising"] * 4 + ["pressed"] * 2 == rising
    falling = walked(Pressure(rule(for_seconds=0.0, clear_for_seconds=20.0), 1), 0.9, 0.5, UNKNOWN, UNKNOWN, 0.5, 0.5)
    assert ["pressed"] + ["falling"] * 4 + ["calm"] == falling


def test_time_without_data_is_no_later_beginning() -> None:
    """Who is pressed is so since it began, also while nothing is measured."""
    pressure = Pressure(rule(for_seconds=0.0), 1)
    walked(pressure, 0.9, UNKNOWN, UNKNOWN, 0.9)
    assert ("pressed", 10.0) == (STATE_NAMES[pressure.state[0]], pressure.since[0])


def test_a_mark_that_is_found_stays_until_the_node_is_seen_to_be_calm() -> None:
    """Who starts anew believes the mark, and takes it off after `clear_for_seconds`, or when it expires."""
    found, silent = Pressure(rule(), 1), Pressure(rule(), 1)
    for pressure in (found, silent):
        pressure.inherit_labels(np.array([True]), 0.0)
    assert ["falling"] * 4 + ["calm"] == walked(found, *[0.1] * 5)
    assert ["pressed"] * 29 + ["calm"] == walked(silent, *[UNKNOWN] * 30)


def test_marks_are_believed_once() -> None:
    """A mark that appears later, on a node that was judged calm, is no reason to call it pressed."""
    pressure = Pressure(rule(), 1)
    pressure.inherit_labels(np.array([False]), 0.0)
    pressure.inherit_labels(np.array([True]), 1.0)
    assert not pressure.visible[0]


def test_rows_move_with_their_nodes() -> None:
    """A node that goes takes its state along, one that moves keeps it, and a new one starts calm and unmeasured."""
    pressure = Pressure(rule(for_seconds=0.0), 3)
    pressure.update(np.array([0.9, 0.1, 0.7]), 10.0, EXPIRE)
    pressure.reorder(np.array([2, 0, NEW_ROW]), 50.0)
    assert ["calm", "pressed", "calm"] == [STATE_NAMES[state] for state in pressure.state]
    assert [10.0, 10.0, 50.0] == pressure.last_sample.tolist()
    assert [False, False, True] == np.isnan(pressure.values).tolist()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"clear": 0.9}, "clear (0.9) must be at most the threshold (0.8)"),
        ({"direction": Direction.BELOW}, "clear (0.6) must be at least the threshold (0.8)"),
        ({"for_seconds": -1.0}, "must not be negative"),
        ({"average_seconds": 3600.0}, "over (3600 s) must be at most 1800 s"),
        ({"label": None}, "needs a label, a taint, or both"),
        ({"label": ("zone", "a")}, "must begin with pressure.trimtab.dev/, or be status=presure"),
        ({"label": ("status", "maintenance")}, "or be status=presure"),
        ({"label": ("pressure.trimtab.dev/cpu", "so high!")}, "the label's key"),
        ({"taint": "node.kubernetes.io/memory-pressure"}, "the taint's key must begin with pressure.trimtab.dev/"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    """Low above high, negative times, marks that are not ours: each with what would do."""
    with pytest.raises(ValueError, match=re.escape(words)):
        rule(**fields)


def test_two_rules_of_one_name_are_refused() -> None:
    """Their queries would be told apart by nothing."""
    with pytest.raises(ValueError, match="two rules are named cpu"):
        LabellingSettings((rule(), rule(threshold=0.9)))


def test_time_before_anybody_was_there_is_no_time_without_data() -> None:
    """A mark that is found at the first look is held since then, also where nothing is measured."""
    pressure = Pressure(rule())
    pressure.reorder(np.array([NEW_ROW]), 1000.0)
    pressure.inherit_labels(np.array([True]), 1000.0)
    pressure.update(np.array([UNKNOWN]), 1000.0, 300.0)
    assert [1000.0] == pressure.since.tolist()
