"""Many preemptors at once, as in Kubernetes' own spec of asynchronous preemption: how often they try, how long they wait."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import EngineHarness, node, of_kind, pod
from trimtab.core.model.events import PodDeleted, PreemptDone
from trimtab.core.model.instructions import Bind, Preempt
from trimtab.core.model.pod import Pod
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling

NODES, PER_NODE = 5, 10
HALF = NODES * PER_NODE // 2
KUBE_SCHEDULERS = 2.4  # attempts of each pod that is bound in the end, on a real control plane


class Victims(MetricsRecorder):
    """Counts the pods that have to leave."""

    def __init__(self) -> None:
        self.count = 0

    def preempted(self, victims: int) -> None:
        self.count += victims


class Scene:
    """Nodes full of low-priority pods; for each node come ten pods of medium and then five of high priority."""

    def __init__(self) -> None:
        self.victims = Victims()
        self.engine = EngineHarness(recorder=self.victims)
        self.queue = self.engine.engine.controller(Scheduling).queue
        numbers = [(n, i) for n in range(NODES) for i in range(PER_NODE)]
        self.low = {f"uid-low-{n}-{i}": pod(f"low-{n}-{i}", cpu=1000, node=f"n{n}", started=5.0) for n, i in numbers}
        self.pods: dict[str, Pod] = {}
        self.bound: list[str] = []
        self.deletions: list[Preempt] = []
        self.engine.upsert(*(node(f"n{n}", PER_NODE * 1000) for n in range(NODES)), *self.low.values())

    def decide(self) -> None:
        """Turns until there is nothing to do; binds are seen at once."""
        while self.engine.engine.has_work():
            self.engine.at += 0.0005
            wishes = self.engine.turn(1)
            self.deletions += of_kind(Preempt, wishes)
            for bind in of_kind(Bind, wishes):
                self.bound.append(bind.uid)
                self.engine.bound(self.pods[bind.uid], bind.node)

    def come(self, answer_every: int) -> None:
        """The victims are seen terminating while more preemptors come, and the rest of them afterwards."""
        for n in range(NODES):
            for i in range(PER_NODE + PER_NODE // 2):
                high = i >= PER_NODE
                each = pod(f"{'high' if high else 'medium'}-{n}-{i}", cpu=1000, priority=1000 if high else 100)
                self.pods[each.uid] = each
                self.engine.at += 0.003
                self.engine.upsert(each)
                self.decide()
                if i % answer_every == 0:
                    self.answer()
        while self.deletions:
            self.answer()

    def answer(self) -> None:
        for deletion in self.deletions[:1]:
            del self.deletions[0]
            self.engine.handle(PreemptDone(deletion.uid, deletion.preemptor, self.engine.at))
            self.engine.upsert(replace(self.low[deletion.uid], terminating=True, preempted=True))
            self.decide()

    def make_room(self) -> None:
        """The victims go, one after the other, each from another node."""
        for uid in sorted(self.low, key=lambda uid: uid[::-1]):
            self.engine.at += 0.005
            self.engine.handle(PodDeleted(uid, self.engine.at, self.engine.version + 1))
            self.decide()

    def attempts(self, uids: list[str]) -> float:
        known = {**self.queue.pods, **self.queue.finished}
        return sum(known[uid].attempts for uid in uids) / len(uids)


@pytest.mark.parametrize("answer_every", [1, 5, 100])
def test_many_preemptors_at_once(answer_every: int) -> None:
    """All high-priority pods and as many medium ones have a node when the last victim is gone, after few attempts each."""
    scene = Scene()
    scene.come(answer_every)
    high = [uid for uid in scene.pods if "high" in uid]
    assert {*high} <= scene.engine.engine.cluster.nominated.keys()
    assert (1.0, len(scene.low)) == (scene.attempts(high), scene.victims.count)
    scene.engine.advance(30.0)
    scene.decide()
    scene.make_room()
    scene.engine.advance(0.1)
    scene.decide()
    assert ({*high}, 2 * HALF) == ({uid for uid in scene.bound if uid in high}, len(scene.bound))
    assert KUBE_SCHEDULERS >= scene.attempts(scene.bound)
    assert len(scene.low) == scene.victims.count


def test_only_the_nominations_that_no_longer_fit_are_taken_back() -> None:
    """Room for two was promised; a pod of higher priority takes that of one, and the other keeps its own."""
    scene = EngineHarness()
    low = [pod(f"low-{i}", cpu=1000, node="a", started=5.0) for i in range(2)]
    scene.upsert(node("a", 2000), *low, pod("first", cpu=1000, priority=5), pod("second", cpu=1000, priority=6))
    scene.turn()
    scene.upsert(*(replace(each, terminating=True, preempted=True) for each in low))
    scene.upsert(pod("urgent", cpu=1000, priority=10))
    scene.turn(1)
    nominated = {each.name for each in scene.engine.cluster.nominated.values()}
    assert {"urgent", "second"} == nominated


def test_a_preemptor_that_loses_its_nomination_while_its_victims_are_asked_to_leave_looks_elsewhere() -> None:
    """It waits no more for these victims, and preempts on another node."""
    scene = EngineHarness()
    scene.upsert(node("a", 1000), pod("low-a", cpu=1000, node="a", started=5.0), pod("first", cpu=1000, priority=5))
    assert ["low-a"] == [each.name for each in of_kind(Preempt, scene.turn())]
    scene.upsert(pod("urgent", cpu=1000, priority=10))
    assert [] == of_kind(Preempt, scene.turn(1))
    scene.at += 0.1
    scene.upsert(node("b", 1000), pod("low-b", cpu=1000, node="b", started=5.0))
    scene.advance(1.0)
    assert ["low-b"] == [each.name for each in of_kind(Preempt, scene.turn())]
