"""`Engine.handle(event) -> list[Instruction]`: takes facts in at once, decides only in turns; holds the order of things.

A turn decides only after every watch is `Synced`, while this process is `Leading`, and while fewer binds are under way
than the cap. Everything else (what fits, who waits, what became of our wishes) is decided by the parts it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from typing import Any

from trimtab.core.engine import measuring, outcomes
from trimtab.core.engine.inflight import UNDER_WAY, Flight, Leg
from trimtab.core.engine.labelling import marking
from trimtab.core.engine.place import Placing
from trimtab.core.engine.settings import Settings
from trimtab.core.engine.tally import Tally
from trimtab.core.engine.waiting.claimants import Pods
from trimtab.core.engine.waiting.queue import Waiting
from trimtab.core.model.change import Change
from trimtab.core.model.event import (
    Event,
    Following,
    Leading,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    SettingsRead,
    Synced,
    Tick,
    Turn,
)
from trimtab.core.model.instruction import Instruction, Tell
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod

_DOORS = {**outcomes.DOORS, **measuring.DOORS, **marking.DOORS}


class Engine:
    """The core's one door. Synchronous, without clock or chance: the same events give the same instructions."""

    def __init__(self, settings: Settings, tally: Tally | None = None) -> None:
        self.tally = tally if tally is not None else Tally()
        self.placing = Placing(settings, self.tally)
        self.unsynced = set(settings.kinds)
        self.term: int | None = None
        self.placing.adopt(settings)
        self.marking = marking.adopted(None, settings.labels, 0.0)
        self._doors: dict[type, Callable[[Any], list[Instruction]]] = {
            PodSeen: self._pod_seen,
            PodGone: self._pod_gone,
            NodeSeen: self._node_seen,
            NodeGone: self._node_gone,
            ObjectSeen: self._object_seen,
            ObjectGone: self._object_gone,
            Synced: self._synced,
            Leading: self._leading,
            Following: self._following,
            Turn: self._turn,
            Tick: self._tick,
            SettingsRead: self._settings_read,
            **{kind: partial(door, self) for kind, door in _DOORS.items()},
        }

    def handle(self, event: Event) -> list[Instruction]:
        return self._doors[type(event)](event)

    @property
    def may_decide(self) -> bool:
        return not self.unsynced and self.term is not None

    def has_work(self) -> bool:
        """Whether a turn would decide anything now."""
        return self.may_decide and self._has_room() and self.placing.queue.has_ready()

    def _has_room(self) -> bool:
        """Pods that wait in their stages do not count: a gang larger than the cap could never come together."""
        flights, most = self.placing.flights, self.placing.settings.binds_in_flight
        return len(flights) < most or len(flights) - len(flights.waiting()) < most

    def fork(self) -> Engine:
        """A twin that decides on as this one would: nothing done to it is seen here, and it counts nothing."""
        twin = Engine(self.placing.settings)
        twin.placing, twin.unsynced, twin.term = self.placing.fork(), self.unsynced.copy(), self.term
        twin.marking = self.marking.copy() if self.marking is not None else None
        return twin

    # --- turns

    def _turn(self, turn: Turn) -> list[Instruction]:
        wishes: list[Instruction] = []
        self.placing.queue.tick(turn.at)
        self.placing.cluster.age(turn.at)
        for _ in range(turn.decisions):
            if not self.may_decide or not self._has_room():
                break
            decided = self.placing.place_next(turn.at)
            if decided is None:
                break
            wishes += decided
        return wishes

    def _tick(self, tick: Tick) -> list[Instruction]:
        self.placing.queue.tick(tick.at)
        self.placing.cluster.age(tick.at)
        wishes: list[Instruction] = []
        for flight in self.placing.flights.due(tick.at):
            wishes += self.walk_on(flight, tick.at)
        if self.marking is not None:
            wishes += self.marking.tick(self.placing.cluster, self.may_decide, self.tally, tick.at)
        if self.may_decide:
            wishes += self.placing.flights.overdue(tick.at) + self.placing.gangs.overdue(self.placing, tick.at)
        return wishes

    # --- facts about pods

    def _pod_seen(self, event: PodSeen) -> list[Instruction]:
        if not self.placing.cluster.is_news(event.pod):
            return []
        pod = self.placing.cluster.as_promised(event.pod)
        before = self.placing.cluster.pods.get(pod.uid)
        change = self.placing.cluster.see_pod(pod) | self.placing.observers.moved(self.placing.cluster, before, pod)
        self.placing.complaints.pop(pod.uid, None)
        self.placing.gangs.seen(self.placing, before, pod, event.at)
        self.placing.claimants.seen(pod, waits=not (pod.node or pod.finished or pod.deleting))
        if pod.node or pod.finished or pod.deleting:
            freed, told = self._settle(pod, event.at)
            return told + self.changed(change | freed, event.at)
        self.placing.admit(pod, before, event.at)
        flight = self.placing.flights.by_uid.get(pod.uid)
        if flight is not None and flight.woken_by & Change.SELF:
            flight.pod = pod
            return self.walk_on(flight, event.at) + self.changed(change, event.at)
        return self.changed(change, event.at)

    def _settle(self, pod: Pod, at: float) -> tuple[Change, list[Instruction]]:
        """The pod has a node, has ended, or is on its way out: it waits no longer. What it frees, and what is told."""
        waiting = self.placing.queue.forget(pod.uid, at)
        self.placing.preempting.settled(pod.uid, leaving=pod.deleting or pod.finished)
        flight = self.placing.flights.by_uid.get(pod.uid)
        if flight is None:
            return Change.NOTHING, []
        if not (pod.node or pod.finished) and flight.leg is not Leg.WAITING:
            return Change.NOTHING, []  # what was sent may still arrive; what was not, never will
        if pod.node != flight.node:
            return self.placing.drop(pod.uid, at), []
        self.placing.flights.end(self.placing.cluster, pod.uid, landed=True)
        told = self.landed(flight, waiting, at) if flight.leg in UNDER_WAY else []
        if self.placing.cluster.view.row(pod.node) is None:
            note = f"bound to node {pod.node}, which no longer exists"
            self.tally.orphaned()
            told.append(Tell(pod.uid, pod.namespace, pod.name, "NodeGone", note, warning=True, scheduler=pod.scheduler))
        return Change.NOTHING, told

    def landed(self, flight: Flight, waiting: Waiting | None, at: float) -> list[Instruction]:
        """Said once for each flight, on whichever comes first: the answer to our bind, or the watch."""
        pod = flight.pod
        if waiting is not None:
            self.tally.bound(flight.profile.name, waiting.attempts, at - waiting.tried, at - flight.begun)
        note = f"Successfully assigned {pod.key} to {flight.node}"
        return [Tell(pod.uid, pod.namespace, pod.name, "Scheduled", note, action="Binding", scheduler=pod.scheduler)]

    def _pod_gone(self, event: PodGone) -> list[Instruction]:
        held = self.placing.cluster.pods.get(event.uid)
        if held is None and event.uid in self.placing.cluster.buried:
            return []
        if held is not None and 0 < event.version < held.version:
            return []
        return self.bury(event.uid, event.at)

    def bury(self, uid: str, at: float) -> list[Instruction]:
        self.placing.queue.forget(uid, at)
        self.placing.complaints.pop(uid, None)
        self.placing.preempting.settled(uid, leaving=True)
        before = self.placing.cluster.pods.get(uid)
        change = self.placing.drop(uid, at) | self.placing.cluster.lose_pod(uid)
        change |= self.placing.observers.moved(self.placing.cluster, before, None)
        self.placing.gangs.seen(self.placing, before, None, at)
        if before is not None:
            self.placing.claimants.seen(before, waits=False)
        return self.changed(change, at)

    # --- facts about nodes, other objects and ourselves

    def _node_seen(self, event: NodeSeen) -> list[Instruction]:
        return self.changed(self.placing.cluster.see_node(event.node), event.at)

    def _node_gone(self, event: NodeGone) -> list[Instruction]:
        change = self.placing.cluster.lose_node(event.name, event.uid, event.version)
        for pod in self.placing.cluster.nominated.values() if change else ():
            if pod.nominated == event.name:  # what was promised there can no longer be had
                self.placing.queue.wake_one(pod.uid, event.at)
        wishes: list[Instruction] = []
        for flight in self.placing.flights.waiting() if change else ():
            if flight.node == event.name:
                wishes += self.walk_on(flight, event.at, f"node {event.name} no longer exists")
        return wishes + self.changed(change, event.at)

    def _object_seen(self, event: ObjectSeen) -> list[Instruction]:
        cluster, seen = self.placing.cluster, event.object
        before = cluster.objects.held(seen.kind, seen.key)
        return self._object_changed(cluster.see_object(seen), before, seen, event.at)

    def _object_gone(self, event: ObjectGone) -> list[Instruction]:
        cluster = self.placing.cluster
        before = cluster.objects.held(event.kind, event.key)
        change = cluster.lose_object(event.kind, event.key, event.uid, event.version)
        return self._object_changed(change, before, None, event.at)

    def _object_changed(
        self, change: Change, before: Object | None, after: Object | None, at: float
    ) -> list[Instruction]:
        some = after or before
        if change & Change.GROUPS and some is not None:
            self.placing.gangs.changed(self.placing, some.key, at)
        if not change & Change.STORAGE:
            return self.changed(change, at)
        return self.changed(change, at, self.placing.claimants.helped_by(self.placing.cluster, before, after))

    def _synced(self, event: Synced) -> list[Instruction]:
        self.unsynced.discard(event.kind)
        return []

    def _leading(self, event: Leading) -> list[Instruction]:
        self.term = event.term
        return []

    def _following(self, event: Following) -> list[Instruction]:
        """Somebody else may decide on the pods in our stages; those whose bind was sent are still ours to follow up."""
        self.term = None
        self.placing.preempting.disown()
        changes = [self.placing.drop(flight.pod.uid, event.at) for flight in self.placing.flights.waiting()]
        return self.changed(reduce(or_, changes, self.placing.cluster.disown()), event.at)

    def _settings_read(self, event: SettingsRead) -> list[Instruction]:
        self.unsynced |= set(event.settings.kinds) - set(self.placing.settings.kinds)
        self.placing.adopt(event.settings)
        self.marking = marking.adopted(self.marking, event.settings.labels, event.at)
        for pod in self.placing.cluster.pods.values():
            if not (pod.node or pod.finished or pod.deleting):
                self.placing.admit(pod, None, event.at)
        self.placing.queue.wake_all(event.at)
        return []

    # --- stages

    def walk_on(self, flight: Flight, at: float, problem: str = "") -> list[Instruction]:
        """Ask the stages again, unless something before has ended the flight or sent it on its way."""
        flights = self.placing.flights.by_uid
        if flight.leg is not Leg.WAITING or flights.get(flight.pod.uid) is not flight:
            return []
        wishes = self.placing.resume(flight, at, problem)
        return wishes if flight.pod.uid in flights else wishes + self.changed(Change.POD_LEFT | Change.MEMORY, at)

    def changed(self, change: Change, at: float, pods: Pods = None) -> list[Instruction]:
        """Something changed: stir whoever waits for it (of these, if any are named), in the queue and in the stages."""
        if not change:
            return []
        for _ in self.placing.wake(change, at, pods):
            self.tally.queued("active", "ClusterEvent")
        wishes: list[Instruction] = []
        for flight in self.placing.flights.waiting_for(change, pods):
            wishes += self.walk_on(flight, at)
        return wishes
