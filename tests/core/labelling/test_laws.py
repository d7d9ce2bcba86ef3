"""Whatever happened before, marks end up where the load is, and nobody else's labels and taints are ever touched."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.labelling.labeller_harness import CPU_KEY, HOST, Labeller, cpu_rule, node
from trimtab.core.model.events import LabelFailed, LeaseAcquired, LeaseLost
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.node import Node
from trimtab.core.model.taints import Taint

NAMES = ("a", "b", "m")
OTHERS = (Taint("gpu", "yes", "NoSchedule"), Taint("late", "", "PreferNoSchedule"))
LEVELS = (math.nan, 400.0, 2800.0, 3900.0)

steps = st.one_of(
    st.tuples(st.just("load"), st.sampled_from(NAMES), st.sampled_from(LEVELS)),
    st.tuples(st.just("pass"), st.sampled_from(("grant", "refuse", "lose")), st.sampled_from((0.5, 3.0, 40.0))),
    st.tuples(st.just("node"), st.sampled_from(NAMES), st.sampled_from(("gone", "anew", "bare", "marked"))),
    st.tuples(st.just("lead"), st.booleans(), st.none()),
)


def fresh(name: str, uid: str = "first") -> Node:
    labels = {**HOST, "zone": name, **({"node-role.kubernetes.io/master": ""} if name == "m" else {})}
    return node(name, labels=labels, taints=OTHERS, uid=uid + name)


class Story:
    """One labeller, and an API server that grants, refuses or forgets to answer."""

    def __init__(self, *, apply: bool = True) -> None:
        self.scene = Labeller(cpu_rule(taint=CPU_KEY), expire_after=60.0, apply=apply)
        self.wishes: list[LabelNode] = []
        self.born = 0
        for name in NAMES:
            self.scene.sees(fresh(name))

    def plays(self, kind: str, what: object, how: object) -> None:
        match kind:
            case "load":
                self.scene.measures("cpu", **{str(what): how})  # type: ignore[arg-type]
            case "pass":
                self._pass(str(what), float(how))  # type: ignore[arg-type]
            case "node":
                self._node(str(what), str(how))
            case "lead":
                at = self.scene.at
                self.scene.tells(LeaseAcquired(2, at) if what else LeaseLost(at))

    def _pass(self, fate: str, seconds: float) -> None:
        for wish in self.scene.later(seconds):
            self.wishes.append(wish)
            if wish.observe_only:
                continue
            if fate == "grant":
                self.scene.grants(wish)
            else:
                self.scene.tells(LabelFailed(wish.node, "no", self.scene.at, forbidden=fate == "lose"))

    def _node(self, name: str, how: str) -> None:
        known = name in self.scene.engine.cluster.node_table.row
        if how == "gone" and known:
            self.scene.loses(name)
        elif how == "anew" or not known:
            self.born += 1
            self.scene.sees(fresh(name, f"uid-{self.born}"))
        else:
            before = self.scene.known(name)
            labels = {key: value for key, value in before.labels.items() if key != CPU_KEY}
            self.scene.sees(replace(before, labels=labels if how == "bare" else {**labels, CPU_KEY: "odd"}))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(steps, max_size=25), st.sampled_from(LEVELS), st.sampled_from(LEVELS))
def test_marks_end_up_where_the_load_is(history: list[tuple[str, object, object]], one: float, other: float) -> None:
    """After two quiet minutes: hot is marked, calm and silent are not, a control plane never is, the rest is untouched."""
    story = Story()
    for step in history:
        story.plays(*step)
    scene = story.scene
    for name in NAMES:
        if name not in scene.engine.cluster.node_table.row:
            story._node(name, "anew")
    scene.tells(LeaseAcquired(3, scene.at))
    scene.measures("cpu", a=one, b=other, m=3900.0)
    scene.runs(200)
    for name, level in (("a", one), ("b", other), ("m", 0.0)):
        carried = (scene.label(name) is not None, any(each.key == CPU_KEY for each in scene.taints(name)))
        if level != 2800.0:  # between the two thresholds both are right
            assert ((level == 3900.0,) * 2) == carried, name
        assert carried[0] == carried[1]
        assert set(OTHERS) <= {*scene.taints(name)}
        assert name == scene.label(name, "zone")
    assert [] == scene.runs(30)


# A node that nobody has spoken of yet is hot for a while, so that there is something to say in every story.
COMES_AND_GOES: tuple[tuple[str, object, object], ...] = (
    ("lead", True, None),
    ("node", "a", "anew"),
    ("load", "a", 3900.0),
    ("pass", "grant", 0.5),
    ("pass", "grant", 0.5),
    ("load", "a", 400.0),
    ("pass", "grant", 0.5),
    ("pass", "grant", 40.0),
    ("pass", "grant", 0.5),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(steps, min_size=15, max_size=40))
def test_who_observes_never_wishes_for_a_write(history: list[tuple[str, object, object]]) -> None:
    """Whatever happens, leading or not: all that goes out is to be said, and never the same twice in a row of a node."""
    story = Story(apply=False)
    for step in (*history, *COMES_AND_GOES):
        story.plays(*step)
    assert [((CPU_KEY, "high"),), ((CPU_KEY, None),)] == [wish.labels for wish in story.wishes if wish.node == "a"][-2:]
    assert all(wish.observe_only for wish in story.wishes)
    last: dict[tuple[str, str], object] = {}
    for wish in story.wishes:
        change = (wish.labels, wish.add_taints, wish.remove_taints)
        assert change != last.get((wish.node, wish.uid))
        last[wish.node, wish.uid] = change
