"""Plays a random history to an engine and looks at every promise after every event; which histories, the laws say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.core.engine.scene import OURS, instructions, profile
from tests.laws.journals import Step, World
from tests.laws.recount import Ledger
from trimtab.core.cluster.invariants import faults
from trimtab.core.cluster.view import View
from trimtab.core.engine import Engine
from trimtab.core.model.change import Change
from trimtab.core.model.event import Event, Leading, Synced, Tick, Turn
from trimtab.core.model.instruction import Bind, Instruction, Preempt, Reread
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.placing.contract import Go, Refuse, Staged, Wait
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queue import Part
from trimtab.core.settings import Settings


@dataclass(frozen=True)
class Slow:
    """Reserves, and lets pods labelled `slow` wait while pods and nodes make an odd number; some are refused instead."""

    name: ClassVar[str] = "Slow"
    woken_by: ClassVar[Change] = Change.NODES

    def reserve(self, view: View, memory: Any, pod: Pod, node: str) -> tuple[Any, Go | Refuse]:
        return (memory or frozenset()) | {pod.uid}, Go.GO

    def unreserve(self, memory: Any, pod: Pod, node: str) -> Any:
        return memory - {pod.uid}

    def permit(self, view: View, pod: Pod, node: str) -> Staged:
        if "slow" not in pod.labels or (view.count + int(view.pod_count.sum())) % 2 == 0:
            return Go.GO
        return Wait(20.0, woken_by=Change.NODES | Change.PODS) if pod.priority else Refuse("odd")


def engine() -> Engine:
    return Engine(Settings((profile(Slow()),), max_binds_in_flight=3))


class Trial:
    """Plays a history to an engine, with the ledger listening and every promise looked at after every event."""

    def __init__(self) -> None:
        self.engine, self.world, self.ledger = engine(), World(), Ledger()
        self.journal: list[tuple[Event, list[Instruction]]] = []
        self.hear(Synced(kind, 0.0) for kind in self.engine.state.settings.kinds[2:])
        self.hear(self.world.opening())

    def play(self, steps: list[Step]) -> Trial:
        for step in steps:
            self.hear(self.world.events(step))
        return self

    def hear(self, events: Iterable[Event]) -> None:
        for event in events:
            news = self.ledger.is_news(event)
            before = None if news else fingerprint(self.engine)
            wishes = instructions(self.engine.handle(event))
            assert news or (([], before) == (wishes, fingerprint(self.engine))), f"{event} is no news"
            self.journal.append((event, wishes))
            self.ledger.hear(event)
            self.judge(wishes)
            self.world.perform(wishes)

    def judge(self, wishes: list[Instruction]) -> None:
        for wish in wishes:
            if isinstance(wish, Bind):
                assert [] == self.ledger.objections(wish)
            elif isinstance(wish, Reread):
                self.ledger.note_read(wish)
            elif isinstance(wish, Preempt):
                assert self.ledger.pods[wish.uid].priority < self.ledger.pods[wish.preemptor].priority
        assert [] == faults(self.engine.cluster)
        assert [] == lost_pods(self.engine)
        self.judge_room()
        flying, reserved = (
            self.engine.controller(Scheduling).bindings.by_uid.keys(),
            self.engine.cluster.memory.get("Slow", ()),
        )
        assert set(flying) <= set(reserved)

    def judge_room(self) -> None:
        """Whatever the ledger counts on a node counts there; what counts beyond that is still on its way."""
        scheduling = self.engine.controller(Scheduling)
        counted = {(uid, place.node) for uid, place in self.engine.cluster.places.items()}
        known = {(pod.uid, name) for name in self.names() for pod in self.ledger.standing(name)}
        flying = {(flight.pod.uid, flight.node) for flight in scheduling.bindings.by_uid.values()}
        assert known <= counted <= known | flying

    def names(self) -> set[str]:
        """Every node that any pod was seen on or sent to."""
        return {pod.node for pod in self.ledger.pods.values() if pod.node} | {
            sent.node for sent in self.ledger.sent.values()
        }

    def settle(self) -> Trial:
        """Faults end, everything is heard, and two minutes pass."""
        self.hear([Leading(99, self.world.at)])
        for _ in range(24):
            self.world.at += 5.0
            self.hear(self.world.quiet())
            self.hear([Tick(self.world.at), Turn(20, self.world.at)])
        self.hear(self.world.quiet())
        return self


def fingerprint(engine: Engine) -> str:
    """All that decisions depend on, as text."""
    scheduling = engine.controller(Scheduling)
    cluster, queue = engine.cluster, scheduling.queue
    amounts = {name: cells.exact for name, cells in cluster.columns.requested.items()}
    return repr(
        (
            cluster.pods,
            cluster.places,
            cluster.columns.nodes,
            amounts,
            cluster.memory,
            cluster.load.expected(CPU),
            queue.waiting,
            sorted(queue._ready),
            sorted(queue._backing),
            scheduling.bindings.by_uid,
            scheduling.requeuer.last_reported,
            cluster.promises,
            engine.state.writes._by_type,
            engine.state.term,
            engine.state.unsynced,
        )
    )


def lost_pods(engine: Engine) -> list[str]:
    """Pods of ours that wait for a node, and are neither in a part of the queue nor on their way."""
    scheduling = engine.controller(Scheduling)
    lost = []
    for uid, pod in engine.cluster.pods.items():
        entry = scheduling.queue.waiting.get(uid)
        waits = pod.scheduler == OURS and not (pod.node or pod.deleting or pod.phase in ("Succeeded", "Failed"))
        flies = uid in scheduling.bindings.by_uid
        if waits and not flies and (entry is None or entry.part is Part.OUT):
            lost.append(uid)
    return lost
