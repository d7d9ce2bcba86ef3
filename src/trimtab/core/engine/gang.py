"""Gangs in the engine: all members that wait are tried in one turn, and go on together or not at all.

    a member is next ─▶ all who wait are taken ─▶ may it be tried? ─▶ each: choose, assume, reserve ─▶ enough? ─▶ stages, Bind
                                                     │ no                                               │ no
                                                     ▼                                                  ▼
                        parked together, with one reason ◀──────────────────────── everything undone, last first

Nothing of a gang that is not complete holds room, so two gangs cannot keep each other waiting. Who goes on beyond the
quorum is an ordinary pod. A gang of which some stand and too few (a leader died between two binds) goes before others of
its priority. What the quorum is, and whether a gang may be tried, is the plugin's to say (`Gathers`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.cluster.state import Cluster
from trimtab.core.engine.decisions import Decision
from trimtab.core.engine.inflight import Refused
from trimtab.core.engine.waiting import hints
from trimtab.core.engine.waiting.parked import Kind
from trimtab.core.engine.waiting.queue import Part, Waiting
from trimtab.core.model.change import Change
from trimtab.core.model.instruction import Instruction, Tell
from trimtab.core.model.objects import GROUP_LABEL, OLDER_GROUP_LABEL, PodGroup, group_key
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.verdict import Placement, Unplaceable
from trimtab.core.placing.contract import Gang, Gathers, Go, Plugin, Wait
from trimtab.core.placing.laps import Laps
from trimtab.core.placing.profile import Profile

if TYPE_CHECKING:
    from trimtab.core.engine.place import Placing

FIRST_OF_ALL = 0.0  # waits since before everybody else of its priority
NOT_OURS = "the others are held back, or another scheduler's or profile's to place"


class Past(Struct):
    """Failed tries since the gang was last complete."""

    first: float
    last: float
    resting_until: float = 0.0
    words: str = ""
    told: bool = False


class Trial(Struct, frozen=True):
    """One try: who takes part, in which order, and when."""

    gang: Gang
    plugin: Gathers
    profile: Profile
    entries: tuple[Waiting, ...]
    pods: tuple[Pod, ...]
    laps: Laps
    at: float


class Gangs:
    """Members by gang, kept only while some profile has a plugin for gangs; and how their tries have gone."""

    def __init__(self) -> None:
        self.on = False
        self.members: dict[str, dict[str, None]] = {}
        self.past: dict[str, Past] = {}
        self.kinds: dict[str, tuple[Pod, ...]] = {}  # what `fellows` found, until a member is seen again

    def adopt(self, profiles: Iterable[Profile], cluster: Cluster) -> None:
        self.on, self.members, self.kinds = any(each.gangs is not None for each in profiles), {}, {}
        for pod in cluster.pods.values():
            self._note(None, pod)

    def copy(self) -> Gangs:
        twin = Gangs()
        twin.on = self.on
        twin.members = {key: uids.copy() for key, uids in self.members.items()}
        twin.past = {key: replace(past) for key, past in self.past.items()}
        twin.kinds = self.kinds.copy()
        return twin

    # --- facts

    def seen(self, placing: Placing, before: Pod | None, after: Pod | None, at: float) -> None:
        """A pod came, changed or went; one that has taken a place may complete its gang."""
        if not self.on:
            return
        self._note(before, after)
        if after is not None and after.occupies and not (before is not None and before.occupies):
            self.changed(placing, group_key(after), at)

    def _note(self, before: Pod | None, after: Pod | None) -> None:
        was, now = (group_key(each) if each is not None else "" for each in (before, after))
        self.kinds.pop(was, None)
        self.kinds.pop(now, None)
        if before is not None and was and was != now:
            uids = self.members.get(was, {})
            uids.pop(before.uid, None)
            if not uids:
                self.members.pop(was, None)
                self.past.pop(was, None)
        if after is not None and now and self.on:
            self.members.setdefault(now, {})[after.uid] = None

    def changed(self, placing: Placing, key: str, at: float) -> None:
        """The PodGroup, or who stands: the gang's place in the order may be another, and a try may help."""
        waiting = placing.queue.waiting
        found = [waiting[uid] for uid in self.members.get(key, ()) if uid in waiting]
        self._rekey(placing, key, [entry for entry in found if entry.part not in (Part.OUT, Part.GATED)], at)
        placing.queue.wake_alike(_alike(key), at)

    def dropped(self, placing: Placing, entry: Waiting, at: float) -> None:
        """A member stands no more: it may be the one that the others, bound already, wait for."""
        key = group_key(placing.cluster.pods[entry.uid]) if self.on else ""
        if key:
            self._rekey(placing, key, [entry], at)

    def _rekey(self, placing: Placing, key: str, entries: Iterable[Waiting], at: float) -> None:
        """The gang is looked at once for all: as its members are bound one by one, this is asked for each of them."""
        gang: Gang | None = None
        for entry in entries:
            gang = gang or self.gang(placing.cluster, key, at)
            pod = placing.cluster.pods[entry.uid]
            profile = placing.settings.profile_of(pod.scheduler)
            if profile is not None:
                placing.queue.rekey(pod.uid, placing.key_of(pod, profile, entry.since, gang))

    def gang(self, cluster: Cluster, key: str, at: float) -> Gang:
        alive = {uid: cluster.pods[uid] for uid in self.members.get(key, ())}
        members = {uid: pod for uid, pod in alive.items() if not (pod.finished or pod.deleting)}
        standing = {uid: cluster.places[uid].node for uid in members if uid in cluster.places}
        past = self.past.get(key)
        return Gang(
            key,
            cluster.objects.of(PodGroup).get(key),
            members,
            standing,
            failed=None if past is None else past.last,
            resting=past is not None and at < past.resting_until,
        )

    def since(self, cluster: Cluster, pod: Pod, profile: Profile, since: float, gang: Gang | None = None) -> float:
        """What counts as the pod's arrival: a gang that is partly bound goes first, and others by their group's age."""
        key = group_key(pod) if profile.gangs is not None else ""
        if not key or profile.gangs is None:
            return since
        gang = gang or self.gang(cluster, key, since)
        if gang.group is not None and 0 < len(gang.standing) < gang.group.min_member:
            return FIRST_OF_ALL
        orders: object = profile.order
        return profile.gangs.since(gang, since) if orders is profile.gangs else since

    def overdue(self, placing: Placing, at: float) -> list[Instruction]:
        """Gangs whose time to come together is over: said once; they are tried further."""
        told: list[Instruction] = []
        for key, past in self.past.items():
            if past.told:
                continue
            gang = self.gang(placing.cluster, key, at)
            waiting = [pod for uid, pod in gang.members.items() if uid in placing.queue.waiting]
            profile = placing.settings.profile_of(waiting[0].scheduler) if waiting else None
            if profile is None or profile.gangs is None:
                continue
            limit = profile.gangs.quorum(gang)
            if isinstance(limit, Wait) and at - past.first >= limit.seconds:
                past.told = True
                words = f"pod group {key} did not come together within {limit.seconds:.0f} s and is tried further"
                told.append(_tell(waiting[0], "PodGroupTimeout", f"{words}: {past.words}"))
        return told

    def fellows(self, placing: Placing, pod: Pod, profile: Profile) -> Iterable[Pod]:
        """Those whom a hint must be asked about: the pod alone, or one of each kind that its gang waits with."""
        key = group_key(pod) if profile.gangs is not None else ""
        waiting = placing.queue.waiting
        if waiting[pod.uid].kind.alike != _alike(key):
            return (pod,)
        if key not in self.kinds:
            pods = [placing.cluster.pods[uid] for uid in self.members[key] if uid in waiting]
            self.kinds[key] = tuple({_signs(one, profile): one for one in pods}.values())
        return self.kinds[key]

    # --- a turn

    def place(
        self, placing: Placing, head: Waiting, pod: Pod, profile: Profile, laps: Laps, at: float
    ) -> list[Instruction] | None:
        """Decide on the pod's whole gang; None when the pod is in none, or its gang has its quorum without it."""
        key, plugin = group_key(pod), profile.gangs
        if not key or plugin is None:
            return None
        gang = self.gang(placing.cluster, key, at)
        if plugin.quorum(gang) is Go.GO:
            return None
        entries = tuple(self._take(placing, gang, head, profile, at))
        pods = sorted((placing.cluster.pods[entry.uid] for entry in entries), key=_larger_first)
        trial = Trial(gang, plugin, profile, entries, tuple(pods), laps, at)
        try:
            return _notes(pod, head) + self._decide(placing, trial)
        except Exception as error:
            return [wish for each in reversed(pods) for wish in placing.faulted(each, profile, error, at)]

    def _take(self, placing: Placing, gang: Gang, head: Waiting, profile: Profile, at: float) -> Iterable[Waiting]:
        yield head
        for uid, pod in gang.members.items():
            entry = placing.queue.waiting.get(uid)
            if entry is None or entry is head or placing.settings.profile_of(pod.scheduler) is not profile:
                continue
            if entry.part not in (Part.OUT, Part.GATED):
                placing.queue.take(uid, at)
                yield entry

    def _decide(self, placing: Placing, trial: Trial) -> list[Instruction]:
        gang, at = trial.gang, trial.at
        if gang.group is None:
            return self._park(placing, trial, f"pod group {gang.key} does not exist", hints.ALWAYS, ())
        refused = trial.plugin.gather(placing.cluster.view, trial.pods[0], gang)
        if refused is None:
            return self._try(placing, trial)
        words = f"pod group {gang.key}: {refused.reason}"
        if gang.resting:
            for entry in trial.entries:
                placing.queue.back_off(entry.uid, at, self.past[gang.key].resting_until)
            return placing.complain(trial.pods[0], words)
        plugin: Plugin = trial.plugin  # type: ignore[assignment]
        lacks_room = len(gang.members) >= gang.group.min_member
        return self._park(
            placing, trial, words, hints.ALWAYS | (plugin.woken_by if lacks_room else Change.NOTHING), (plugin.name,)
        )

    def _try(self, placing: Placing, trial: Trial) -> list[Instruction]:
        verdicts = {pod.uid: self._assume(placing, pod, trial) for pod in trial.pods}
        flown = [pod for pod in trial.pods if isinstance(verdicts[pod.uid], Placement)]
        gang = self.gang(placing.cluster, trial.gang.key, trial.at)
        nodes = len(placing.cluster.columns)
        stuck = {uid: verdict for uid, verdict in verdicts.items() if isinstance(verdict, Unplaceable)}
        if trial.plugin.quorum(gang) is Go.GO:
            walked = self._start(placing, flown, trial.at)
            if not isinstance(walked, Refused):
                return walked + self._settle(placing, trial, verdicts)
            stuck = {"": Unplaceable(nodes, note=walked.refuse.reason, plugins=(walked.plugin,))}
        for pod in reversed(flown):
            _undo(placing, pod)
        needed = gang.group.min_member if gang.group is not None else 0
        stuck = stuck or {"": Unplaceable(nodes, note=NOT_OURS)}
        first = next(iter(stuck.values()))
        words = f"pod group {gang.key}: {len(gang.standing)} of {needed} members fit; {first.message()}"
        woken_by = reduce(or_, (hints.woken_by(trial.profile, each) for each in stuck.values()))
        plugins = tuple(dict.fromkeys(name for each in stuck.values() for name in each.plugins))
        return self._park(placing, trial, words, woken_by, plugins, trial.plugin.rest(gang))

    def _assume(self, placing: Placing, pod: Pod, trial: Trial) -> Placement | Unplaceable:
        verdict = placing.judge(pod, trial.profile, trial.laps)
        if isinstance(verdict, Unplaceable):
            return verdict
        placing.cluster.assume(pod, verdict.node)
        refused = placing.flights.reserve(placing.cluster, pod, verdict.node, trial.profile, trial.at)
        if refused is None:
            return verdict
        _undo(placing, pod)
        return Unplaceable(verdict.nodes, note=refused.refuse.reason, plugins=(refused.plugin,))

    def _start(self, placing: Placing, flown: list[Pod], at: float) -> list[Instruction] | Refused:
        """Walk the stages of each; one that is refused at once keeps all from going."""
        wishes: list[Instruction] = []
        for pod in flown:
            walked = placing.flights.walk(placing.cluster, placing.flights.by_uid[pod.uid], at)
            if isinstance(walked, Refused):
                return walked
            wishes += walked
        return wishes

    def _settle(
        self, placing: Placing, trial: Trial, verdicts: dict[str, Placement | Unplaceable]
    ) -> list[Instruction]:
        """The gang is on its way; those for whom there was no room, and no need, wait like any other pod."""
        self.past.pop(trial.gang.key, None)
        wishes: list[Instruction] = []
        for entry in trial.entries:
            verdict, pod = verdicts[entry.uid], placing.cluster.pods[entry.uid]
            if isinstance(verdict, Unplaceable):
                placing.tally.attempted(trial.profile.name, "unschedulable", trial.laps)
                wishes += placing.stuck(pod, trial.profile, verdict, entry, trial.at)
                continue
            placing.tally.attempted(trial.profile.name, "scheduled", trial.laps)
            placing.decisions.add(_decision(pod, trial, entry, verdict))
            placing.queue.placed(pod.uid, trial.at)
        return wishes

    def _park(
        self,
        placing: Placing,
        trial: Trial,
        words: str,
        woken_by: Change,
        plugins: tuple[str, ...],
        rest: float = 0.0,
    ) -> list[Instruction]:
        """None goes: all wait, in one group, so that the next try is one for all."""
        key, at = trial.gang.key, trial.at
        past = self.past.setdefault(key, Past(at, at))
        past.last, past.words, past.resting_until = at, words, at + rest
        verdict = Unplaceable(len(placing.cluster.columns), note=words, plugins=plugins)
        told: list[Instruction] = []
        self._rekey(placing, key, trial.entries, at)
        for entry in trial.entries:
            pod = placing.cluster.pods[entry.uid]
            placing.tally.attempted(trial.profile.name, "unschedulable", trial.laps)
            placing.decisions.add(_decision(pod, trial, entry, verdict))
            placing.queue.park(pod.uid, woken_by, plugins, at, Kind(_alike(key), _alike(key)), rest)
            placing.tally.queued("unschedulable", "ScheduleAttemptFailure")
            told += placing.complain(pod, words)
        return told


def _signs(pod: Pod, profile: Profile) -> Hashable:
    """All that hints depend on; pods with volumes are each of a kind of their own, for their claims are."""
    alone = pod.uid if pod.spec.volumes else ""
    return alone, tuple(each.signs(pod) for each in hints.by_row(profile))  # type: ignore[attr-defined]


def _alike(key: str) -> Hashable:
    return ("gang", key)


def _larger_first(pod: Pod) -> tuple[float, float, float, str]:
    """Higher priority first; then the larger ones, which find a place less easily; then by name."""
    return (-pod.priority, -pod.demand.of(CPU), -pod.demand.of(MEMORY), pod.name)


def _undo(placing: Placing, pod: Pod) -> None:
    placing.flights.end(placing.cluster, pod.uid, landed=False)
    placing.cluster.forget(pod.uid)


def _decision(pod: Pod, trial: Trial, entry: Waiting, verdict: Placement | Unplaceable) -> Decision:
    return Decision(pod.uid, pod.key, trial.profile.name, trial.at, entry.attempts, verdict)


def _notes(pod: Pod, head: Waiting) -> list[Instruction]:
    if head.attempts > 1 or GROUP_LABEL in pod.labels:
        return []
    note = f"label {OLDER_GROUP_LABEL} is an older name and still read: write {GROUP_LABEL}"
    return [_tell(pod, "OlderLabel", note)]


def _tell(pod: Pod, reason: str, note: str) -> Tell:
    return Tell(pod.uid, pod.namespace, pod.name, reason, note, warning=True, scheduler=pod.scheduler)
