"""Nodes under pressure get their marks, others lose them, and nothing else is ever touched."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.labelling.labeller_harness import CPU_KEY, HOST, MEMORY_KEY, Labeller, cpu_rule, node
from trimtab.core.engine import Engine
from trimtab.core.labelling.controller import Labelling as LabellingController
from trimtab.core.load.pressure_rules import Denominator, Direction, LabellingSettings
from trimtab.core.model.events import LeaseAcquired, LeaseLost, SettingsRead, Tick
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import Taint
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.settings import Settings

HOT, COLD = 3600, 400
GIB = 1 << 30


def test_a_hot_node_is_labelled_and_a_cool_one_is_not() -> None:
    """One patch for the hot one, with its UID; none as long as nothing changes; one to take it off."""
    scene = Labeller(cpu_rule())
    scene.sees(node("a"), node("b"))
    scene.measures("cpu", a=HOT, b=COLD)
    wishes = scene.runs(60)
    assert [("a", "uid-a", ((CPU_KEY, "high"),))] == [(each.node, each.uid, each.labels) for each in wishes]
    assert "cpu is 0.9 (labels above 0.8, clears at 0.6)" == wishes[0].reason
    scene.measures("cpu", a=COLD)
    assert [((CPU_KEY, None),)] == [each.labels for each in scene.runs(60)]
    assert [] == scene.runs(60)


def test_any_rule_is_enough_for_a_key_they_share() -> None:
    """A label that two rules give goes when both are content."""
    memory = cpu_rule(name="memory", metric="memory")
    scene = Labeller(cpu_rule(), memory)
    scene.sees(node("a"))
    scene.measures("cpu", a=COLD)
    scene.measures("memory", a=0.9 * (1 << 34))
    scene.runs(5)
    scene.measures("cpu", a=HOT)
    scene.measures("memory", a=0.0)
    assert [] == scene.runs(60)
    assert "high" == scene.label("a")
    scene.measures("cpu", a=COLD)
    scene.runs(60)
    assert scene.label("a") is None


def test_of_two_values_the_first_that_holds_is_shown() -> None:
    """Rules may grade one key, and the file's order says which matters more."""
    scene = Labeller(cpu_rule(name="worst", threshold=0.95, clear=0.9, label=(CPU_KEY, "critical")), cpu_rule())
    scene.sees(node("a"))
    shown = []
    for used in (3600, 3900, 3500, COLD):
        scene.measures("cpu", a=used)
        scene.runs(30)
        shown.append(scene.label("a"))
    assert ["high", "critical", "high", None] == shown


def test_a_soft_taint_comes_and_goes_among_others() -> None:
    """Others' taints are never named: ours is added, and later taken from where it stands."""
    scene = Labeller(cpu_rule(label=None, taint=CPU_KEY))
    other, last = Taint("gpu", "yes", "NoSchedule"), Taint("late", "", "NoExecute")
    scene.sees(node("a", taints=(other,)))
    scene.measures("cpu", a=HOT)
    wish = scene.runs(1)[0]
    ours = Taint(CPU_KEY, "", "PreferNoSchedule")
    assert ((ours,), (), (), False, 1) == (
        wish.add_taints,
        wish.remove_taints,
        wish.labels,
        wish.has_no_taints,
        wish.version,
    )
    scene.sees(replace(scene.known("a"), taints=(other, ours, last)))
    scene.measures("cpu", a=COLD)
    wish = scene.runs(60)[0]
    assert ((), ((1, CPU_KEY),)) == (wish.add_taints, wish.remove_taints)
    assert (other, last) == scene.taints("a")


def test_the_first_taint_of_a_node_is_said_to_be_the_first() -> None:
    """A patch has to make the list then."""
    scene = Labeller(cpu_rule(label=None, taint=CPU_KEY))
    scene.sees(node("a"))
    scene.measures("cpu", a=HOT)
    assert scene.later()[0].has_no_taints


def test_a_node_without_any_labels_gets_the_label_first() -> None:
    """A list of changes cannot add to labels that are not there; the taint follows when they are seen."""
    scene = Labeller(cpu_rule(taint=CPU_KEY))
    scene.sees(node("a", labels={}))
    scene.measures("cpu", a=HOT)
    wishes = scene.runs(2)
    assert [(1, 0), (0, 1)] == [(len(each.labels), len(each.add_taints)) for each in wishes]


@pytest.mark.parametrize(
    "labels",
    [
        {"node-role.kubernetes.io/master": ""},
        {"node-role.kubernetes.io/control-plane": ""},
        {"pool": "batch"},
    ],
)
def test_control_planes_and_excluded_nodes_are_never_marked(labels: dict[str, str]) -> None:
    """By the old label, the new one, or a selector of the settings."""
    scene = Labeller(cpu_rule(), exclude=(Requirement("pool", "In", ("batch",)),))
    scene.sees(node("a", labels={**HOST, **labels}), node("b"))
    scene.measures("cpu", a=HOT, b=HOT)
    assert ["b"] == [each.node for each in scene.runs(5)]


def test_somebody_elses_status_is_left_alone() -> None:
    """`status` is a word that anybody may use: only our own value is put, replaced or taken away."""
    legacy = cpu_rule(label=("status", "presure"))
    scene = Labeller(legacy)
    scene.sees(node("a", labels={"status": "maintenance"}), node("b"), node("c", labels={"status": "presure"}))
    scene.measures("cpu", a=HOT, b=HOT, c=COLD)
    assert [("b", (("status", "presure"),)), ("c", (("status", None),))] == [
        (each.node, each.labels) for each in scene.runs(60)
    ]
    assert "maintenance" == scene.label("a", "status")


def test_keys_of_rules_that_are_gone_are_taken_away() -> None:
    """What stands under our prefix and no rule gives is left from before; other taints of that key are not ours."""
    scene = Labeller(cpu_rule())
    soft, hard = Taint(MEMORY_KEY, "", "PreferNoSchedule"), Taint(MEMORY_KEY, "", "NoSchedule")
    scene.sees(node("a", labels={**HOST, MEMORY_KEY: "high"}, taints=(hard, soft)), node("b"))
    wishes = scene.runs(5)
    assert [(((MEMORY_KEY, None),), ((1, MEMORY_KEY),))] == [(each.labels, each.remove_taints) for each in wishes]
    assert (hard,) == scene.taints("a")


@pytest.mark.parametrize("taint", [True, False])
def test_what_is_put_under_our_prefix_later_goes_at_once(taint: bool) -> None:
    """A taint as a label, though no label has changed then; and what went is not looked after any more."""
    scene = Labeller(cpu_rule())
    scene.sees(node("a"), node("b"))
    assert [] == scene.runs(5)
    added = {"taints": (Taint(MEMORY_KEY, "", "PreferNoSchedule"),)} if taint else {"labels": {**HOST, MEMORY_KEY: "x"}}
    scene.sees(replace(scene.known("a"), **added))
    assert ["a"] == [each.node for each in scene.runs(1)]
    assert ((), HOST) == (scene.taints("a"), scene.known("a").labels)
    scene.runs(1)
    assert scene.engine.controller(LabellingController).labeller is not None
    assert {} == scene.engine.state.writes.of(LabelNode)


def test_without_a_rule_under_our_prefix_nothing_there_is_touched() -> None:
    """Those marks may be another labeller's, with rules of its own."""
    scene = Labeller(cpu_rule(label=("status", "presure")))
    scene.sees(node("a", labels={**HOST, MEMORY_KEY: "high"}))
    assert [] == scene.runs(5)


def test_a_value_of_ours_that_no_rule_gives_is_corrected() -> None:
    """The key is ours: on a calm node it goes, on a pressed one it gets the rule's value."""
    scene = Labeller(cpu_rule())
    scene.sees(node("a", labels={CPU_KEY: "odd"}), node("b", labels={CPU_KEY: "odd"}))
    scene.measures("cpu", a=HOT, b=COLD)
    assert [("a", "high"), ("b", None)] == [(each.node, each.labels[0][1]) for each in scene.runs(5)]


def test_who_starts_anew_takes_over_what_it_finds() -> None:
    """A label is kept while its node is hot, removed from a calm one after `clear_for_seconds`, and expires without data."""
    scene = Labeller(cpu_rule(), expire_after=300.0)
    marked = {**HOST, CPU_KEY: "high"}
    scene.sees(*(node(name, labels=marked) for name in ("hot", "calm", "silent")))
    scene.measures("cpu", hot=2800, calm=COLD)
    assert [] == scene.runs(9)
    assert ["calm"] == [each.node for each in scene.runs(3)]
    assert [] == scene.runs(280)
    assert ["silent"] == [each.node for each in scene.runs(20)]
    assert "high" == scene.label("hot")


def test_the_marks_of_whoever_led_before_stand_first() -> None:
    """A replica that judged otherwise while it followed takes its predecessor's labels over when it leads."""
    scene = Labeller(cpu_rule(for_seconds=60.0), leads=False)
    scene.sees(node("a"))
    scene.measures("cpu", a=3000)
    assert [] == scene.runs(5)
    scene.sees(replace(scene.known("a"), labels={**HOST, CPU_KEY: "high"}))
    assert [] == scene.runs(5)
    scene.tells(LeaseAcquired(2, scene.at))
    assert [] == scene.runs(60)
    assert "high" == scene.label("a")


def test_who_does_not_lead_writes_nothing() -> None:
    """It looks on, so that it is ready at once when it does."""
    scene = Labeller(cpu_rule(for_seconds=5.0), leads=False)
    scene.sees(node("a"))
    scene.measures("cpu", a=HOT)
    assert [] == scene.runs(30)
    scene.tells(LeaseAcquired(2, scene.at))
    assert ["a"] == [each.node for each in scene.later()]
    scene.tells(LeaseLost(scene.at))
    assert [] == scene.later(60)


def test_a_node_made_anew_under_an_old_name_starts_calm() -> None:
    """Its use is another machine's."""
    scene = Labeller(cpu_rule(for_seconds=10.0))
    scene.sees(node("a"), node("b"))
    scene.measures("cpu", a=HOT, b=HOT)
    scene.runs(8)
    scene.sees(node("a", uid="another"))
    assert ["b"] == [each.node for each in scene.runs(8)]
    assert ["another"] == [each.uid for each in scene.runs(5)]


def test_rows_that_move_keep_their_state() -> None:
    """A node that goes gives its row to the last one, whose patience goes on."""
    scene = Labeller(cpu_rule(for_seconds=10.0))
    scene.sees(node("a"), node("b"), node("c"))
    scene.measures("cpu", c=HOT)
    scene.runs(8)
    scene.loses("a")
    assert ["c"] == [each.node for each in scene.runs(3)]


def test_not_more_than_fifty_wishes_are_under_way() -> None:
    """A storm of changes goes out as fast as it is answered."""
    scene = Labeller(cpu_rule())
    scene.sees(*(node(f"n{number}") for number in range(60)))
    scene.measures("cpu", **{f"n{number}": HOT for number in range(60)})
    first = scene.later()
    assert (50, 0) == (len(first), len(scene.later()))
    scene.grants(*first[:5])
    assert 5 == len(scene.later())


def test_observing_says_each_change_once_and_writes_nothing() -> None:
    """Wishes are marked as such; what was said counts as if it were so, also when nodes come and go."""
    scene = Labeller(cpu_rule(), apply=False)
    scene.sees(node("a"), node("b"))
    scene.measures("cpu", a=COLD, b=HOT)
    assert [("b", True)] == [(each.node, each.observe_only) for each in scene.later()]
    scene.loses("a")
    assert [] == [wish for _ in range(20) for wish in scene.later()]
    assert ["b"] == scene.engine.controller(LabellingController).labeller.labelled_nodes()  # type: ignore[union-attr]
    scene.measures("cpu", b=COLD)
    assert [("b", ((CPU_KEY, None),))] == [(each.node, each.labels) for _ in range(40) for each in scene.later()]
    assert scene.label("b") is None


class Crowds(MetricsRecorder):
    """Counts how often all were marked."""

    def __init__(self) -> None:
        self.crowds: list[int] = []

    def all_under_pressure(self, nodes: int) -> None:
        self.crowds.append(nodes)


def test_when_every_node_is_marked_it_is_said_once() -> None:
    """They are marked all the same; control planes do not count."""
    tally = Crowds()
    scene = Labeller(cpu_rule(), recorder=tally)
    scene.sees(node("a"), node("b"), node("m", labels={"node-role.kubernetes.io/control-plane": ""}))
    scene.measures("cpu", a=HOT, b=COLD, m=COLD)
    scene.runs(5)
    assert [] == tally.crowds
    scene.measures("cpu", b=HOT)
    scene.runs(5)
    assert [2] == tally.crowds
    assert ["a", "b"] == scene.engine.controller(LabellingController).labeller.labelled_nodes()  # type: ignore[union-attr]


def test_new_rules_keep_what_the_old_ones_know() -> None:
    """A rule that stays goes on counting; a new one starts with what is found; one that left takes its key along."""
    kept, gone = cpu_rule(for_seconds=10.0), cpu_rule(name="memory", metric="memory", label=(MEMORY_KEY, "high"))
    scene = Labeller(kept, gone)
    scene.sees(node("a"))
    scene.measures("cpu", a=HOT)
    scene.measures("memory", a=0.9 * (1 << 34))
    scene.runs(8)
    assert "high" == scene.label("a", MEMORY_KEY)
    new = LabellingSettings((kept,), apply=True)
    scene.tells(SettingsRead(Settings((), labels=new), scene.at))
    assert [(MEMORY_KEY, None)] == [pair for wish in scene.runs(1) for pair in wish.labels]
    assert [(CPU_KEY, "high")] == [pair for wish in scene.runs(2) for pair in wish.labels]


def test_what_rules_compare() -> None:
    """Shares of capacity or allocatable, averages, memory.available reckoned or told, and any number of the user's."""
    low = cpu_rule(
        metric="memory.available",
        direction=Direction.BELOW,
        threshold=2 * GIB,
        clear=3 * GIB,
        denominator=Denominator.NONE,
    )
    rules = {
        "allocatable": cpu_rule(denominator=Denominator.ALLOCATABLE),
        "averaged": cpu_rule(average_seconds=300.0),
        "available": low,
        "queried": cpu_rule(metric="rule/load5", threshold=4.0, clear=3.0),
    }
    found = {}
    for name, rule in rules.items():
        scene = Labeller(rule)
        scene.sees(node("a", capacity=(("cpu", 8000), ("memory", 16 * GIB))), node("b"), node("c"))
        scene.measures("cpu", a=HOT, b=COLD)
        scene.measures("cpu over 300", b=HOT)
        scene.measures("memory", a=14.5 * GIB, b=13 * GIB)
        scene.measures("memory.available", b=1 * GIB)
        scene.measures("rule/load5", b=4.5)
        found[name] = [each.node for each in scene.runs(5)]
    assert {"allocatable": ["a"], "averaged": ["b"], "available": ["a", "b"], "queried": ["b"]} == found


def test_a_fork_goes_its_own_way() -> None:
    """What a replay does to its twin is not seen by the live engine, and both wish for the same."""
    scene = Labeller(cpu_rule(for_seconds=10.0))
    scene.sees(node("a"))
    scene.measures("cpu", a=HOT)
    scene.runs(8)
    twin = scene.engine.fork()
    foretold = [wish for second in range(5) for wish in twin.handle(Tick(scene.at + second))]
    assert [LabelNode] == [type(wish) for wish in foretold]
    assert foretold == [wish for _ in range(4) for wish in scene.later(1.0)]


def test_an_engine_without_profiles_needs_no_pods() -> None:
    """A labeller follows nodes alone, and has no right to anything else."""
    assert ("nodes",) == Settings((), labels=LabellingSettings((cpu_rule(),))).kinds
    assert Engine(Settings(())).controller(LabellingController).labeller is None


def test_without_rules_nothing_stays_under_way() -> None:
    """A patch whose answer comes after the rules were removed is not awaited for ever."""
    scene = Labeller(cpu_rule())
    scene.sees(node("a"))
    scene.measures("cpu", a=HOT)
    scene.engine.handle(Tick(scene.at))
    assert ["a"] == list(scene.engine.state.writes.of(LabelNode))
    scene.tells(SettingsRead(Settings(()), scene.at))
    assert {} == scene.engine.state.writes.of(LabelNode)
