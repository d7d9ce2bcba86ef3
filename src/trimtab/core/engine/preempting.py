"""Makes room for a pod that no node will have: promises it a node and has others deleted; whom, the plugins say.

    stuck ──room found──▶ promised ──every victim seen leaving──▶ waits until they are gone ──▶ placed like any other pod
      ▲                      │                                                                    (or stuck again)
      └──a delete failed: the promise is taken back

A promise counts from the moment it is made: pods of lower or equal priority leave that room alone. While victims are not
seen leaving the pod makes no second attempt, but not longer than `PATIENCE`, for answers can be lost. Afterwards the
plugins themselves see victims that are on their way out. A victim that only waits in its stages is turned back, not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from trimtab.core.engine.inflight import Leg
from trimtab.core.model.change import Change
from trimtab.core.model.event import PreemptDone, PreemptFailed
from trimtab.core.model.instruction import Instruction, Nominate, Preempt, Tell
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Unplaceable
from trimtab.core.placing.charged import PASSES
from trimtab.core.placing.choose import charges, promised_room
from trimtab.core.placing.contract import Ints, Refuse, Room, Stuck
from trimtab.core.placing.profile import Profile

if TYPE_CHECKING:
    from trimtab.core.engine.place import Placing

PATIENCE = 60.0
FORBIDDEN_FOR = 300.0
WAITING = "waiting for the preemption for this pod to be finished"
FORBIDDEN = "deleting pods is forbidden; deploy/rbac-preemption.yaml allows it"


class Attempt(NamedTuple):
    """What came of it: the verdict, perhaps with more words, what is wished for, and what was freed at once."""

    verdict: Unplaceable
    wishes: Sequence[Instruction] = ()
    freed: Change = Change.NOTHING


class Preempting:
    """What was asked for and has not been seen yet."""

    def __init__(self) -> None:
        self.leaving: dict[str, dict[str, float]] = {}  # by preemptor: victims not seen leaving, and since when
        self.preemptor: dict[str, str] = {}  # the same by victim
        self.events: dict[str, Tell] = {}  # by victim: what will be told of it once its deletion has begun
        self.forbidden_until = 0.0

    def copy(self) -> Preempting:
        twin = Preempting()
        twin.leaving = {uid: victims.copy() for uid, victims in self.leaving.items()}
        twin.preemptor, twin.events = self.preemptor.copy(), self.events.copy()
        twin.forbidden_until = self.forbidden_until
        return twin

    def make_room(self, placing: Placing, pod: Pod, profile: Profile, verdict: Unplaceable, at: float) -> Attempt:
        """Ask the plugins for a way out; the verdict comes back with their words when there is none."""
        if not profile.post_filters:
            return Attempt(verdict)
        words = self._hindrance(pod, at)
        if words:
            return Attempt(_with(verdict, words))
        stuck = stuck_of(placing, pod, profile)
        told: list[Refuse] = []
        for plugin in profile.post_filters:
            answer = plugin.post_filter(placing.cluster.view, pod, stuck)
            placing.tally.preempting(len(answer.victims) if isinstance(answer, Room) else 0)
            if isinstance(answer, Room):
                return self._promise(placing, pod, answer, verdict, at)
            told.append(answer)
        void = pod.nominated and all(each.final for each in told)
        return Attempt(_with(verdict, told[0].reason), take_back(placing, [pod], at) if void else [])

    def _hindrance(self, pod: Pod, at: float) -> str:
        since = self.leaving.get(pod.uid, {}).values()
        if any(at - each < PATIENCE for each in since):
            return WAITING
        self._forget(pod.uid)
        return FORBIDDEN if at < self.forbidden_until else ""

    def _promise(self, placing: Placing, pod: Pod, room: Room, verdict: Unplaceable, at: float) -> Attempt:
        cluster, freed = placing.cluster, Change.NOTHING
        lesser = [each for each in cluster.nominated.values() if _yields(each, pod, room.node)]
        wishes: list[Instruction] = [Nominate(pod.uid, pod.namespace, pod.name, room.node)]
        placing.wake(cluster.nominate(pod.uid, room.node), at)
        wishes += take_back(placing, lesser, at)
        note = f"room is made on node {room.node}: {len(room.victims)} pod(s) of lower priority have to leave"
        wishes.append(_told(pod, "Preempting", note, pod.scheduler))
        for victim in room.victims:
            flight = placing.flights.by_uid.get(victim.uid)
            if flight is not None and flight.leg is Leg.WAITING:
                freed |= placing.drop(victim.uid, at)
                wishes += placing.complain(flight.pod, f"preempted by pod {pod.uid} on node {room.node}")
            elif not victim.deleting and victim.uid not in self.preemptor:
                wishes.append(self._expel(victim, pod, at))
        return Attempt(verdict, wishes, freed)

    def _expel(self, victim: Pod, pod: Pod, at: float) -> Instruction:
        self.leaving.setdefault(pod.uid, {})[victim.uid] = at
        self.preemptor[victim.uid] = pod.uid
        note = f"Preempted by pod {pod.uid} on node {victim.node}"
        self.events[victim.uid] = _told(victim, "Preempted", note, pod.scheduler)
        return Preempt(victim.uid, victim.namespace, victim.name, pod.uid, pod.scheduler)

    def settled(self, uid: str, *, leaving: bool) -> None:
        """A pod has its node, or is on its way out: it preempts nobody now, and in the latter case is no pending victim."""
        self._forget(uid)
        if leaving:
            self._left(uid)

    def disown(self) -> None:
        """Somebody else makes room from now on: answers that still come change nothing."""
        self.leaving, self.preemptor = {}, {}

    def _left(self, victim: str) -> None:
        preemptor = self.preemptor.pop(victim, None)
        if preemptor is not None:
            del self.leaving[preemptor][victim]
            if not self.leaving[preemptor]:
                del self.leaving[preemptor]

    def _forget(self, preemptor: str) -> None:
        for victim in self.leaving.pop(preemptor, ()):
            del self.preemptor[victim]

    def answered(self, placing: Placing, event: PreemptDone | PreemptFailed) -> list[Instruction]:
        """What became of a victim is told: of itself, or of the pod that has to do without its room."""
        told = self.events.pop(event.uid, None)
        if isinstance(event, PreemptFailed):
            return self._failed(placing, event, told)
        return [told] if told is not None else []

    def _failed(self, placing: Placing, event: PreemptFailed, told: Tell | None) -> list[Instruction]:
        """The promise cannot be kept: let the pod try again, but not soon if it is for want of a permission."""
        if event.forbidden:
            self.forbidden_until = event.at + FORBIDDEN_FOR
        if self.preemptor.get(event.uid) != event.preemptor:  # seen leaving all the same, or no longer waited for
            return []
        self._left(event.uid)
        pod = placing.cluster.pods.get(event.preemptor)
        if pod is None or pod.uid not in placing.queue.waiting:
            return []
        victim = f"{told.namespace}/{told.name}" if told is not None else event.uid
        note = f"preemption: {victim} was not deleted: {event.message or FORBIDDEN}"
        words = Tell(pod.uid, pod.namespace, pod.name, "FailedScheduling", note, warning=True, scheduler=pod.scheduler)
        back = take_back(placing, [pod], event.at, wake=not event.forbidden) if pod.nominated else []
        return [words, *back]


def stuck_of(placing: Placing, pod: Pod, profile: Profile) -> Stuck:
    """What the filters said of each row, as they were just asked."""
    view = placing.cluster.view
    promised = promised_room(view, pod, placing.promised())
    answers = placing.templates.answers(view, pod, profile)
    if answers.refused is not None:
        code = -1 if answers.refused[1].final else 1
        return Stuck(profile.filters, np.full(view.count, code, dtype=np.int64), promised)
    found = charges(view, pod, answers, promised)
    codes: Ints = np.where(found.outside, -1, np.where(found.by == PASSES, 0, found.codes))
    return Stuck(tuple(profile.filters[index] for index in sorted(answers.codes)), codes, promised)


def take_back(placing: Placing, pods: Iterable[Pod], at: float, *, wake: bool = True) -> list[Instruction]:
    """These pods are promised nothing any more; each may look for another node at once."""
    wishes: list[Instruction] = []
    for pod in pods:
        placing.wake(placing.cluster.nominate(pod.uid, ""), at)
        wishes.append(Nominate(pod.uid, pod.namespace, pod.name, ""))
        if wake:
            placing.queue.wake_one(pod.uid, at)
    return wishes


def _told(pod: Pod, reason: str, note: str, scheduler: str) -> Tell:
    return Tell(pod.uid, pod.namespace, pod.name, reason, note, action="Preempting", scheduler=scheduler)


def _yields(other: Pod, pod: Pod, node: str) -> bool:
    return other.nominated == node and other.priority < pod.priority and other.uid != pod.uid


def _with(verdict: Unplaceable, words: str) -> Unplaceable:
    return replace(verdict, remedy=f"preemption: {words}") if words else verdict
