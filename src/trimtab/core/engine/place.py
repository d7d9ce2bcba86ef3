"""One decision: take the next pod, choose, assume the room, start the flight; or say why not and park it.

A plugin that raises is caught here and nowhere else: its pod is put back, the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.core.cluster.state import Cluster
from trimtab.core.engine.decisions import Decision, Decisions
from trimtab.core.engine.inflight import Flights, Refused
from trimtab.core.engine.queue import Queue, Waiting
from trimtab.core.engine.settings import Settings
from trimtab.core.engine.tally import Tally
from trimtab.core.model.change import Change
from trimtab.core.model.instruction import Instruction, MarkUnscheduled, Tell
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Placement, Unplaceable
from trimtab.core.placing import unmodelled
from trimtab.core.placing.choose import choose
from trimtab.core.placing.laps import Laps
from trimtab.core.placing.profile import Profile, plugin_name
from trimtab.core.placing.templates import Templates


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
    marked: dict[str, tuple[str, str]] = field(default_factory=dict)

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
            self.queue.forget(pod.uid)
            return []
        laps = self.tally.laps()
        try:
            return self._place(pod, profile, waiting, laps, at)
        except Exception as error:  # the one place where a plugin's mistake is caught
            return self._faulted(pod, profile, error, laps, at)

    def _place(self, pod: Pod, profile: Profile, waiting: Waiting, laps: Laps, at: float) -> list[Instruction]:
        verdict = self._judge(pod, profile, laps)
        self.decisions.add(Decision(pod.uid, pod.key, profile.name, at, waiting.attempts, verdict))
        if isinstance(verdict, Unplaceable):
            self.tally.attempted(profile.name, "unschedulable", laps)
            return self._park(pod, profile, verdict, at)
        self.tally.attempted(profile.name, "scheduled", laps)
        for wish in unmodelled.soft(pod, profile):
            self.tally.skipped(wish)
        self.cluster.assume(pod, verdict.node)
        started = self.flights.start(self.cluster, pod, verdict.node, profile, at)
        return self.turned_back(pod, started, at) if isinstance(started, Refused) else started

    def _judge(self, pod: Pod, profile: Profile, laps: Laps) -> Placement | Unplaceable:
        count = len(self.cluster.columns)
        if pod.spec_fault:
            return Unplaceable(count, note=f"the pod cannot be read: {pod.spec_fault}", plugins=("Unreadable",))
        missing = unmodelled.hard(pod, profile)
        if missing:
            return Unplaceable(
                count, note=f"Trimtab does not support {' and '.join(missing)} yet", plugins=("Unmodelled",)
            )
        return choose(self.cluster.view, pod, profile, self.cluster.nominated.values(), self.templates, laps)

    def _park(self, pod: Pod, profile: Profile, verdict: Unplaceable, at: float) -> list[Instruction]:
        woken_by = Change.SELF
        for plugin in (*profile.filters, *profile.prefilters):
            if plugin_name(plugin) in verdict.plugins:
                woken_by |= plugin.woken_by  # type: ignore[attr-defined]
        if not verdict.nodes:
            woken_by |= Change.NODE_ADDED
        self.queue.park(pod.uid, woken_by, verdict.plugins, at)
        self.tally.queued("unschedulable", "ScheduleAttemptFailure")
        return self.complain(pod, verdict.message())

    def turned_back(self, pod: Pod, refused: Refused, at: float) -> list[Instruction]:
        """A stage refused: everything is undone, and the pod waits for its turn again."""
        self.flights.end(self.cluster, pod.uid, landed=False)
        self.cluster.forget(pod.uid)
        self.queue.back_off(pod.uid, at)
        self.tally.queued("backoff", "ScheduleAttemptFailure")
        return self.complain(pod, f"{refused.plugin}: {refused.refuse.reason}")

    def complain(self, pod: Pod, message: str) -> list[Instruction]:
        """An event each time, and the condition when it changes."""
        told: list[Instruction] = [
            Tell(pod.uid, pod.namespace, pod.name, "FailedScheduling", message, warning=True, scheduler=pod.scheduler)
        ]
        mark = ("Unschedulable", message)
        if mark not in (self.marked.get(pod.uid), pod.unscheduled):
            told.append(MarkUnscheduled(pod.uid, pod.namespace, pod.name, *mark))
        self.marked[pod.uid] = mark
        return told

    def _faulted(self, pod: Pod, profile: Profile, error: Exception, laps: Laps, at: float) -> list[Instruction]:
        self.flights.end(self.cluster, pod.uid, landed=False)
        self.cluster.forget(pod.uid)
        self.templates.clear()  # half-mended answers are not to be trusted
        self.queue.back_off(pod.uid, at)
        self.tally.attempted(profile.name, "error", laps)
        self.tally.faulted(repr(error))
        return self.complain(pod, f"a plugin of profile {profile.name} failed: {type(error).__name__}: {error}")
