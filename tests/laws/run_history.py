"""Feeds a random history to an engine and checks its guarantees after every event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.core.engine_harness import OURS, instructions, profile
from tests.laws.bind_checker import BindChecker
from tests.laws.histories import Step, World
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.cluster.view import View
from trimtab.core.engine import Engine
from trimtab.core.framework.interface import Reject, StageResult, StageStatus, Wait
from trimtab.core.invariants import check_scheduling
from trimtab.core.model.change import Change
from trimtab.core.model.events import Event, LeaseAcquired, Synced, Tick, Turn
from trimtab.core.model.instructions import Bind, GetPod, Instruction, Preempt
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState
from trimtab.core.settings import Settings


@dataclass(frozen=True)
class Slow:
    """Reserves, and lets pods labelled `slow` wait while pods and nodes make an odd number; some are rejected instead."""

    name: ClassVar[str] = "Slow"
    requeue_on: ClassVar[Change] = Change.NODES

    def reserve(self, view: View, state: Any, pod: Pod, node: str) -> tuple[Any, StageStatus | Reject]:
        return (state or frozenset()) | {pod.uid}, StageStatus.SUCCESS

    def unreserve(self, state: Any, pod: Pod, node: str) -> Any:
        return state - {pod.uid}

    def permit(self, view: View, pod: Pod, node: str) -> StageResult:
        if "slow" not in pod.labels or (view.count + int(view.pod_count.sum())) % 2 == 0:
            return StageStatus.SUCCESS
        return Wait(20.0, retry_on=Change.NODES | Change.PODS) if pod.priority else Reject("odd")


def engine() -> Engine:
    return Engine(Settings((profile(Slow()),), max_binds_in_flight=3))


class HistoryRunner:
    """Feeds a history to an engine and to the bind checker, and checks every guarantee after every event."""

    def __init__(self) -> None:
        self.engine, self.world, self.ledger = engine(), World(), BindChecker()
        self.journal: list[tuple[Event, list[Instruction]]] = []
        self.feed(Synced(kind, 0.0) for kind in self.engine.state.settings.kinds[2:])
        self.feed(self.world.opening())

    def play(self, steps: list[Step]) -> HistoryRunner:
        for step in steps:
            self.feed(self.world.events(step))
        return self

    def feed(self, events: Iterable[Event]) -> None:
        for event in events:
            news = self.ledger.is_news(event)
            before = None if news else fingerprint(self.engine)
            wishes = instructions(self.engine.handle(event))
            assert news or (([], before) == (wishes, fingerprint(self.engine))), f"{event} is no news"
            self.journal.append((event, wishes))
            self.ledger.observe(event)
            self.check(wishes)
            self.world.perform(wishes)

    def check(self, instructions: list[Instruction]) -> None:
        for wish in instructions:
            if isinstance(wish, Bind):
                assert [] == self.ledger.violations(wish)
            elif isinstance(wish, GetPod):
                self.ledger.note_read(wish)
            elif isinstance(wish, Preempt):
                assert self.ledger.pods[wish.uid].priority < self.ledger.pods[wish.preemptor].priority
        assert [] == check_invariants(self.engine.cluster)
        assert [] == lost_pods(self.engine)
        assert [] == check_scheduling(self.engine)
        self.check_placements()
        flying, reserved = (
            self.engine.controller(Scheduling).bindings.by_uid.keys(),
            self.engine.cluster.plugin_state.get("Slow", ()),
        )
        assert set(flying) <= set(reserved)

    def check_placements(self) -> None:
        """Whatever the ledger counts on a node counts there; what counts beyond that is still on its way."""
        scheduling = self.engine.controller(Scheduling)
        counted = {(uid, place.node) for uid, place in self.engine.cluster.placements.items()}
        known = {(pod.uid, name) for name in self.names() for pod in self.ledger.pods_on(name)}
        flying = {(flight.pod.uid, flight.node) for flight in scheduling.bindings.by_uid.values()}
        assert known <= counted <= known | flying

    def names(self) -> set[str]:
        """Every node that any pod was seen on or sent to."""
        return {pod.node for pod in self.ledger.pods.values() if pod.node} | {
            sent.node for sent in self.ledger.sent.values()
        }

    def settle(self) -> HistoryRunner:
        """Failures end, everything is delivered, and two minutes pass."""
        self.feed([LeaseAcquired(99, self.world.at)])
        for _ in range(24):
            self.world.at += 5.0
            self.feed(self.world.quiet())
            self.feed([Tick(self.world.at), Turn(20, self.world.at)])
        self.feed(self.world.quiet())
        return self


def fingerprint(engine: Engine) -> str:
    """All that decisions depend on, as text."""
    scheduling = engine.controller(Scheduling)
    cluster, queue = engine.cluster, scheduling.queue
    amounts = {name: sorted(cells.exact.items()) for name, cells in cluster.node_table.requested.items()}
    return repr(
        (
            cluster.pods,
            cluster.placements,
            cluster.node_table.nodes,
            amounts,
            cluster.plugin_state,
            cluster.load.expected(CPU),
            queue.pods,
            sorted(queue._active),
            sorted(queue._backoff._by_end),
            sorted(queue._backoff._poppable),
            sorted(queue._backoff._just_attempted),
            scheduling.bindings.by_uid,
            scheduling.requeuer.last_reported,
            cluster.pending_nominations,
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
        entry = scheduling.queue.pods.get(uid)
        waits = pod.scheduler_name == OURS and not (pod.node or pod.terminating or pod.phase in ("Succeeded", "Failed"))
        flies = uid in scheduling.bindings.by_uid
        if waits and not flies and (entry is None or entry.state is QueueState.POPPED):
            lost.append(uid)
    return lost
