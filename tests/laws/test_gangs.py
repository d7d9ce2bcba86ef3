"""A gang is never split by Trimtab, whatever happens to its pods, its group and its nodes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.engine_harness import EngineHarness, node, of_kind, pod
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.events import (
    BindDone,
    LeaseAcquired,
    LeaseLost,
    NodeDeleted,
    ObjectDeleted,
    ObjectUpserted,
    PodDeleted,
)
from trimtab.core.model.instructions import Bind, Instruction
from trimtab.core.model.objects import POD_GROUP_LABEL, PodGroup
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.scheduling.controller import Scheduling

Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 11)), min_size=10, max_size=50)
NAMES = ("red", "blue")


class Life:
    """Two gangs and a few loners on up to four nodes; binds are answered late, and every bind is watched."""

    def __init__(self) -> None:
        self.scene = EngineHarness(Coscheduling(), max_binds_in_flight=3)
        self.least: dict[str, int] = {}
        self.alive: dict[str, str] = {}  # gangs by UID of their pods
        self.sent: dict[str, Bind] = {}
        self.bound: set[str] = set()
        self.made = 0

    def play(self, step: Step) -> None:
        kind, who, how = step
        moves = (self.member, self.member, self.member, self.loner, self.group, self.node, self.gone, self.land,
                 self.time, self.term)  # fmt: skip
        self.hear(moves[kind](who, how))
        self.hear(self.scene.turn(1 + how % 3))

    def hear(self, instructions: list[Instruction] | None) -> None:
        """Instructions of one event are sent at once; no event may leave a gang started and below its quorum."""
        binds = of_kind(Bind, instructions or [])
        begun = {self.alive.get(bind.uid, "") for bind in binds} - {""}
        self.sent |= {bind.uid: bind for bind in binds}
        going = [self.alive.get(uid, "") for uid in (*self.sent, *self.bound)]
        assert {} == {name: going.count(name) for name in begun if going.count(name) < self.least[name]}
        assert [] == check_invariants(self.scene.engine.cluster)
        flying = self.scene.engine.controller(Scheduling).bindings.by_uid
        assert set(flying) == set(self.sent)  # nothing holds room that was not sent

    def member(self, who: int, how: int) -> list[Instruction]:
        name = NAMES[who % 2]
        self.made += 1
        made = pod(f"{name}-{self.made}", (300, 500)[how % 2], labels={POD_GROUP_LABEL: name}, priority=how % 3 // 2)
        self.alive[made.uid] = name
        return self.scene.upsert(made)

    def loner(self, who: int, how: int) -> list[Instruction]:
        self.made += 1
        return self.scene.upsert(pod(f"loner-{self.made}", 400))

    def group(self, who: int, how: int) -> list[Instruction]:
        name = NAMES[who % 2]
        if how == 0:
            return self.scene.handle(ObjectDeleted("podgroups", f"default/{name}", self.scene.at))
        self.least[name] = 2 + how % 4
        made = PodGroup(name=name, uid=name, namespace="default", min_member=self.least[name], timeout=20)
        return self.scene.handle(ObjectUpserted(made, self.scene.at))

    def node(self, who: int, how: int) -> list[Instruction]:
        if how == 0:
            return self.scene.handle(NodeDeleted(f"n{who}", self.scene.at))
        return self.scene.upsert(node(f"n{who}", (500, 1000, 1500)[how % 3]))

    def gone(self, who: int, how: int) -> list[Instruction]:
        pods = list(self.scene.engine.cluster.pods)
        if not pods:
            return []
        uid = pods[(who + how) % len(pods)]
        self.sent.pop(uid, None)
        self.bound.discard(uid)
        self.alive.pop(uid, None)
        return self.scene.handle(PodDeleted(uid, self.scene.at))

    def land(self, who: int, how: int) -> list[Instruction]:
        for bind in list(self.sent.values())[: 1 + how]:
            self.scene.handle(BindDone(bind.uid, bind.node, self.scene.at))
            self.bound.add(bind.uid)
            del self.sent[bind.uid]
            self.hear(self.scene.bound(self.scene.engine.cluster.pods[bind.uid], bind.node))
        return []

    def time(self, who: int, how: int) -> list[Instruction]:
        return self.scene.advance((1.0, 5.0, 11.0, 61.0)[who % 4])

    def term(self, who: int, how: int) -> list[Instruction]:
        return self.scene.handle(LeaseAcquired(2, self.scene.at) if how else LeaseLost(self.scene.at))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(STEPS)
def test_no_gang_is_begun_and_left_short_of_its_quorum(steps: list[Step]) -> None:
    """Whenever a member is bound, the gang's quorum is reached; otherwise no member holds resources."""
    life = Life()
    for step in [(5, 0, 1), (5, 1, 2), (4, 0, 1), (4, 1, 2), *steps]:
        life.play(step)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(STEPS, st.integers(2, 4))
def test_two_gangs_never_keep_each_other_waiting(steps: list[Step], least: int) -> None:
    """After any history, two gangs of which each wants more than half of what is there: one of them is placed whole."""
    life = Life()
    for step in steps:
        life.play(step)
    life.hear(life.scene.handle(LeaseAcquired(3, life.scene.at)))
    for uid in list(life.scene.engine.cluster.pods):
        life.scene.handle(PodDeleted(uid, life.scene.at))
    life.sent.clear()
    for number in range(6):
        life.scene.handle(NodeDeleted(f"n{number}", life.scene.at))
    life.scene.upsert(node("m0", 500 * least + 499))
    for name in NAMES:
        life.scene.handle(
            ObjectUpserted(PodGroup(name=name, uid=name, namespace="default", min_member=least), life.scene.at)
        )
        life.scene.upsert(
            *(pod(f"{name}-{i}", 500, uid=f"{name}{i}", labels={POD_GROUP_LABEL: name}) for i in range(least))
        )
    placed = [bind.name for _ in range(4) for bind in of_kind(Bind, life.scene.advance(11.0) + life.scene.turn(9))]
    assert least == len(placed)
    assert 1 == len({name.split("-")[0] for name in placed})
    assert least == len(life.scene.engine.controller(Scheduling).bindings)
