"""Pods that have a node and are not yet known to be bound: their stages, and what is done when nobody knows.

    reserved ─▶ permit ─▶ pre_bind ─▶ sent ──201──▶ accepted ──────────────────────────▶ (landed)
                  │ Wait: asked again   │                    seen or read on our node ──▶ (landed)
                  ▼ on answer, change   └─ unknown, 409 ─▶ lost ── on another ──────────▶ (ended)
               waiting   or deadline                         └──── on none, surely ─▶ back to the queue

    any refusal, also of a node that no longer fits after a wait: unreserved in reverse order, room given back,
    pod back to the queue

The room stays assumed in every state above; only the API server's own word, or a refusal of ours, gives it back.
A lost bind is read back at once (`Reread`), and so is every bind of which nothing was heard for `patience` seconds.
The shell answers each read once, if only by saying that it failed, so no pod is read twice at a time. When may a pod
that was read without a node go back to the queue? After a 409 at once, if the read was asked for after it. After an
unknown outcome only when a second read, asked for `DOUBT` seconds after the first was answered, says the same: a request
whose connection broke may still be on its way through a server that had been stuck, and arrive just after the first.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.cluster.state import Cluster
from trimtab.core.engine.tally import Tally
from trimtab.core.engine.waiting.claimants import Pods
from trimtab.core.model.change import Change
from trimtab.core.model.instruction import Bind, Instruction, Reread, Tell
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import Go, Refuse, Reserve, Wait, Warn
from trimtab.core.placing.profile import Profile, plugin_name

DOUBT = 5.0


class Leg(Enum):
    """How far a flight has come."""

    WAITING = "waiting"
    SENT = "sent"
    LOST = "lost"
    ACCEPTED = "accepted"


UNDER_WAY = frozenset({Leg.SENT, Leg.LOST})


class Flight(Struct):
    """One pod on its way to a node; `stage` counts the permits and pre-binds that have said Go."""

    pod: Pod
    node: str
    profile: Profile
    begun: float = 0.0
    leg: Leg = Leg.WAITING
    stage: int = 0
    reserved: tuple[Reserve, ...] = ()
    deadline: float = 0.0
    wait_until: float | None = None
    waited: bool = False
    woken_by: int = 0
    certain: bool = False  # whether the server itself said that our request did not do it
    unbound_at: float | None = None  # when a lost pod was first read without a node
    telling: bool = False  # whether the read was asked for late enough to tell that the bind did not happen


class Refused(Struct, frozen=True):
    """A stage said no; the pod goes back to the queue with this reason."""

    plugin: str
    refuse: Refuse


class Flights:
    """All flights by pod UID. Never two for one pod."""

    def __init__(self, patience: float = 30.0) -> None:
        self.patience = patience
        self.tally = Tally()
        self.by_uid: dict[str, Flight] = {}
        self.reading: set[str] = set()

    def __len__(self) -> int:
        return len(self.by_uid)

    def start(self, cluster: Cluster, pod: Pod, node: str, profile: Profile, at: float) -> list[Instruction] | Refused:
        """Reserve, then walk the stages as far as they go."""
        refused = self.reserve(cluster, pod, node, profile, at)
        return self.walk(cluster, self.by_uid[pod.uid], at) if refused is None else refused

    def reserve(self, cluster: Cluster, pod: Pod, node: str, profile: Profile, at: float) -> Refused | None:
        """The first step alone, for pods that are to start together."""
        flight = self.by_uid[pod.uid] = Flight(pod, node, profile, at)
        for plugin in profile.reserves:
            name = plugin_name(plugin)
            memory, answer = plugin.reserve(cluster.view, cluster.memory.get(name), pod, node)
            cluster.remember(name, memory)
            flight.reserved = (*flight.reserved, plugin)
            if isinstance(answer, Refuse):
                return Refused(name, answer)
        return None

    def walk(self, cluster: Cluster, flight: Flight, at: float, problem: str = "") -> list[Instruction] | Refused:
        """Ask the stages that have not said Go yet, at the end the bind itself; a problem counts as the stage's no."""
        asks = [each.permit for each in flight.profile.permits] + [each.pre_bind for each in flight.profile.pre_binds]
        owners = (*flight.profile.permits, *flight.profile.pre_binds)
        if problem:
            return Refused(plugin_name(owners[flight.stage]), Refuse(problem, final=False))
        told: list[Instruction] = []
        while flight.stage < len(asks):
            answer = asks[flight.stage](cluster.view, flight.pod, flight.node)
            if isinstance(answer, Refuse):
                return Refused(plugin_name(owners[flight.stage]), answer)
            if isinstance(answer, Wait):
                waited = self._wait(flight, answer, plugin_name(owners[flight.stage]), at)
                return waited if isinstance(waited, Refused) else [*told, *waited]
            if isinstance(answer, Warn):
                told.append(_warning(flight.pod, answer))
            else:
                assert answer is Go.GO
            flight.stage, flight.wait_until = flight.stage + 1, None
        misfit = _misfit(cluster, flight) if flight.waited else None
        if misfit is not None:
            return misfit
        flight.leg, flight.deadline = Leg.SENT, at + self.patience
        return [*told, Bind(flight.pod.uid, flight.pod.namespace, flight.pod.name, flight.node)]

    def _wait(self, flight: Flight, wait: Wait, plugin: str, at: float) -> list[Instruction] | Refused:
        """The deadline runs from the first Wait of a stage, however often it is asked again."""
        first = flight.wait_until is None
        flight.waited = True
        if flight.wait_until is None:
            flight.wait_until = at + wait.seconds
        if at >= flight.wait_until and not first:
            return Refused(plugin, Refuse("timed out waiting", final=False))
        flight.woken_by = int(wait.woken_by)
        return list(wait.instructions) if first else []

    def waiting(self) -> list[Flight]:
        """Pods in their stages: nothing was sent for them yet."""
        return [each for each in self.by_uid.values() if each.leg is Leg.WAITING]

    def waiting_for(self, change: Change, pods: Pods = None) -> list[Flight]:
        """Those of these pods, or of all, whom the change may send on."""
        some = self.waiting() if pods is None else [each for each in map(self.by_uid.get, sorted(pods)) if each]
        return [each for each in some if each.leg is Leg.WAITING and each.woken_by & int(change)]

    def due(self, at: float) -> list[Flight]:
        """Stages whose deadline has come."""
        return [each for each in self.waiting() if each.wait_until is not None and each.wait_until <= at]

    def overdue(self, at: float) -> list[Instruction]:
        """Binds of which nothing was heard, or whose pod was not seen bound: ask the API server."""
        late = [each for each in self.by_uid.values() if each.leg is not Leg.WAITING and each.deadline <= at]
        return [self.ask(flight, at) for flight in late if flight.pod.uid not in self.reading]

    def ask(self, flight: Flight, at: float) -> Instruction:
        self.reading.add(flight.pod.uid)
        seen = flight.unbound_at is not None and at >= flight.unbound_at + DOUBT
        flight.telling, flight.deadline = flight.leg is Leg.LOST and (flight.certain or seen), at + self.patience
        return Reread(flight.pod.uid, flight.pod.namespace, flight.pod.name)

    def lost(self, flight: Flight, at: float, *, certain: bool) -> list[Instruction]:
        """Nobody knows what became of our pod; a read that is under way already is too old to tell."""
        flight.leg, flight.certain = Leg.LOST, certain
        return [] if flight.pod.uid in self.reading else [self.ask(flight, at)]

    def unbound(self, flight: Flight, at: float) -> list[Instruction]:
        """A lost pod was read without a node, by a read that cannot tell: look again, now or when doubt has passed."""
        if flight.certain:
            return [self.ask(flight, at)]
        if flight.unbound_at is None:
            flight.unbound_at = at
        flight.deadline = flight.unbound_at + DOUBT
        return []

    def accepted(self, flight: Flight, at: float) -> None:
        flight.leg, flight.deadline = Leg.ACCEPTED, at + self.patience

    def end(self, cluster: Cluster, uid: str, *, landed: bool) -> Flight | None:
        """Take the flight out; one that did not land gives back what was reserved, last first."""
        flight = self.by_uid.pop(uid, None)
        if flight is not None and not landed:
            for plugin in reversed(flight.reserved):
                self._unreserve(cluster, plugin, flight)
        return flight

    def _unreserve(self, cluster: Cluster, plugin: Reserve, flight: Flight) -> None:
        name = plugin_name(plugin)
        try:
            cluster.remember(name, plugin.unreserve(cluster.memory.get(name), flight.pod, flight.node))
        except Exception as error:  # the room and the others' reservations must be given back all the same
            self.tally.faulted(repr(error))

    def copy(self) -> Flights:
        twin = Flights(self.patience)
        twin.by_uid = {uid: replace(flight) for uid, flight in self.by_uid.items()}
        twin.reading = self.reading.copy()
        return twin


def _warning(pod: Pod, warn: Warn) -> Tell:
    return Tell(pod.uid, pod.namespace, pod.name, warn.reason, warn.note, warning=True, scheduler=pod.scheduler)


def _misfit(cluster: Cluster, flight: Flight) -> Refused | None:
    """While the pod waited its node may have gone, shrunk or been filled; the API server would bind it all the same."""
    row = cluster.view.row(flight.node)
    if row is None:
        return Refused("Bind", Refuse(f"node {flight.node} no longer exists"))
    without = cluster.view.with_pods({}, {flight.node: [cluster.places[flight.pod.uid].pod]})
    for plugin in flight.profile.filters:
        code = int(plugin.filter(without, flight.pod, np.array([row], dtype=np.intp))[0])
        if code:
            return Refused(plugin_name(plugin), Refuse(", ".join(plugin.reasons(without, flight.pod, code))))
    return None
