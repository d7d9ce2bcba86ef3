"""Random but possible histories: a simulated API server, a lagging watch, and lost responses.

`World` holds the true state; which events of it are delivered, and when, is drawn step by step. Steps are plain numbers,
so that a failing history shrinks. What the engine must do is checked by `bind_checker` and the laws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.engine_harness import node, pod
from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    GetPodFailed,
    LeaseAcquired,
    LeaseLost,
    NodeDeleted,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    PreemptDone,
    PreemptFailed,
    SamplesRead,
    StageAnswered,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind, GetPod, Instruction, Nominate, Preempt
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.readings import Reading
from trimtab.core.model.resources import CPU
from trimtab.core.model.taints import NO_SCHEDULE, Taint, Toleration

T = TypeVar("T")
Step = tuple[int, int, int]
TAINT = Taint("dedicated", "", NO_SCHEDULE)
LEAVE = Toleration("dedicated", "Exists")
PORT = HostPort("TCP", "0.0.0.0", 80)
SPECS = (PodSpec(), PodSpec(), PodSpec(tolerations=(LEAVE,)), PodSpec(ports=(PORT,)))
SIZES = (100, 400, 1000)
ROOMS = (0, 500, 1000, 2000)
PAUSES = (0.1, 1.0, 2.0, 4.0, 11.0, 31.0, 61.0)
POD_NAMES, NODE_NAMES = tuple("pqrstuvwxyz"), tuple("abc")


def histories(shortest: int = 30, longest: int = 70) -> st.SearchStrategy[list[Step]]:
    """Each step picks what happens, and two numbers that say to which object and how; short histories show little."""
    step = st.tuples(st.integers(0, len(World.MOVES) - 1), st.integers(0, 30), st.integers(0, 30))
    return st.lists(step, min_size=shortest, max_size=longest)


@dataclass
class Request:
    """A bind or a read on its way."""

    wish: Bind | GetPod
    done: bool = False  # it took effect, or was turned away
    answered: bool = False
    outcome: BindFailure | None = None
    read: Pod | None = None


@dataclass
class World:
    """The true state, and what of it has been delivered."""

    at: float = 0.0
    version: int = 0
    made: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    lines: dict[str, list[Event]] = field(default_factory=lambda: {"pods": [], "nodes": []})
    heard: list[Event] = field(default_factory=list)
    binds: list[Request] = field(default_factory=list)
    reads: list[Request] = field(default_factory=list)
    preempts: list[Preempt] = field(default_factory=list)
    MOVES: ClassVar[tuple[Callable[[World, int, int], Iterable[Event]], ...]] = ()

    # --- what the shell does with instructions

    def perform(self, instructions: list[Instruction]) -> None:
        for wish in instructions:
            if isinstance(wish, Bind):
                self.binds.append(Request(wish))
            elif isinstance(wish, GetPod):
                self.reads.append(Request(wish))
            elif isinstance(wish, Preempt):
                self.preempts.append(wish)
            elif isinstance(wish, Nominate) and (held := self.pods.get(wish.uid)) is not None:
                self._put_pod(replace(held, nominated_node=wish.node))

    def events(self, step: Step) -> Iterator[Event]:
        """The events of this step, one by one."""
        move, who, how = step
        self.at += 0.01
        return self._delivered(World.MOVES[move](self, who, how))

    def _delivered(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, PodUpserted | PodDeleted | NodeUpserted | NodeDeleted):
                self.heard.append(event)
            yield event

    def opening(self) -> Iterator[Event]:
        """A few nodes and pods are there before anything happens."""
        for number in range(4):
            self.node_is_made(number, 1 + number)
            self.pod_is_made(number, 1 + number)
        yield from self._delivered((*self._hear("nodes", 3), *self._hear("pods", 3)))
        yield from (Synced("pods", self.at), Synced("nodes", self.at), LeaseAcquired(1, self.at))

    def quiet(self) -> Iterator[Event]:
        """Everything that is still open comes to an honest end."""
        for bind in list(self.binds):
            if not bind.done:
                self._take_effect(bind)
            if not bind.answered:
                yield self._answer(bind, honest=True)
        for read in list(self.reads):
            yield self._read_answer(read, honest=True)
        while self.preempts:
            yield from self.a_victim_is_deleted(0, 1)
        for held in [each for each in self.pods.values() if each.preempted]:
            del self.pods[held.uid]
            self._show("pods", PodDeleted(held.uid, self.at, self._newer()))
        for kind in ("nodes", "pods"):
            yield from self._delivered(self._hear(kind, len(self.lines[kind])))

    # --- the truth changes

    def _show(self, kind: str, event: Event) -> list[Event]:
        self.lines[kind].append(event)
        return []

    def _newer(self) -> int:
        self.version += 1
        return self.version

    def _put_pod(self, changed: Pod) -> list[Event]:
        self.pods[changed.uid] = newer = replace(changed, version=self._newer())
        return self._show("pods", PodUpserted(newer, self.at))

    def _put_node(self, changed: Node) -> list[Event]:
        self.nodes[changed.name] = newer = replace(changed, version=self._newer())
        return self._show("nodes", NodeUpserted(newer, self.at))

    def node_is_made(self, who: int, how: int) -> list[Event]:
        name = NODE_NAMES[who % len(NODE_NAMES)]
        if name in self.nodes:
            return []
        self.made += 1
        taints = (TAINT,) if how % 5 == 0 else ()
        return self._put_node(node(name, ROOMS[1 + how % 3], pods=2 + how % 4, uid=f"node-{self.made}", taints=taints))

    def node_changes(self, who: int, how: int) -> list[Event]:
        held = _pick(list(self.nodes.values()), who)
        if held is None:
            return []
        if how % 3 == 0:
            return self._put_node(replace(held, unschedulable=not held.unschedulable))
        if how % 3 == 1:
            return self._put_node(replace(held, taints=() if held.taints else (TAINT,)))
        return self._put_node(replace(node(held.name, ROOMS[how % 4], pods=how % 6), uid=held.uid))

    def node_goes(self, who: int, how: int) -> list[Event]:
        held = _pick(list(self.nodes.values()), who)
        if held is None:
            return []
        del self.nodes[held.name]
        return self._show("nodes", NodeDeleted(held.name, self.at, held.uid, self._newer()))

    def pod_is_made(self, who: int, how: int) -> list[Event]:
        name = POD_NAMES[who % len(POD_NAMES)]
        if any(each.name == name for each in self.pods.values()):
            return []
        self.made += 1
        return self._put_pod(
            pod(
                name,
                SIZES[how % 3],
                uid=f"pod-{self.made}",
                spec=SPECS[who % 4],
                priority=who % 4,
                scheduling_gates=("gate",) if how % 7 == 0 else (),
                labels={"slow": "yes"} if how % 3 == 1 else {},
                scheduler_name="else" if how % 6 == 5 else "trimtab",
            )
        )

    def pod_changes(self, who: int, how: int) -> list[Event]:
        held = _pick(list(self.pods.values()), who)
        if held is None:
            return []
        if how % 4 == 0:
            return self._put_pod(replace(held, terminating=True))
        if how % 4 == 1:
            return self._put_pod(replace(held, scheduling_gates=()))
        if how % 4 == 2:
            return self._put_pod(replace(held, labels={**held.labels, "edit": str(how)}))
        return self._put_pod(replace(held, phase="Succeeded")) if held.node else []

    def pod_goes(self, who: int, how: int) -> list[Event]:
        held = _pick(list(self.pods.values()), who)
        if held is None:
            return []
        del self.pods[held.uid]
        return self._show("pods", PodDeleted(held.uid, self.at, self._newer()))

    def somebody_else_binds(self, who: int, how: int) -> list[Event]:
        held, there = _pick(list(self.pods.values()), who), _pick(list(self.nodes.values()), how)
        return self._put_pod(replace(held, node=there.name)) if held and there and bindable(held) else []

    # --- the watch tells of it, late and sometimes twice

    def pods_are_heard(self, who: int, how: int) -> Iterator[Event]:
        return self._hear("pods", 1 + how % 6)

    def nodes_are_heard(self, who: int, how: int) -> Iterator[Event]:
        return self._hear("nodes", 1 + how % 6)

    def _hear(self, kind: str, count: int) -> Iterator[Event]:
        for line in self.lines[kind][:count]:
            yield replace(line, at=self.at)
        del self.lines[kind][:count]

    def old_news(self, who: int, how: int) -> list[Event]:
        old = _pick(self.heard, who * 31 + how)
        return [replace(old, at=self.at)] if old is not None else []

    def everything_is_listed_anew(self, who: int, how: int) -> Iterator[Event]:
        """A relist: what was deleted unseen is reported, before or after what exists."""
        gone = {"pods": self._vanished_pods(), "nodes": self._vanished_nodes()}
        kind = "pods" if who % 2 else "nodes"
        there: list[Event] = (
            [PodUpserted(each, self.at) for each in self.pods.values()]
            if kind == "pods"
            else [NodeUpserted(each, self.at) for each in self.nodes.values()]
        )
        self.lines[kind].clear()
        yield from (*gone[kind], *there) if how % 2 else (*there, *gone[kind])

    def _vanished_pods(self) -> list[Event]:
        known = {event.pod.uid for event in self.heard if isinstance(event, PodUpserted)}
        return [PodDeleted(uid, self.at, self.version) for uid in sorted(known - self.pods.keys())]

    def _vanished_nodes(self) -> list[Event]:
        known = {(event.node.name, event.node.uid) for event in self.heard if isinstance(event, NodeUpserted)}
        there = {(each.name, each.uid) for each in self.nodes.values()}
        return [NodeDeleted(name, self.at, uid, self.version) for name, uid in sorted(known - there)]

    # --- requests take effect, and their answers come or are lost

    def a_bind_takes_effect(self, who: int, how: int) -> list[Event]:
        bind = _pick([each for each in self.binds if not each.done], who)
        if bind is not None:
            self._take_effect(bind)
        return []

    def _take_effect(self, bind: Request) -> None:
        """The server's own checks: the pod side only, never the node."""
        assert isinstance(bind.wish, Bind)
        held = self.pods.get(bind.wish.uid)
        bind.done = True
        if held is None:
            bind.outcome = (
                BindFailure.CONFLICT if any(e.name == bind.wish.name for e in self.pods.values()) else BindFailure.GONE
            )
        elif not bindable(held):
            bind.outcome = BindFailure.CONFLICT
        else:
            self._put_pod(replace(held, node=bind.wish.node))

    def a_bind_is_answered(self, who: int, how: int) -> list[Event]:
        bind = _pick([each for each in self.binds if not each.answered], who)
        if bind is None:
            return []
        if not bind.done and how % 4 == 0:
            bind.done, bind.outcome = True, (BindFailure.NOT_SENT, BindFailure.REFUSED)[how // 4 % 2]
        elif not bind.done and how % 4 < 3:
            self._take_effect(bind)
        return [self._answer(bind, honest=how % 5 > 1)]

    def _answer(self, bind: Request, *, honest: bool) -> Event:
        """Exactly one answer a bind; one that has not taken effect yet, or whose answer is lost, is unknown."""
        assert isinstance(bind.wish, Bind)
        bind.answered = True
        fault = bind.outcome if honest and bind.done else BindFailure.UNKNOWN
        if fault is None:
            return BindDone(bind.wish.uid, bind.wish.node, self.at)
        return BindFailed(bind.wish.uid, bind.wish.node, fault, "no", self.at)

    def a_victim_is_deleted(self, who: int, how: int) -> list[Event]:
        """Or not, or the response is lost; deletion takes its time."""
        wish = _pick(self.preempts, who)
        if wish is None:
            return []
        self.preempts.remove(wish)
        held = self.pods.get(wish.uid)
        if how % 4 == 0:
            return [PreemptFailed(wish.uid, wish.preemptor, "no", self.at, forbidden=how % 8 == 0)]
        if held is not None:
            self._put_pod(replace(held, terminating=True, preempted=True))
        if how % 4 == 2:
            return [PreemptFailed(wish.uid, wish.preemptor, "no answer", self.at)]
        return [PreemptDone(wish.uid, wish.preemptor, self.at)]

    def a_read_takes_effect(self, who: int, how: int) -> list[Event]:
        read = _pick([each for each in self.reads if not each.done], who)
        if read is not None:
            read.done, read.read = True, self.pods.get(read.wish.uid)
        return []

    def a_read_is_answered(self, who: int, how: int) -> list[Event]:
        read = _pick(self.reads, who)
        return [] if read is None else [self._read_answer(read, honest=how % 4 != 0)]

    def _read_answer(self, read: Request, *, honest: bool) -> Event:
        self.reads.remove(read)
        if not honest:
            return GetPodFailed(read.wish.uid, self.at)
        return GetPodDone(read.wish.uid, read.read if read.done else self.pods.get(read.wish.uid), self.at)

    # --- time, turns and ourselves

    def a_turn(self, who: int, how: int) -> list[Event]:
        return [Turn(1 + how % 4, self.at)]

    def time_passes(self, who: int, how: int) -> list[Event]:
        self.at += PAUSES[how % len(PAUSES)]
        return [Tick(self.at)]

    def leadership_changes(self, who: int, how: int) -> list[Event]:
        return [LeaseAcquired(2 + who, self.at)] if how % 4 else [LeaseLost(self.at)]

    def a_stage_is_answered(self, who: int, how: int) -> list[Event]:
        held = _pick(list(self.pods.values()), who)
        return [StageAnswered(held.uid, self.at)] if held is not None else []

    def load_is_read(self, who: int, how: int) -> list[Event]:
        name = NODE_NAMES[who % len(NODE_NAMES)]
        return [SamplesRead((Reading("meter", CPU, (name,), (float(how),), (self.at,)),), self.at)]


World.MOVES = (
    *[World.pod_is_made] * 6,
    *[World.node_is_made] * 2,
    *[World.pods_are_heard] * 6,
    *[World.nodes_are_heard] * 3,
    *[World.a_turn] * 6,
    World.a_bind_takes_effect,
    *[World.a_bind_is_answered] * 4,
    World.a_read_takes_effect,
    *[World.a_read_is_answered] * 2,
    *[World.a_victim_is_deleted] * 2,
    *[World.time_passes] * 2,
    World.node_changes,
    World.node_goes,
    World.pod_changes,
    World.pod_goes,
    World.somebody_else_binds,
    World.old_news,
    World.everything_is_listed_anew,
    World.leadership_changes,
    World.a_stage_is_answered,
    World.load_is_read,
)


def bindable(pod: Pod) -> bool:
    """The conditions under which the API server binds a pod."""
    return not (pod.node or pod.terminating or pod.scheduling_gates or pod.phase in ("Succeeded", "Failed"))


def _pick(some: Sequence[T], number: int) -> T | None:
    return some[number % len(some)] if some else None
