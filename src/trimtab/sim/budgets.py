"""Disruption budgets of the simulated cluster, and evictions that respect them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import Pod
from trimtab.sim.owners import PodOwner, selector_of
from trimtab.sim.randomness import uid_of
from trimtab.sim.scenario import DisruptionBudget
from trimtab.sim.world import World


class Budgets:
    """Keeps every PodDisruptionBudget up to date, as its controller does, and evicts pods."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.evictions: list[tuple[float, str, str]] = []  # time, pod and reason
        self._needed: dict[str, Callable[[], int]] = {}  # by budget: how many pods must stay ready
        self._ready: dict[str, set[str]] = {}  # by budget: the UIDs of its ready pods
        world.pod_listeners.append(self._pod_changed)
        for each in [*world.objects.values()]:
            if isinstance(each, PodDisruptionBudget):
                self._adopt(each)

    def _adopt(self, budget: PodDisruptionBudget) -> None:
        """One that the cluster came with: what it needs follows from what it allows now."""
        running = sum(pod.holds_resources and _covers(budget, pod) for pod in self.world.pods.values())
        needed = running - budget.disruptions_allowed
        self._needed[budget.key], self._ready[budget.key] = lambda: needed, set()

    def add(self, owner: PodOwner) -> None:
        """Create the budget of a workload that has one."""
        workload, settings = owner.workload, owner.workload.budget
        if settings is None:
            return
        budget = PodDisruptionBudget(
            name=workload.name,
            uid=uid_of(self.world.seed, "budget", workload.namespace, workload.name),
            namespace=workload.namespace,
            selector=selector_of(workload.template.labels),
        )
        self._needed[budget.key], self._ready[budget.key] = lambda: needed(settings, owner.replicas), set()
        self.world.put_object(budget)

    def evict(self, uid: str, why: str) -> bool:
        """Delete the pod if its budgets allow it; False is the API server's 429."""
        pod = self.world.pods[uid]
        if self.blocking(pod):
            return False
        self.evictions.append((self.world.clock.now, pod.key, why))
        self.world.delete_pod(uid, why)
        return True

    def blocking(self, pod: Pod) -> list[str]:
        """The budgets that forbid the eviction of this pod, as namespace/name; one that is not ready may always go."""
        covering = (each for each in self._budgets() if pod.ready and _covers(each, pod))
        return [each.key for each in covering if each.disruptions_allowed <= 0]

    def _budgets(self) -> list[PodDisruptionBudget]:
        objects = (self.world.objects.get((PodDisruptionBudget.kind, key)) for key in self._needed)
        return [each for each in objects if isinstance(each, PodDisruptionBudget)]

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if not self._needed or pod is None:
            return
        is_ready = after is not None and after.ready and not after.terminating
        for budget in self._budgets():
            if _covers(budget, pod):
                ready = self._ready[budget.key]
                (ready.add if is_ready else ready.discard)(pod.uid)
                self._update(budget, len(ready))

    def _update(self, budget: PodDisruptionBudget, ready: int) -> None:
        allowed = max(ready - self._needed[budget.key](), 0)
        if allowed != budget.disruptions_allowed:
            self.world.put_object(replace(budget, disruptions_allowed=allowed))


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return budget.namespace == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)


def needed(budget: DisruptionBudget, replicas: int) -> int:
    """How many pods must stay ready."""
    if budget.min_available is not None:
        return budget.min_available
    return replicas - (budget.max_unavailable if budget.max_unavailable is not None else 0)
