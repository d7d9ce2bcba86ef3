"""The controllers that own pods: they create pods, and create them again when they are gone.

Each looks at its own pods whenever one of them changes, and does what is missing, as Kubernetes' controllers do. Names of
pods depend on how many were created before, so they are the same under every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from trimtab.core.model.affinity import Affinity
from trimtab.core.model.node import Node
from trimtab.core.model.objects import ReplicaSet, StatefulSet
from trimtab.core.model.pod import NODE_BOUND, Owner, Pod, PodSpec
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm, Requirement, label_pairs
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, NOT_READY_TAINT, UNREACHABLE_TAINT, Toleration
from trimtab.sim.node_matching import selects, tolerates
from trimtab.sim.randomness import key_of, uid_of, uniform
from trimtab.sim.scenario import OwnerKind, PodTemplate, TracedPod, Workload
from trimtab.sim.world import World

RECONCILE_DELAY = 0.05
REVISION_LABEL, ORDINAL_LABEL = "controller-revision-hash", "apps.kubernetes.io/pod-index"
TEMPLATE_LABEL = "pod-template-hash"
DEPARTURE_DELAY = 0.5  # after the end of a step, so that the step's samples still show the pod
API_VERSIONS = {"Job": "batch/v1", "ReplicationController": "v1", "Node": "v1"}  # of owners; others are in apps/v1
DAEMON_TOLERATIONS = (
    *(Toleration(key, "Exists", "", NO_EXECUTE) for key in (NOT_READY_TAINT, UNREACHABLE_TAINT)),
    Toleration("node.kubernetes.io/unschedulable", "Exists", "", NO_SCHEDULE),
)


class PodOwner:
    """What all owners have in common: their pods by UID, and a reconciliation soon after a change."""

    def __init__(self, world: World, workload: Workload) -> None:
        self.world, self.workload = world, workload
        self.template, self.replicas, self.revision = workload.template, workload.replicas, 1
        self.pods: dict[str, Pod] = {}
        self.created = 0
        self.began = workload.created
        self.begun = self.deleted = False
        self._due = False

    def begin(self) -> None:
        clock, workload = self.world.clock, self.workload
        self.begun, self.began = True, clock.now
        self.announce()
        self.reconcile_soon()
        for rollout in workload.rollouts:
            clock.call_at(rollout.at, partial(self.roll_out, rollout.template))
        for scale in workload.scales:
            clock.call_at(scale.at, partial(self.scale, scale.replicas))
        if workload.deleted is not None:
            clock.call_at(workload.deleted + DEPARTURE_DELAY, self.delete)

    def announce(self) -> None:
        """Create the API objects that go with the pods."""

    def reconcile(self) -> None:
        """Create and delete pods as needed."""
        raise NotImplementedError

    def roll_out(self, template: PodTemplate | None) -> None:
        if self.deleted:
            return
        self.template, self.revision = template or self.template, self.revision + 1
        self.announce()
        self.reconcile_soon()

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        self.reconcile_soon()

    def surge(self) -> bool:
        """One replica more for a while; False where that is not possible."""
        return False

    def end_surge(self, leaves: str) -> None:
        """The further replica is taken back: the pod of this UID goes."""
        self.world.delete_pod(leaves, "moved")

    def delete(self) -> None:
        self.deleted, self.replicas = True, 0
        for uid in list(self.pods):
            self.world.delete_pod(uid)

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None:
            self.pods[after.uid] = after
        elif before is not None:
            self.pods.pop(before.uid, None)
        self.reconcile_soon()

    def reconcile_soon(self) -> None:
        if not self._due and not self.deleted:
            self._due = True
            self.world.clock.call_later(RECONCILE_DELAY, self._reconcile)

    def _reconcile(self) -> None:
        self._due = False
        if not self.deleted:
            self.reconcile()

    def create_pod(
        self, name: str, labels: Mapping[str, str], owner: Owner | None, spec: PodSpec | None = None
    ) -> None:
        template = self.template
        template = replace(template, labels={**template.labels, **labels}, spec=spec or template.spec)
        self.created += 1
        self.world.create_pod(name, template, self.workload.namespace, owner, watcher=self.pod_changed)

    def replaced_by(self, uid: str) -> Pod | None:
        """The pod that was created to replace this one before it leaves, if there was one."""
        others = [pod for pod in self.active if pod.uid != uid]
        return others[-1] if others and len(others) >= self.replicas else None

    @property
    def active(self) -> list[Pod]:
        """The pods that count: not finished and not terminating, oldest first."""
        return [pod for pod in self.pods.values() if not (pod.terminating or pod.finished)]

    def may_create(self, count: int) -> bool:
        """Whether so many of the first pods may exist by now (`stagger`)."""
        stagger, workload = self.workload.stagger, self.workload
        due = self.began + count * stagger
        if self.created >= workload.replicas or self.world.clock.now >= due:
            return True
        self.world.clock.call_at(due, self.reconcile_soon)
        return False

    def owner(self, kind: str, name: str, revision: int = 0) -> Owner:
        uid = uid_of(self.world.seed, kind, self.workload.namespace, name, revision)
        return Owner(kind, name, uid, API_VERSIONS.get(kind, "apps/v1"))

    def suffix(self, *purpose: str | int) -> str:
        """Ten characters such as a ReplicaSet's hash, the same for every seed."""
        return f"{key_of(0, self.workload.namespace, self.workload.name, *purpose):016x}"[:10]


def selector_of(labels: Mapping[str, str]) -> LabelSelector:
    return LabelSelector(label_pairs(dict(labels)))


class BarePods(PodOwner):
    """Pods that nobody creates again."""

    def reconcile(self) -> None:
        while self.created < self.workload.replicas and self.may_create(self.created):
            number = f"-{self.created}" if self.workload.replicas > 1 else ""
            self.create_pod(f"{self.workload.name}{number}", {}, None)


class Deployment(PodOwner):
    """A rolling update: at most `max_surge` pods more, and at most `max_unavailable` fewer, than there should be."""

    def announce(self) -> None:
        owner, labels = self._replica_set(), self._labels()
        self.world.put_object(
            ReplicaSet(name=owner.name, uid=owner.uid, namespace=self.workload.namespace, selector=selector_of(labels))
        )

    def surge(self) -> bool:
        self.scale(self.replicas + 1)
        return True

    def end_surge(self, leaves: str) -> None:
        self.replicas -= 1
        super().end_surge(leaves)
        self.reconcile_soon()

    def _labels(self) -> dict[str, str]:
        return {**self.template.labels, TEMPLATE_LABEL: self.suffix(self.revision)}

    def _replica_set(self) -> Owner:
        return self.owner("ReplicaSet", f"{self.workload.name}-{self.suffix(self.revision)}", self.revision)

    def reconcile(self) -> None:
        owner = self._replica_set()
        active = self.active
        new = [pod for pod in active if pod.owner is not None and pod.owner.uid == owner.uid]
        old = [pod for pod in active if pod.owner is None or pod.owner.uid != owner.uid]
        surge = self.workload.max_surge if old else 0
        room = min(self.replicas - len(new), self.replicas + surge - len(active))
        for _ in range(room):
            if not self.may_create(self.created):
                break
            self.create_pod(f"{owner.name}-{self.suffix('pod', self.created)[:5]}", self._labels(), owner)
        self._delete_old(new, old)
        self._delete_pods(new, len(new) - self.replicas)

    def _delete_old(self, new: list[Pod], old: list[Pod]) -> None:
        """Those that are not ready as long as enough pods are left for them to count, and ready ones beyond the minimum."""
        minimum = max(self.replicas - self.workload.max_unavailable, 0)
        ready, coming = sum(pod.ready for pod in (*new, *old)), sum(not pod.ready for pod in new)
        broken = min(sum(not pod.ready for pod in old), len(new) + len(old) - minimum - coming)
        self._delete_pods(old, max(broken, 0) + max(ready - minimum, 0))

    def _delete_pods(self, pods: list[Pod], count: int) -> None:
        """Those first that have no node, then those that are not ready, then the newest."""
        ranked = sorted(pods, key=lambda pod: (bool(pod.node), pod.ready, -pod.created))
        for pod in ranked[: max(count, 0)]:
            self.world.delete_pod(pod.uid)


class StatefulSetOwner(PodOwner):
    """Ordinals in order: each waits until its predecessor is ready, and an update goes from the last to the first."""

    def announce(self) -> None:
        owner = self.owner("StatefulSet", self.workload.name)
        self.world.put_object(
            StatefulSet(
                name=owner.name,
                uid=owner.uid,
                namespace=self.workload.namespace,
                selector=selector_of(self.template.labels),
            )
        )

    def reconcile(self) -> None:
        by_name = {pod.name: pod for pod in self.pods.values() if not pod.finished}
        for ordinal in range(self.replicas):
            pod = by_name.get(f"{self.workload.name}-{ordinal}")
            if pod is None:
                if self.may_create(ordinal):
                    self._create(ordinal)
                return
            if not pod.ready or pod.terminating:
                return
        self._delete_surplus(by_name)

    def _create(self, ordinal: int) -> None:
        labels = {REVISION_LABEL: self.suffix(self.revision), ORDINAL_LABEL: str(ordinal)}
        self.create_pod(f"{self.workload.name}-{ordinal}", labels, self.owner("StatefulSet", self.workload.name))

    def _delete_surplus(self, by_name: Mapping[str, Pod]) -> None:
        """One at a time: the highest ordinal that should not exist, else the highest of an old revision."""
        highest_first = sorted(by_name.values(), key=lambda pod: -int(pod.labels[ORDINAL_LABEL]))
        for pod in highest_first:
            surplus = int(pod.labels[ORDINAL_LABEL]) >= self.replicas
            if surplus or pod.labels[REVISION_LABEL] != self.suffix(self.revision):
                self.world.delete_pod(pod.uid)
                return


class Job(PodOwner):
    """So many pods that succeed; one that was lost before is replaced."""

    def __init__(self, world: World, workload: Workload) -> None:
        super().__init__(world, workload)
        self._succeeded: set[str] = set()  # they count even when they are deleted

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None and after.phase == "Succeeded":
            self._succeeded.add(after.uid)
        super().pod_changed(before, after)

    def reconcile(self) -> None:
        missing = self.replicas - len(self._succeeded) - len(self.active)
        for _ in range(missing):
            if not self.may_create(self.created):
                break
            name = f"{self.workload.name}-{self.suffix('pod', self.created)[:5]}"
            self.create_pod(
                name, {"batch.kubernetes.io/job-name": self.workload.name}, self.owner("Job", self.workload.name)
            )


class DaemonSet(PodOwner):
    """One pod for each node that it may run on, bound to it by node affinity as in Kubernetes.

    A taint keeps new pods away; only one with the effect NoExecute ends those that run. An update replaces one pod after
    the other (`max_unavailable` at a time).
    """

    def reconcile(self) -> None:
        nodes = [each.node for each in self.world.nodes.values() if selects(self.template.spec, each.node)]
        pods = {_required_node(pod): pod for pod in self.active}
        stay = {node.name for node in nodes if tolerates(self._tolerations, node, running=True)}
        for node in nodes:
            if node.name not in pods and tolerates(self._tolerations, node):
                self._create(node)
        for name, pod in pods.items():
            if name not in stay:
                self.world.delete_pod(pod.uid)
        self._update([pod for name, pod in pods.items() if name in stay])

    def _update(self, pods: list[Pod]) -> None:
        old = [pod for pod in pods if pod.labels[REVISION_LABEL] != self.suffix(self.revision)]
        terminating = sum(pod.terminating for pod in self.pods.values())
        missing = sum(not pod.ready for pod in pods) + terminating
        for pod in sorted(old, key=lambda pod: pod.ready):
            if pod.ready and missing >= max(self.workload.max_unavailable, 1):
                return
            missing += pod.ready
            self.world.delete_pod(pod.uid)

    def _create(self, node: Node) -> None:
        name = f"{self.workload.name}-{self.suffix('pod', self.created)[:5]}"
        labels = {REVISION_LABEL: self.suffix(self.revision)}
        self.create_pod(name, labels, self.owner("DaemonSet", self.workload.name), self._spec(node))

    def _spec(self, node: Node) -> PodSpec:
        term = NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", (node.name,)),))
        affinity = self.template.spec.affinity or Affinity()
        pinned = replace(affinity, node_affinity=replace(affinity.node_affinity, required=(term,)))
        return replace(self.template.spec, affinity=pinned, tolerations=self._tolerations)

    @property
    def _tolerations(self) -> tuple[Toleration, ...]:
        return (*self.template.spec.tolerations, *DAEMON_TOLERATIONS)


def _required_node(pod: Pod) -> str:
    affinity = pod.spec.affinity
    assert affinity is not None and affinity.node_affinity.required is not None
    return affinity.node_affinity.required[0].match_fields[0].values[0]


OWNERS: Mapping[OwnerKind, Callable[[World, Workload], PodOwner]] = {
    OwnerKind.DEPLOYMENT: Deployment,
    OwnerKind.STATEFUL_SET: StatefulSetOwner,
    OwnerKind.JOB: Job,
    OwnerKind.DAEMON_SET: DaemonSet,
    OwnerKind.POD: BarePods,
}


class TracedOwner(PodOwner):
    """One recorded pod: it arrives, leaves at its time, and comes back if it is lost before.

    It then has another name, unless it is of a StatefulSet.
    """

    def __init__(self, world: World, traced: TracedPod) -> None:
        super().__init__(world, Workload(traced.name, traced.template, namespace=traced.namespace))
        self.traced = traced
        self._owner = self.owner(traced.owner_kind, traced.owner) if traced.owner else None

    def begin(self) -> None:
        traced, clock = self.traced, self.world.clock
        if traced.node and traced.arrival[0] <= clock.now:
            self._create(traced.node)
        else:
            arrival = uniform(*traced.arrival, self.world.seed, "arrival", traced.namespace, traced.name)
            clock.call_at(arrival, self._create)
        if traced.departure is not None:
            clock.call_at(traced.departure + DEPARTURE_DELAY, self.delete)

    def _create(self, node: str = "") -> None:
        if self.deleted:  # it left before it arrived
            return
        keeps_name = not self.created or self.traced.owner_kind == OwnerKind.STATEFUL_SET
        name = self.traced.name if keeps_name else f"{self.traced.name}-{self.created}"
        self.created += 1
        uid, node = self.traced.uid if self.created == 1 else "", node or self.traced.node_name
        self.world.create_pod(name, self.template, self.traced.namespace, self._owner, node, self.pod_changed, uid)

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            super().pod_changed(before, after)
        else:
            self.pods[after.uid] = after

    def surge(self) -> bool:
        if not self.deleted:
            self._create()
        return not self.deleted

    def reconcile(self) -> None:
        if not self.active and self.traced.owner and self.traced.owner_kind not in NODE_BOUND:
            self._create()


def start_owners(world: World, workloads: Iterable[Workload], traced: Iterable[TracedPod] = ()) -> dict[str, PodOwner]:
    """Create the owners of all pods; those of workloads by namespace/name. Each begins at its time."""
    owners = {f"{each.namespace}/{each.name}": OWNERS[each.kind](world, each) for each in workloads}
    for owner in owners.values():
        world.clock.call_at(owner.workload.created, owner.begin)
    for each in traced:
        TracedOwner(world, each).begin()
    world.node_listeners.append(lambda: _reconcile_daemon_sets(owners.values()))
    return owners


def _reconcile_daemon_sets(owners: Iterable[PodOwner]) -> None:
    for owner in owners:
        if isinstance(owner, DaemonSet) and owner.begun:
            owner.reconcile_soon()
