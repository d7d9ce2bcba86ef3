"""Queueing hints never leave a pod unschedulable that has a feasible node; the periodic flush is off here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.engine_harness import EngineHarness, node, of_kind, pod
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import choose
from trimtab.core.framework.interface import Ints, Rows
from trimtab.core.model.change import Change
from trimtab.core.model.events import BindDone, NodeDeleted, PodDeleted
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.schedule_result import Placement
from trimtab.core.model.taints import NO_SCHEDULE, Taint, Toleration
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState

NEVER_LATE = 1e9
SPECS = (
    PodSpec(),
    PodSpec(tolerations=(Toleration("gpu", "Exists"),)),
    PodSpec(ports=(HostPort("TCP", "0.0.0.0", 80),)),
    PodSpec(node_selector=(("disk", "ssd"),)),
)
Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9), st.integers(0, 47)), min_size=10, max_size=40)


@dataclass(frozen=True)
class Crowd:
    """Judges by all nodes at once, and keeps no answer: wakes on all that it names."""

    name: ClassVar[str] = "Crowd"
    requeue_on: ClassVar[Change] = Change.PODS | Change.NODES | Change.NODE_DELETED

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        crowded = "shy" in pod.labels and int(view.pod_count.sum()) % 2 == 1
        return np.full(len(view.pod_count[rows]), int(crowded), dtype=np.int64)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("an odd number of pods",)


@dataclass(frozen=True)
class Hinting(Crowd):
    """The same, with a hint of its own."""

    def queueing_hint(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return int(view.pod_count.sum()) % 2 == 0


class Life:
    """Nodes and pods come, change and go; after each change everything that can be decided is decided."""

    def __init__(self, scene: EngineHarness) -> None:
        self.scene, self.made = scene, 0
        self.nodes: dict[str, Node] = {}

    def play(self, step: Step) -> None:
        kind, who, how = step
        (self.pod_comes, self.pod_comes, self.pod_comes, self.pod_goes, self.node_comes, self.node_changes,
         self.node_goes, self.pod_is_edited)[kind](who, how)  # fmt: skip
        for _ in range(20):
            self.scene.advance(11.0)
            binds = of_kind(Bind, self.scene.turn(50))
            for bind in binds:
                self.scene.handle(BindDone(bind.uid, bind.node, self.scene.at))
                self.scene.bound(self.pods[bind.uid], bind.node)
            if not binds:
                break

    @property
    def pods(self) -> dict[str, Pod]:
        return self.scene.engine.cluster.pods

    def pod_comes(self, who: int, how: int) -> None:
        """A few equal pods, which must not block each other."""
        labels = {"shy": "yes"} if who % 3 == 0 else {}
        for _ in range(1 + who % 4):
            self.made += 1
            self.scene.upsert(pod(f"p{self.made}", (400, 900)[how % 2], spec=SPECS[how // 2 % 4], labels=labels))

    def _some_pod(self, who: int) -> Pod | None:
        return list(self.pods.values())[who % len(self.pods)] if self.pods else None

    def pod_goes(self, who: int, how: int) -> None:
        if (held := self._some_pod(who)) is not None:
            self.scene.handle(PodDeleted(held.uid, self.scene.at))

    def pod_is_edited(self, who: int, how: int) -> None:
        held = self._some_pod(who)
        if held is not None and not held.node:
            self.scene.upsert(replace(held, labels={"edited": str(how)}, nominated_node="n1" if how % 5 == 0 else ""))

    def node_comes(self, who: int, how: int) -> None:
        self._put(f"n{who % 4}", how)

    def node_changes(self, who: int, how: int) -> None:
        if f"n{who % 4}" in self.nodes:
            self._put(f"n{who % 4}", how)

    def _put(self, name: str, how: int) -> None:
        taints = (Taint("gpu", "", NO_SCHEDULE),) if how % 5 == 4 else ()
        labels = {"disk": "ssd"} if how % 4 < 2 else {}
        room = (2000, 1000, 500)[how // 16]
        self.nodes[name] = node(name, room, pods=5 - how % 3, taints=taints, labels=labels, unschedulable=how % 7 == 6)
        self.scene.upsert(self.nodes[name])

    def node_goes(self, who: int, how: int) -> None:
        if self.nodes.pop(name := f"n{who % 4}", None) is not None:
            self.scene.handle(NodeDeleted(name, self.scene.at))

    def overlooked(self) -> list[str]:
        """Pods that are unschedulable, and have a place to go."""
        engine = self.scene.engine
        profile, promised = engine.state.settings.profiles[0], list(engine.cluster.nominated.values())
        parked = [self.pods[entry.uid] for entry in engine.controller(Scheduling).queue.unschedulable()]
        judged = {each.name: choose(engine.cluster.view, each, profile, promised) for each in parked}
        return [name for name, verdict in judged.items() if isinstance(verdict, Placement)]


@pytest.mark.parametrize("plugins", [(), (Crowd(),), (Hinting(),)], ids=["by row", "coupled", "hinting"])
def test_whoever_has_a_place_to_go_is_woken(plugins: tuple[Crowd, ...]) -> None:
    """After every change, as soon as back-offs are over, no pod that would be placed is still unschedulable."""

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(STEPS)
    def law(steps: list[Step]) -> None:
        life = Life(EngineHarness(*plugins, max_unschedulable_wait=NEVER_LATE))
        for step in [(0, 4, 0), (0, 7, 1), (0, 7, 6), *steps]:  # a few pods wait before there is any node
            life.play(step)
            assert [] == life.overlooked()
            parts = life.scene.engine.controller(Scheduling).queue.counts()
            assert (0, 0) == (parts[QueueState.ACTIVE], parts[QueueState.POPPED])

    law_holds: Callable[[], None] = law
    law_holds()
