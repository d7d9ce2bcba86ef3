"""One decision: take the next pod, choose, assume the room, start the flight; or say why not and park it.

A plugin that raises is caught here (and where reservations are undone): its pod is put back, the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.core.cluster.state import Cluster
from trimtab.core.engine.decisions import Decision, Decisions
from trimtab.core.engine.gang import Gangs
from trimtab.core.engine.inflight import Flight, Flights, Refused
from trimtab.core.engine.memory import Observers
from trimtab.core.engine.preempting import Attempt, Preempting
from trimtab.core.engine.settings import Settings
from trimtab.core.engine.tally import Tally
from trimtab.core.engine.waiting import hints
from trimtab.core.engine.waiting.claimants import Claimants, Pods
from trimtab.core.engine.waiting.parked import Key
from trimtab.core.engine.waiting.queue import Part, Queue, Waiting
from trimtab.core.model.change import Change
from trimtab.core.model.instruction import Instruction, MarkUnscheduled, Tell
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Placement, Unplaceable
from trimtab.core.placing import nowhere, unmodelled
from trimtab.core.placing.choose import choose
from trimtab.core.placing.contract import Gang
from trimtab.core.placing.laps import Laps
from trimtab.core.placing.profile import Profile
from trimtab.core.placing.templates import Templates

UNSCHEDULABLE = "Unschedulable"  # the cluster autoscaler adds nodes for this reason
ERROR = "SchedulerError"  # and not for this one
UNREADABLE, UNMODELLED = ("Unreadable",), ("Unmodelled",)
UNJUDGED = (UNREADABLE, UNMODELLED)  # no plugin was asked, so none can make room


@dataclass(slots=True)
class Placing:
    """All that decisions are made of; owned by the engine."""

    settings: Settings
    tally: Tally
    cluster: Cluster = field(default_factory=Cluster)
    queue: Queue = field(default_factory=Queue)
    flights: Flights = field(default_factory=Flights)
    templates: Templates = field(default_factory=Templates)
    decisions: Decisions = field(default_factory=Decisions)
    complaints: dict[str, tuple[str, str]] = field(default_factory=dict)  # told since the pod was last seen
    log_reader: hints.LogReader = field(default_factory=hints.LogReader)
    preempting: Preempting = field(default_factory=Preempting)
    gangs: Gangs = field(default_factory=Gangs)
    claimants: Claimants = field(default_factory=Claimants)
    observers: Observers = field(init=False)

    def __post_init__(self) -> None:
        self.observers = Observers(self.tally)
        self.flights.tally = self.tally

    def adopt(self, settings: Settings) -> None:
        self.settings = settings
        self.cluster.load.settings = settings.load
        self.observers.adopt(settings.profiles, self.cluster)
        self.gangs.adopt(settings.profiles, self.cluster)
        self.templates.clear()
        self.flights.patience = settings.bind_patience
        self.queue.initial, self.queue.longest = settings.initial_backoff, settings.max_backoff
        self.queue.patience = settings.longest_wait

    def admit(self, pod: Pod, before: Pod | None, at: float) -> None:
        """Let the queue know of a pod that waits for a node."""
        profile = self.settings.profile_of(pod.scheduler)
        if profile is None:
            self.queue.forget(pod.uid, at)
        elif pod.uid not in self.flights.by_uid:
            self._enqueue(pod, before, profile, at)

    def _enqueue(self, pod: Pod, before: Pod | None, profile: Profile, at: float) -> None:
        waiting = self.queue.waiting.get(pod.uid)
        since = waiting.since if waiting is not None else at
        try:
            key = self.key_of(pod, profile, since)
            gated = any(gate.gate(pod) for gate in profile.gates)
        except Exception as error:  # what a gate thinks is not guessed: the pod is held until it is edited
            key, gated = (since,), True
            self.tally.faulted(repr(error))
        if gated:
            self.queue.hold(pod.uid, key, at)
            self.tally.queued("gated", "PodAdd" if before is None else "PodUpdate")
        elif waiting is None or waiting.part is Part.GATED:
            self.queue.admit(pod.uid, key, at)
            self.tally.queued("active", "PodAdd" if before is None else "PodUpdate")
        elif before is not None and concerns_placing(before, pod):
            self.queue.wake_one(pod.uid, at)

    def key_of(self, pod: Pod, profile: Profile, since: float, gang: Gang | None = None) -> Key:
        """The pod's place in the order of those that wait; its gang, if it is known already."""
        since = self.gangs.since(self.cluster, pod, profile, since, gang)
        return profile.order.order(pod, since) if profile.order is not None else (since,)

    def place_next(self, at: float) -> list[Instruction] | None:
        """Decide on the next ready pod; None when there is none."""
        waiting = self.queue.pop()
        if waiting is None:
            return None
        if waiting.attempts == 1:
            waiting.tried = at
        pod = self.cluster.pods[waiting.uid]
        profile = self.settings.profile_of(pod.scheduler)
        if profile is None:
            self.queue.forget(pod.uid, at)
            return []
        laps = self.tally.laps()
        try:
            together = self.gangs.place(self, waiting, pod, profile, laps, at)
            return self._place(pod, profile, waiting, laps, at) if together is None else together
        except Exception as error:
            self.tally.attempted(profile.name, "error", laps)
            return self.faulted(pod, profile, error, at)

    def resume(self, flight: Flight, at: float, problem: str = "") -> list[Instruction]:
        """Ask the stages of a waiting pod again, unless what one of them asked for has failed."""
        try:
            walked = self.flights.walk(self.cluster, flight, at, problem)
        except Exception as error:
            return self.faulted(flight.pod, flight.profile, error, at)
        return self._turned_back(flight.pod, walked, at) if isinstance(walked, Refused) else walked

    def _place(self, pod: Pod, profile: Profile, waiting: Waiting, laps: Laps, at: float) -> list[Instruction]:
        verdict = self.judge(pod, profile, laps)
        if isinstance(verdict, Unplaceable):
            self.tally.attempted(profile.name, "unschedulable", laps)
            return self.stuck(pod, profile, verdict, waiting, at)
        self.decisions.add(Decision(pod.uid, pod.key, profile.name, at, waiting.attempts, verdict))
        self.tally.attempted(profile.name, "scheduled", laps)
        self.cluster.assume(pod, verdict.node)
        started = self.flights.start(self.cluster, pod, verdict.node, profile, at)
        if isinstance(started, Refused):
            return self._turned_back(pod, started, at)
        self.queue.placed(pod.uid, at)
        return started

    def judge(self, pod: Pod, profile: Profile, laps: Laps) -> Placement | Unplaceable:
        count = len(self.cluster.columns)
        if fault := pod.spec_fault or pod.spec.fault:
            return Unplaceable(count, note=f"the pod cannot be read: {fault}", plugins=UNREADABLE)
        missing = unmodelled.hard(pod)
        if missing:
            return Unplaceable(count, note=f"Trimtab does not support {' and '.join(missing)} yet", plugins=UNMODELLED)
        return choose(self.cluster.view, pod, profile, self.promised(), self.templates, laps)

    def promised(self) -> list[Pod]:
        """Pods with a promise; one that has a place already counts there, and must not count twice."""
        return [each for each in self.cluster.nominated.values() if each.uid not in self.cluster.places]

    def stuck(self, pod: Pod, profile: Profile, verdict: Unplaceable, waiting: Waiting, at: float) -> list[Instruction]:
        judged = verdict.nodes and verdict.plugins not in UNJUDGED
        attempt = self.preempting.make_room(self, pod, profile, verdict, at) if judged else Attempt(verdict)
        self.decisions.add(Decision(pod.uid, pod.key, profile.name, at, waiting.attempts, attempt.verdict))
        told = self._park(pod, profile, attempt.verdict, at)
        self.wake(attempt.freed, at)
        return [*attempt.wishes, *told]

    def _park(self, pod: Pod, profile: Profile, verdict: Unplaceable, at: float) -> list[Instruction]:
        kind = hints.kind_of(pod, profile, verdict, bool(pod.nominated) or pod.uid in self.cluster.nominated)
        self.queue.park(pod.uid, hints.woken_by(profile, verdict), verdict.plugins, at, kind)
        self.tally.queued("unschedulable", "ScheduleAttemptFailure")
        return self.complain(pod, verdict.message() + nowhere.words(self.cluster.view, pod))

    def wake(self, change: Change, at: float, pods: Pods = None) -> list[str]:
        """Stir those in the queue (of these pods, if any are named) whom the change may help."""
        if not change:
            return []
        touched = self.log_reader.read(self.cluster.columns)
        return self.queue.wake(change, at, lambda uid, plugins: self._helps(uid, plugins, change, touched), pods)

    def _helps(self, uid: str, plugins: tuple[str, ...], change: Change, touched: hints.Touched) -> bool:
        pod = self.cluster.pods[uid]
        profile = self.settings.profile_of(pod.scheduler)
        try:
            return profile is None or any(
                hints.helps(self.cluster.view, each, profile, plugins, change, touched)
                for each in self.gangs.fellows(self, pod, profile)
            )
        except Exception as error:  # a plugin that fails here will fail where it is told of
            self.tally.faulted(repr(error))
            return True

    def _turned_back(self, pod: Pod, refused: Refused, at: float) -> list[Instruction]:
        self.drop(pod.uid, at)
        return self.complain(pod, f"{refused.plugin}: {refused.refuse.reason}")

    def drop(self, uid: str, at: float) -> Change:
        """A flight ends without landing: everything is undone, and a pod that still waits tries again later."""
        flight = self.flights.end(self.cluster, uid, landed=False)
        freed = Change.MEMORY if flight is not None and flight.reserved else Change.NOTHING
        freed |= self.cluster.forget(uid)
        if uid in self.queue.waiting:
            self.gangs.dropped(self, self.queue.waiting[uid], at)
            self.queue.back_off(uid, at)
            self.tally.queued("backoff", "ScheduleAttemptFailure")
        return freed

    def complain(self, pod: Pod, message: str, reason: str = UNSCHEDULABLE) -> list[Instruction]:
        """An event each time, and the condition when it changes."""
        told: list[Instruction] = [
            Tell(pod.uid, pod.namespace, pod.name, "FailedScheduling", message, warning=True, scheduler=pod.scheduler)
        ]
        seen = self.cluster.pods.get(pod.uid, pod).unscheduled
        if (reason, message) != self.complaints.get(pod.uid, seen):
            told.append(MarkUnscheduled(pod.uid, pod.namespace, pod.name, reason, message))
        self.complaints[pod.uid] = (reason, message)
        return told

    def faulted(self, pod: Pod, profile: Profile, error: Exception, at: float) -> list[Instruction]:
        self.drop(pod.uid, at)
        self.templates.clear()  # half-mended answers are not to be trusted
        self.tally.faulted(repr(error))
        words = f"a plugin of profile {profile.name} failed: {type(error).__name__}: {error}"
        return self.complain(pod, words, ERROR)

    def fork(self) -> Placing:
        """A twin that counts nothing; answers kept for speed are not copied, for they can be asked again."""
        twin = Placing(self.settings, Tally(), self.cluster.fork(), self.queue.copy(), self.flights.copy())
        twin.decisions, twin.complaints = self.decisions.copy(), self.complaints.copy()
        twin.preempting, twin.gangs = self.preempting.copy(), self.gangs.copy()
        twin.claimants = self.claimants.copy()
        twin.observers.by_name, twin.log_reader = self.observers.by_name, self.log_reader.copy()
        return twin


def concerns_placing(before: Pod, after: Pod) -> bool:
    """Whether an edit of a waiting pod could change where it may go; a mere status patch does not."""
    return (
        (before.spec is not after.spec and before.spec != after.spec)
        or before.demand != after.demand
        or before.labels != after.labels
        or before.nominated != after.nominated
        or before.gates != after.gates
        or before.priority != after.priority
        or before.spec_fault != after.spec_fault
    )
