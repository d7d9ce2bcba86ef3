"""What became of our own wishes (binds, read-backs, deletions, promises of stages), and what follows for the pod.

Facts about the world come in through `engine`; here are only the answers to what it asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trimtab.core.engine.inflight import UNDER_WAY, Flight, Leg
from trimtab.core.engine.place import ERROR
from trimtab.core.model.event import (
    BindDone,
    BindFailed,
    Fault,
    PodSeen,
    PreemptDone,
    PreemptFailed,
    RereadDone,
    RereadFailed,
    StageAnswered,
)
from trimtab.core.model.instruction import Instruction

if TYPE_CHECKING:
    from trimtab.core.engine.engine import Engine

LOST = frozenset({Fault.UNKNOWN, Fault.CONFLICT})


def bind_done(engine: Engine, event: BindDone) -> list[Instruction]:
    flight = engine.placing.flights.by_uid.get(event.uid)
    if flight is None or flight.leg not in UNDER_WAY:
        return []
    engine.placing.flights.accepted(flight, event.at)
    return engine.landed(flight, engine.placing.queue.forget(event.uid, event.at), event.at)


def bind_failed(engine: Engine, event: BindFailed) -> list[Instruction]:
    flight = engine.placing.flights.by_uid.get(event.uid)
    if flight is None or flight.leg is not Leg.SENT:
        return []
    engine.tally.bind_failed(flight.profile.name, event.fault.value, event.at - flight.begun)
    if event.fault in LOST:
        return engine.placing.flights.lost(flight, event.at, certain=event.fault is Fault.CONFLICT)
    if event.fault is Fault.GONE:
        return engine.bury(event.uid, event.at)
    return _back_to_queue(engine, flight, event.message if event.fault is Fault.REFUSED else "", event.at)


def reread_done(engine: Engine, event: RereadDone) -> list[Instruction]:
    engine.placing.flights.reading.discard(event.uid)
    if event.pod is None:
        return engine.bury(event.uid, event.at) if event.uid in engine.placing.cluster.pods else []
    wishes = engine.handle(PodSeen(event.pod, event.at))
    flight = engine.placing.flights.by_uid.get(event.uid)
    if flight is None or flight.leg is not Leg.LOST:  # our request may still arrive, or was accepted since
        return wishes
    if not flight.telling:
        return wishes + engine.placing.flights.unbound(flight, event.at)
    return wishes + _back_to_queue(engine, flight, "", event.at)


def reread_failed(engine: Engine, event: RereadFailed) -> list[Instruction]:
    """Still nobody knows: the room stays assumed, and a later tick asks again."""
    engine.placing.flights.reading.discard(event.uid)
    return []


def victim_answered(engine: Engine, event: PreemptDone | PreemptFailed) -> list[Instruction]:
    return engine.placing.preempting.answered(engine.placing, event)


def stage_answered(engine: Engine, event: StageAnswered) -> list[Instruction]:
    flight = engine.placing.flights.by_uid.get(event.uid)
    return engine.walk_on(flight, event.at, event.problem) if flight is not None else []


DOORS: Mapping[type, Callable[[Engine, Any], list[Instruction]]] = {
    BindDone: bind_done,
    BindFailed: bind_failed,
    RereadDone: reread_done,
    RereadFailed: reread_failed,
    PreemptDone: victim_answered,
    PreemptFailed: victim_answered,
    StageAnswered: stage_answered,
}


def _back_to_queue(engine: Engine, flight: Flight, complaint: str, at: float) -> list[Instruction]:
    """The bind did not happen: room is given back, others may want it, and the pod tries again later."""
    change = engine.placing.drop(flight.pod.uid, at)
    told = engine.placing.complain(flight.pod, f"binding rejected: {complaint}", ERROR) if complaint else []
    return told + engine.changed(change, at)
