"""Which pods a rival may evict, and how many: the DefaultEvictor of the SIG descheduler; Koordinator's has the same rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf

from trimtab.core.framework.volumes import claim_names
from trimtab.core.model.duration import DAY
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import EVICT_ANYWAY, MIRROR, PREFER_NO_EVICTION, Pod
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.setting import INT32, check_ranges, setting
from trimtab.core.rescheduling.strategies.interface import StrategyContext

SYSTEM_CRITICAL = 2_000_000_000  # the priority of system-cluster-critical
DAEMON_SET, STATIC = "DaemonSet", "Node"  # kinds of owners


@dataclass(frozen=True, slots=True)
class DefaultEvictor:
    """What is not protected may be evicted. A pod with the descheduler's annotation `evict` is never protected."""

    evict_local_storage_pods: bool = setting(False, "false unless set: whether pods with local volumes are evicted")
    evict_daemon_set_pods: bool = setting(False, "false unless set: whether pods of DaemonSets are evicted")
    evict_system_critical_pods: bool = setting(
        False, "false unless set: whether pods of any priority are evicted, whatever `priorityThreshold` says"
    )
    ignore_pvc_pods: bool = setting(False, "false unless set: whether pods with volume claims stay")
    ignore_pods_without_pdb: bool = setting(
        False, "false unless set: whether pods without a disruption budget stay", name="ignorePodsWithoutPDB"
    )
    ignore_resource_claim_pods: bool = setting(False, "false unless set: whether pods with resource claims stay")
    mandatory_no_eviction: bool = setting(False, "false unless set: whether pods with `prefer-no-eviction` stay")
    priority_threshold: int | None = setting(
        None, "none unless set: pods of this priority or a higher one stay", between=(-INT32, INT32)
    )
    min_replicas: int = setting(0, "0 unless set: owners with fewer pods keep them", between=(0, INT32))
    min_pod_age: float = setting(0.0, "0s unless set: younger pods stay", seconds=(0, 365 * DAY))
    label_selector: LabelSelector | None = setting(None, "none unless set: pods that do not match stay")
    included_namespaces: tuple[str, ...] = setting((), "all unless set: pods of other namespaces stay")
    excluded_namespaces: tuple[str, ...] = setting((), "none unless set: pods of these namespaces stay")
    max_per_node: int | None = setting(
        None, "no limit unless set: of evictions of a node in one round", between=(0, INT32)
    )
    max_per_namespace: int | None = setting(
        None, "no limit unless set: of evictions of a namespace in one round", between=(0, INT32)
    )
    max_total: int | None = setting(None, "no limit unless set: of all evictions in one round", between=(0, INT32))

    def __post_init__(self) -> None:
        check_ranges(self)


AS_SHIPPED = DefaultEvictor()


class Evictor:
    """One round: what the evictor says of each pod, and what it has let through so far."""

    def __init__(self, settings: DefaultEvictor, context: StrategyContext) -> None:
        self._settings, self._context = settings, context
        self._evicted: list[Pod] = []

    def may_evict(self, pod: Pod) -> bool:
        if pod.terminating or pod.finished or not self._in_namespaces(pod):
            return False
        return EVICT_ANYWAY in pod.annotations or not any(protects(pod) for protects in self._protections())

    def left(self, node: str) -> float:
        """How many more pods of the node may be evicted in this round."""
        of_node = sum(pod.node == node for pod in self._evicted)
        return max(min(_left(self._settings.max_per_node, of_node), _left(self._settings.max_total, self._total)), 0)

    def take(self, pod: Pod) -> bool:
        """Counts an eviction, unless its namespace has lost enough pods."""
        in_namespace = sum(pod.namespace == each.namespace for each in self._evicted)
        if _left(self._settings.max_per_namespace, in_namespace) <= 0:
            return False
        self._evicted.append(pod)
        return True

    @property
    def _total(self) -> int:
        return len(self._evicted)

    def _in_namespaces(self, pod: Pod) -> bool:
        included = self._settings.included_namespaces
        return pod.namespace not in self._settings.excluded_namespaces and (not included or pod.namespace in included)

    def _protections(self) -> Iterator[Callable[[Pod], bool]]:
        settings = self._settings
        yield lambda pod: pod.owner is None or pod.owner.kind == STATIC or MIRROR in pod.annotations
        if not settings.evict_daemon_set_pods:
            yield lambda pod: pod.owner is not None and pod.owner.kind == DAEMON_SET
        if not settings.evict_system_critical_pods:
            limit = SYSTEM_CRITICAL if settings.priority_threshold is None else settings.priority_threshold
            yield lambda pod: pod.priority >= min(limit, SYSTEM_CRITICAL)
        if not settings.evict_local_storage_pods:
            yield lambda pod: bool(pod.spec.local_volumes)
        if settings.mandatory_no_eviction:
            yield lambda pod: PREFER_NO_EVICTION in pod.annotations
        yield from self._chosen_protections()

    def _chosen_protections(self) -> Iterator[Callable[[Pod], bool]]:
        settings, now = self._settings, self._context.now
        if settings.ignore_pvc_pods:
            yield lambda pod: any(claim_names(pod))
        if settings.ignore_pods_without_pdb:
            yield lambda pod: not any(each.covers(pod) for each in self._budgets)
        if settings.ignore_resource_claim_pods:
            yield lambda pod: bool(pod.spec.resource_claims)
        if (selector := settings.label_selector) is not None:
            yield lambda pod: not selector.matches(pod.labels)
        if settings.min_replicas > 1:
            yield lambda pod: pod.owner is not None and self._replicas[pod.owner.uid] < settings.min_replicas
        if settings.min_pod_age:
            yield lambda pod: pod.started is None or now - pod.started < settings.min_pod_age

    @cached_property
    def _replicas(self) -> Counter[str]:
        return Counter(pod.owner.uid for pod in self._context.cluster.pods.values() if pod.owner is not None)

    @cached_property
    def _budgets(self) -> list[PodDisruptionBudget]:
        return list(self._context.cluster.objects.of_kind(PodDisruptionBudget).values())


def _left(limit: int | None, used: int) -> float:
    return inf if limit is None else limit - used
