"""Pods that have a node and are not yet known to be bound: their stages, and what is done when nobody knows.

    reserved ─▶ permit ─▶ pre_bind ─▶ Bind sent ──201──▶ accepted ──watch shows it──▶ (landed)
                  │ Wait: asked again    │                  │ patience over
                  ▼ on answer, change    ├─ unknown, 409 ─▶ asked (Reread) ─▶ bound: landed
               waiting   or deadline     │                  ▲     │           elsewhere or not at all: back to the queue
                                         └─ patience over ──┘     └ no answer, or our own request
                                                                    is still under way: asked again later
                 any refusal: unreserved in reverse order, room given back, pod back to the queue

The room stays assumed in every state above; only the API server's own word, or a refusal of ours, gives it back.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from trimtab.core.cluster.state import Cluster
from trimtab.core.model.change import Change
from trimtab.core.model.instruction import Bind, Instruction, Reread
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import Go, Refuse, Reserve, Wait
from trimtab.core.placing.profile import Profile, plugin_name


class Leg(Enum):
    """How far a flight has come."""

    WAITING = "waiting"
    SENT = "sent"
    ACCEPTED = "accepted"
    ASKED = "asked"


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
    woken_by: int = 0
    answered: bool = False  # whether the shell has said what became of our request


class Refused(Struct, frozen=True):
    """A stage said no; the pod goes back to the queue with this reason."""

    plugin: str
    refuse: Refuse


class Flights:
    """All flights by pod UID. Never two for one pod."""

    def __init__(self, patience: float = 30.0) -> None:
        self.patience = patience
        self.by_uid: dict[str, Flight] = {}

    def __len__(self) -> int:
        return len(self.by_uid)

    def start(self, cluster: Cluster, pod: Pod, node: str, profile: Profile, at: float) -> list[Instruction] | Refused:
        """Reserve, then walk the stages as far as they go."""
        flight = self.by_uid[pod.uid] = Flight(pod, node, profile, at)
        for plugin in profile.reserves:
            name = plugin_name(plugin)
            cluster.memory[name], answer = plugin.reserve(cluster.memory.get(name), pod, node)
            flight.reserved = (*flight.reserved, plugin)
            if isinstance(answer, Refuse):
                return Refused(name, answer)
        return self.walk(cluster, flight, at)

    def walk(self, cluster: Cluster, flight: Flight, at: float) -> list[Instruction] | Refused:
        """Ask the stages that have not said Go yet; at the end the bind itself."""
        asks = [each.permit for each in flight.profile.permits] + [each.pre_bind for each in flight.profile.pre_binds]
        owners = (*flight.profile.permits, *flight.profile.pre_binds)
        while flight.stage < len(asks):
            answer = asks[flight.stage](cluster.view, flight.pod, flight.node)
            if isinstance(answer, Refuse):
                return Refused(plugin_name(owners[flight.stage]), answer)
            if isinstance(answer, Wait):
                return self._wait(flight, answer, plugin_name(owners[flight.stage]), at)
            assert answer is Go.GO
            flight.stage, flight.wait_until = flight.stage + 1, None
        flight.leg, flight.deadline = Leg.SENT, at + self.patience
        return [Bind(flight.pod.uid, flight.pod.namespace, flight.pod.name, flight.node)]

    def _wait(self, flight: Flight, wait: Wait, plugin: str, at: float) -> list[Instruction] | Refused:
        """The deadline runs from the first Wait of a stage, however often it is asked again."""
        first = flight.wait_until is None
        if flight.wait_until is None:
            flight.wait_until = at + wait.seconds
        if at >= flight.wait_until and not first:
            return Refused(plugin, Refuse("timed out waiting", final=False))
        flight.woken_by = int(wait.woken_by)
        return list(wait.instructions) if first else []

    def waiting_for(self, change: Change) -> list[Flight]:
        bits = int(change)
        return [each for each in self.by_uid.values() if each.leg is Leg.WAITING and each.woken_by & bits]

    def due(self, at: float) -> list[Flight]:
        """Stages whose deadline has come."""
        waiting = (each for each in self.by_uid.values() if each.leg is Leg.WAITING)
        return [each for each in waiting if each.wait_until is not None and each.wait_until <= at]

    def overdue(self, at: float) -> list[Instruction]:
        """Binds of which nothing was heard, or whose pod was not seen bound: ask the API server."""
        late = [each for each in self.by_uid.values() if each.leg is not Leg.WAITING and each.deadline <= at]
        return [self.ask(flight, at) for flight in late]

    def ask(self, flight: Flight, at: float) -> Instruction:
        flight.leg, flight.deadline = Leg.ASKED, at + self.patience
        return Reread(flight.pod.uid, flight.pod.namespace, flight.pod.name)

    def accepted(self, flight: Flight, at: float) -> None:
        flight.leg, flight.deadline, flight.answered = Leg.ACCEPTED, at + self.patience, True

    def end(self, cluster: Cluster, uid: str, *, landed: bool) -> Flight | None:
        """Take the flight out; one that did not land gives back what was reserved, last first."""
        flight = self.by_uid.pop(uid, None)
        if flight is not None and not landed:
            for plugin in reversed(flight.reserved):
                name = plugin_name(plugin)
                cluster.memory[name] = plugin.unreserve(cluster.memory.get(name), flight.pod, flight.node)
        return flight
