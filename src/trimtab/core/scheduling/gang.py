"""Gangs: which pods belong to which PodGroup, how their attempts have gone, and where they stand in the queue's order.

A gang of which some members hold a node and too few (a leader died between two binds) goes before others of its priority.
What the quorum is, and whether a gang may be attempted, is the plugin's to say (`GangPlugin`). An attempt is `gang_cycle`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.controllers import EngineState, Output
from trimtab.core.framework.interface import Gang, Wait
from trimtab.core.framework.profile import Profile
from trimtab.core.model.objects import PodGroup, pod_group_key
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling import pod_events
from trimtab.core.scheduling.queue import queueing_hints
from trimtab.core.scheduling.queue.queue import SchedulingQueue
from trimtab.core.scheduling.queue.queued_pod import QueuedPod, QueueState
from trimtab.core.scheduling.queue.unschedulable import Key

MAX_IGNORED = 10_000
FIRST_OF_ALL = 0.0  # has waited longer than everybody else of its priority


class GangHistory(Struct):
    """Failed attempts since the gang was last complete."""

    first: float
    last: float
    backoff_until: float = 0.0
    message: str = ""
    timeout_reported: bool = False


class Gangs:
    """Members by gang, kept only while some profile has a plugin for gangs; and how their attempts have gone."""

    def __init__(self, state: EngineState, queue: SchedulingQueue) -> None:
        self.state, self.queue = state, queue
        self.enabled = False
        self.members: dict[str, dict[str, None]] = {}
        self.history: dict[str, GangHistory] = {}
        self._representatives: dict[str, tuple[Pod, ...]] = {}  # until a member is seen again
        self._ignored: OrderedDict[str, None] = OrderedDict()  # groups whose label no plugin heeds, once that was told

    def apply_settings(self) -> None:
        self.enabled = any(profile.gang_plugin is not None for profile in self.state.settings.profiles)
        self.members, self._representatives, self._ignored = {}, {}, OrderedDict()
        for pod in self.state.cluster.pods.values():
            self._update_members(None, pod)

    def copy_from(self, other: Gangs) -> None:
        self.enabled = other.enabled
        self.members = {key: uids.copy() for key, uids in other.members.items()}
        self.history = {key: replace(history) for key, history in other.history.items()}
        self._representatives, self._ignored = other._representatives.copy(), other._ignored.copy()

    # --- facts

    def pod_changed(self, before: Pod | None, after: Pod | None, now: float) -> None:
        """A pod was added, updated or deleted; one that holds a node now may complete its gang."""
        if not self.enabled:
            return
        self._update_members(before, after)
        if after is not None and after.holds_resources and not (before is not None and before.holds_resources):
            self.group_changed(pod_group_key(after), now)

    def _update_members(self, before: Pod | None, after: Pod | None) -> None:
        was, now = (pod_group_key(each) if each is not None else "" for each in (before, after))
        self._representatives.pop(was, None)
        self._representatives.pop(now, None)
        if before is not None and was and was != now:
            uids = self.members.get(was, {})
            uids.pop(before.uid, None)
            if not uids:
                self.members.pop(was, None)
                self.history.pop(was, None)
        if after is not None and now and self.enabled:
            self.members.setdefault(now, {})[after.uid] = None

    def group_changed(self, key: str, now: float) -> None:
        """The PodGroup, or who holds a node: the gang's place in the order may differ, and an attempt may succeed."""
        waiting = self.queue.pods
        found = [waiting[uid] for uid in self.members.get(key, ()) if uid in waiting]
        self.rekey(key, [entry for entry in found if entry.state not in (QueueState.POPPED, QueueState.GATED)], now)
        self.queue.wake_equivalent(equivalence_key(key), now)

    def dropped(self, entry: QueuedPod, now: float) -> None:
        """A member holds no node any more: it may be the one that the others, bound already, wait for."""
        key = pod_group_key(self.state.cluster.pods[entry.uid]) if self.enabled else ""
        if key:
            self.rekey(key, [entry], now)

    # --- the order of the queue

    def rekey(self, key: str, entries: Iterable[QueuedPod], now: float) -> None:
        """The gang is looked up once for all entries: as its members are bound one by one, this runs for each of them."""
        gang: Gang | None = None
        for entry in entries:
            gang = gang or self.gang(key, now)
            pod = self.state.cluster.pods[entry.uid]
            profile = self.state.settings.profile_of(pod.scheduler_name)
            if profile is not None:
                self.queue.rekey(pod.uid, self.queue_key(pod, profile, entry.since, gang))

    def queue_key(self, pod: Pod, profile: Profile, since: float, gang: Gang | None = None) -> Key:
        """The pod's sort key by the profile's QueueSort plugin; `gang` is its gang, if that is known already."""
        since = self._since(pod, profile, since, gang)
        return profile.queue_sort.queue_sort_key(pod, since) if profile.queue_sort is not None else (since,)

    def _since(self, pod: Pod, profile: Profile, since: float, gang: Gang | None) -> float:
        """What counts as the pod's arrival: a gang that is partly bound goes first, and others by their group's age."""
        key = pod_group_key(pod) if profile.gang_plugin is not None else ""
        if not key or profile.gang_plugin is None:
            return since
        gang = gang or self.gang(key, since)
        if gang.group is not None and 0 < len(gang.placed) < gang.group.min_member:
            return FIRST_OF_ALL
        orders: object = profile.queue_sort
        return profile.gang_plugin.gang_queued_at(gang, since) if orders is profile.gang_plugin else since

    # --- what others ask

    def gang(self, key: str, now: float) -> Gang:
        cluster = self.state.cluster
        known = {uid: cluster.pods[uid] for uid in self.members.get(key, ())}
        members = {uid: pod for uid, pod in known.items() if not (pod.finished or pod.terminating)}
        standing = {uid: cluster.placements[uid].node for uid in members if uid in cluster.placements}
        history = self.history.get(key)
        return Gang(
            key,
            cluster.objects.of_kind(PodGroup).get(key),
            members,
            standing,
            failed_at=None if history is None else history.last,
            backing_off=history is not None and now < history.backoff_until,
        )

    def ignored_label(self, pod: Pod, profile: Profile) -> list[Output]:
        """An Event for the first pod of a group that the profile has no plugin for; nothing for the others."""
        key = pod_group_key(pod) if profile.gang_plugin is None and pod.labels else ""
        if not key or key in self._ignored:
            return []
        self._ignored[key] = None
        if len(self._ignored) > MAX_IGNORED:
            self._ignored.popitem(last=False)
        return [pod_events.pod_group_ignored(pod, key, profile.name)]

    def overdue(self, now: float) -> list[Output]:
        """Gangs that did not come together within their schedule timeout: reported once; attempts go on."""
        outputs: list[Output] = []
        for key, history in self.history.items():
            if history.timeout_reported:
                continue
            gang = self.gang(key, now)
            waiting = [pod for uid, pod in gang.members.items() if uid in self.queue.pods]
            profile = self.state.settings.profile_of(waiting[0].scheduler_name) if waiting else None
            if profile is None or profile.gang_plugin is None:
                continue
            limit = profile.gang_plugin.permit_gang(gang)
            if isinstance(limit, Wait) and now - history.first >= limit.seconds:
                history.timeout_reported = True
                outputs.append(pod_events.pod_group_timeout(waiting[0], key, limit.seconds, history.message))
        return outputs

    def waits_in_gang(self, pod: Pod, profile: Profile) -> bool:
        """Whether this unschedulable pod was tried together with its gang, and waits as a part of it."""
        waiting = self.queue.pods[pod.uid].equivalence.pods
        return profile.gang_plugin is not None and waiting == equivalence_key(pod_group_key(pod))

    def representatives(self, pod: Pod, profile: Profile) -> Iterable[Pod]:
        """The pods that a queueing hint must be asked about: the pod alone, or one of each kind in its waiting gang."""
        if not self.waits_in_gang(pod, profile):
            return (pod,)
        key, waiting = pod_group_key(pod), self.queue.pods
        if key not in self._representatives:
            pods = [self.state.cluster.pods[uid] for uid in self.members[key] if uid in waiting]
            self._representatives[key] = tuple({_hint_signature(each, profile): each for each in pods}.values())
        return self._representatives[key]


def equivalence_key(key: str) -> Hashable:
    """All members of a gang wait as one group of equivalent pods."""
    return ("gang", key)


def _hint_signature(pod: Pod, profile: Profile) -> Hashable:
    """All that hints depend on; a pod with volumes is unique, for its claims are."""
    unique = pod.uid if pod.spec.volumes else ""
    return unique, tuple(each.signature(pod) for each in queueing_hints.per_node_filters(profile))  # type: ignore[attr-defined]
