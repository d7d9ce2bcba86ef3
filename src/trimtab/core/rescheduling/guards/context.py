"""What guards look at: the cluster, the moves under way, and pods and budgets grouped as guards need them.

A workload is what a user would call so: the pods of a Deployment are one, whatever ReplicaSets they are of. The Deployment
itself is not watched: its name is that of a ReplicaSet without the hash, which its pods carry as a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import exp
from typing import NamedTuple

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.ledger import MoveRecord, OwnerSlot
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import TERMINAL_PHASES, Owner, Pod
from trimtab.core.model.steps import Steps, finish
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import Suggestion
from trimtab.core.rescheduling.strategy_record import GOOD_STANDING, Standing, standing

MOVES_FADE = 6 * 3600.0  # seconds
PODS_AT_ONCE = 10_000  # grouped in one step
REVISION = "controller-revision-hash"  # of StatefulSets
TEMPLATE_HASHES = ("pod-template-hash", "rollouts-pod-template-hash")  # of Deployments, and of Argo Rollouts


def owner_slot(pod: Pod) -> OwnerSlot:
    """What stays the same when a pod is replaced."""
    if pod.owner is None:
        return pod.namespace, "", pod.name
    return pod.namespace, pod.owner.uid, pod.name if pod.owner.kind == "StatefulSet" else ""


def workload_name(pod: Pod, owner: Owner) -> str:
    """Kind and name, as in messages of kubectl."""
    if owner.kind == "ReplicaSet":
        template_hash = pod.labels.get(TEMPLATE_HASHES[0]) or pod.labels.get(TEMPLATE_HASHES[1])
        if template_hash and owner.name.endswith(f"-{template_hash}"):
            return f"Deployment {owner.name.removesuffix(f'-{template_hash}')}"
    return f"{owner.kind} {owner.name}"


def can_surge(pod: Pod) -> bool:
    """Whether its workload may have one replica more for a while: a Deployment, or a ReplicaSet of nobody else."""
    return pod.owner is not None and pod.owner.kind == "ReplicaSet" and TEMPLATE_HASHES[1] not in pod.labels


class UnderWay(NamedTuple):
    """A move whose replacement is not ready yet; `replacement` is its UID, empty if it was not seen.

    `pod` is the one that leaves, as it was, and `target` the node that its replacement is meant for.
    """

    slot: OwnerSlot
    replacement: str = ""
    target: str = ""
    pod: Pod | None = None


@dataclass
class Workload:
    """The pods of one workload that have not finished, and how many of them are being moved."""

    name: str
    pods: list[Pod] = field(default_factory=list)
    moves: int = 0

    @cached_property
    def revisions(self) -> frozenset[tuple[str, str]]:
        """ReplicaSet or other owner, and revision of that; of few workloads anybody asks for them."""
        owned = ((pod.owner, pod.labels) for pod in self.pods)
        return frozenset((owner.uid, labels.get(REVISION, "")) for owner, labels in owned if owner is not None)

    def share(self, fraction: float) -> int:
        """Of the pods that are to stay, rounded down."""
        return int(fraction * sum(not pod.terminating for pod in self.pods) + 1e-9)


@dataclass(frozen=True)
class GuardContext:
    """For one plan: what is grouped here is grouped once.

    `holds` are the owners' pods that must not be moved again before that time; `under_way` the moves by the UID of the pod
    that leaves; `forbidden` the kinds that may not be listed, with the API server's message. `stopped` is why the process
    itself moves nothing; `evicting` is set where the pod will be evicted, whatever the settings prefer. `records` are the
    ledger's; `scheduler_problems` say why a scheduler, by its name, would not place a replacement.
    """

    cluster: Cluster
    settings: ReschedulingSettings
    now: float
    holds: Mapping[OwnerSlot, float] = field(default_factory=dict)
    under_way: Mapping[str, UnderWay] = field(default_factory=dict)
    forbidden: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""
    evicting: bool = False
    records: Sequence[MoveRecord] = ()
    scheduler_problems: Mapping[str, str] = field(default_factory=dict)
    too_many_unready: bool = False  # nodes, when that was last asked

    @cached_property
    def _standings(self) -> dict[str, Standing]:
        return {}

    def standing(self, suggestion: Suggestion) -> Standing:
        """What earlier moves of its strategy mean for a suggestion; nothing if load is not its reason."""
        if suggestion.worth:
            return GOOD_STANDING
        found = self._standings.get(suggestion.strategy)
        if found is None:
            found = self._standings[suggestion.strategy] = standing(self.records, suggestion.strategy, self.now)
        return found

    @cached_property
    def _recent_moves(self) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for each in sorted(self.records, key=lambda record: record.at):
            if each.replacement and each.counts:
                faded = exp(-max(self.now - each.at, 0.0) / MOVES_FADE)
                found[each.replacement] = found.get(each.uid, 0.0) + faded
        return found

    def recent_moves(self, uid: str) -> float:
        """How often the pod, or those before it in its place, were moved; a move of six hours ago counts about a third."""
        return self._recent_moves.get(uid, 0.0)

    @cached_property
    def moving(self) -> frozenset[str]:
        """The UIDs of pods that leave, and of their replacements."""
        return frozenset(self.under_way) | {each.replacement for each in self.under_way.values()}

    @cached_property
    def pods_by_namespace(self) -> Mapping[str, list[Pod]]:
        """One quick pass over all pods, and the others over few."""
        return finish(self._by_namespace())

    def _by_namespace(self) -> Steps[Mapping[str, list[Pod]]]:
        found: dict[str, list[Pod]] = {}
        pods = iter(self.cluster.pods.values())
        while some := list(islice(pods, PODS_AT_ONCE)):
            for pod in some:
                found.setdefault(pod.namespace, []).append(pod)
            yield
        return found

    @cached_property
    def _workloads(self) -> dict[str, dict[str, Workload]]:
        """By namespace and the UID of an owner; several owners may be of one workload."""
        return {}

    def workload(self, pod: Pod) -> Workload:
        """The workload of a pod that has an owner."""
        assert pod.owner is not None
        found = self._workloads.get(pod.namespace)
        if found is None:
            found = self._workloads[pod.namespace] = finish(self._group(pod.namespace))
        return found.get(pod.owner.uid) or Workload(workload_name(pod, pod.owner), [pod])

    def prepare(self, pods: Iterable[Pod]) -> Steps[None]:
        """Groups in short steps what would be grouped at once when a guard asks for the workloads of these pods."""
        if "pods_by_namespace" not in self.__dict__:
            self.__dict__["pods_by_namespace"] = yield from self._by_namespace()
        for namespace in dict.fromkeys(pod.namespace for pod in pods if pod.owner is not None):
            if namespace not in self._workloads:
                self._workloads[namespace] = yield from self._group(namespace)

    def _group(self, namespace: str) -> Steps[dict[str, Workload]]:
        by_name: dict[str, Workload] = {}
        by_owner: dict[str, Workload] = {}
        for number, pod in enumerate(self.pods_by_namespace.get(namespace, ()), 1):
            if not number % PODS_AT_ONCE:
                yield
            owner = pod.owner
            if owner is not None and pod.phase not in TERMINAL_PHASES:
                workload = by_owner.get(owner.uid)
                if workload is None:
                    name = workload_name(pod, owner)
                    workload = by_owner[owner.uid] = by_name.setdefault(name, Workload(name))
                workload.pods.append(pod)
        for each in self.under_way.values():
            if each.slot[1] in by_owner:
                by_owner[each.slot[1]].moves += 1
        yield
        return by_owner

    @cached_property
    def _budgets(self) -> Mapping[str, list[PodDisruptionBudget]]:
        found: dict[str, list[PodDisruptionBudget]] = {}
        for budget in self.cluster.objects.of_kind(PodDisruptionBudget).values():
            found.setdefault(budget.namespace, []).append(budget)
        return found

    @cached_property
    def _covering(self) -> dict[str, list[PodDisruptionBudget]]:
        return {}

    def budgets(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Those that cover the pod; several guards ask for them."""
        found = self._covering.get(pod.uid)
        if found is None:
            found = [each for each in self._budgets.get(pod.namespace, ()) if each.covers(pod)]
            self._covering[pod.uid] = found
        return found

    @cached_property
    def _healthy(self) -> dict[str, int]:
        return {}

    def healthy(self, budget: PodDisruptionBudget) -> int:
        """How many pods of the budget are ready by our own count, without those whose eviction is under way."""
        found = self._healthy.get(budget.key)
        if found is None:
            pods = self.pods_by_namespace.get(budget.namespace, ())
            found = self._healthy[budget.key] = sum(
                is_available(pod) and budget.covers(pod) and not self._leaves(pod, budget) for pod in pods
            )
        return found

    def _leaves(self, pod: Pod, budget: PodDisruptionBudget) -> bool:
        return pod.uid in self.under_way or pod.name in budget.disrupted_pods


def is_available(pod: Pod) -> bool:
    """Whether it runs, is ready and stays so."""
    return pod.ready and pod.phase == "Running" and not pod.terminating


Guard = Callable[[GuardContext, Pod], str]
ClusterGuard = Callable[[GuardContext], str]
