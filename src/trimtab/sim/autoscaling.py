"""Autoscalers of the simulated cluster: more pods for a busy workload, more nodes for pods that find no room."""

from __future__ import annotations

import math
from itertools import count

from msgspec.structs import replace

from trimtab.core.model.node import HOSTNAME, Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.sim.node_lifecycle import NodeLifecycle, drainable
from trimtab.sim.node_matching import selects, tolerates
from trimtab.sim.owners import PodOwner
from trimtab.sim.scenario import ClusterAutoscaling, HorizontalAutoscaling, SimulatedNode
from trimtab.sim.usage import RESOURCES
from trimtab.sim.world import World

SCAN_INTERVAL = 10.0  # the cluster autoscaler's default
SETTLE_SECONDS = 2 * SCAN_INTERVAL  # pods need some time to be scheduled to a new node
FEW_PODS = 4  # a HorizontalPodAutoscaler adds at most so many at once, or doubles their number


class HorizontalAutoscaler:
    """Scales one workload by the measured CPU of its ready pods, as a HorizontalPodAutoscaler does.

    The workload's replicas together have the work of as many pods as it was created with: more of them have less each.
    """

    def __init__(self, world: World, owner: PodOwner, settings: HorizontalAutoscaling) -> None:
        self.world, self.owner, self.settings = world, owner, settings
        self._recommended: list[tuple[float, int]] = []
        world.pod_listeners.append(self._divide_work)
        world.clock.call_every(settings.interval, self._sync)

    def _divide_work(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is None or (pod.uid not in self.owner.pods and after is not None):
            return
        ready = [uid for uid, each in self.owner.pods.items() if each.ready and not each.terminating]
        for uid in ready:
            self.world.usage.scale(uid, self.owner.workload.replicas / len(ready))

    def _sync(self) -> None:
        now, settings = self.world.clock.now, self.settings
        wanted = self._wanted()
        if wanted is None or not self.owner.begun or self.owner.deleted:
            return
        known = self._recommended or [(now, self.owner.replicas)]
        kept = [each for each in known if each[0] > now - settings.scale_down_after]
        self._recommended = [*kept, (now, wanted)]
        highest = max(replicas for _, replicas in self._recommended)
        if wanted > self.owner.replicas or highest < self.owner.replicas:
            self.owner.scale(wanted if wanted > self.owner.replicas else highest)

    def _wanted(self) -> int | None:
        usage = self.world.usage.latest
        if usage is None:
            return None
        mine = [at for at, uid in enumerate(usage.pods) if uid in self.owner.pods and self.owner.pods[uid].ready]
        requested = sum(self.world.templates[usage.pods[at]].requests.of(CPU) for at in mine)
        if not mine or not requested:
            return None
        ratio = float(usage.pod_used[0, mine].sum()) / requested / self.settings.target
        near = abs(ratio - 1) <= self.settings.tolerance
        wanted = self.owner.replicas if near else math.ceil(len(mine) * ratio)
        fastest = max(2 * self.owner.replicas, self.owner.replicas + FEW_PODS)
        return min(max(wanted, self.settings.min_replicas), self.settings.max_replicas, fastest)


class ClusterAutoscaler:
    """Adds nodes for pods that stay unschedulable, and removes those that it added once others have room for their pods."""

    def __init__(self, world: World, lifecycle: NodeLifecycle, settings: ClusterAutoscaling) -> None:
        self.world, self.lifecycle, self.settings = world, lifecycle, settings
        self._numbers = count(1)
        self._arriving = self._settling = 0  # nodes on order, and nodes whose pods may not have found them yet
        self._idle_since: dict[str, float] = {}  # of the nodes that it added: since when they are nearly empty
        self._own: set[str] = set()
        self._draining: set[str] = set()
        world.clock.call_every(SCAN_INTERVAL, self._scan)

    def _scan(self) -> None:
        helped = [pod for pod in self.world.pending.values() if self._would_help(pod)]
        if not helped:
            self._remove_idle()
            return
        room = self.settings.max_nodes - len(self.world.nodes) - self._arriving
        for _ in range(min(self._nodes_for(helped) - self._arriving - self._settling, room)):
            self._arriving += 1
            self.world.clock.call_later(self.settings.provision_delay, self._join)

    def _would_help(self, pod: Pod) -> bool:
        """Whether the pod found no node, preemption makes no room for it, and a new node would take it."""
        node, offered = self.settings.node, dict(self.settings.node.allocatable)
        return (
            pod.unschedulable_condition is not None
            and not pod.nominated_node
            and all(amount <= offered.get(name, 0) for name, amount in pod.requests.amounts)
            and selects(pod.spec, node)
            and tolerates(pod.spec.tolerations, node)
        )

    def _nodes_for(self, pods: list[Pod]) -> int:
        offered = dict(self.settings.node.allocatable)
        needed = ((sum(pod.requests.of(each) for pod in pods), offered.get(each, 0)) for each in RESOURCES)
        return max(1, *(math.ceil(amount / max(size, 1)) for amount, size in needed))

    def _join(self) -> None:
        self._arriving, self._settling = self._arriving - 1, self._settling + 1
        self.world.clock.call_later(SETTLE_SECONDS, self._settled)
        node = self.settings.node
        name = next(name for name in (f"{node.name}-{number}" for number in self._numbers) if not self._taken(name))
        labels = {**node.labels, HOSTNAME: name}
        self._own.add(name)
        self.world.put_node(SimulatedNode(replace(node, name=name, uid=name, labels=labels)))

    def _settled(self) -> None:
        self._settling -= 1

    def _taken(self, name: str) -> bool:
        return name in self.world.usage.rows  # of all nodes that ever were

    def _remove_idle(self) -> None:
        """One at a time: an own node below the threshold for long enough is drained, and removed when it is empty."""
        now = self.world.clock.now
        for name in [name for name in self.world.nodes if name in self._own]:
            if name in self._draining:
                if not drainable(self.lifecycle.pods_on(name)):
                    self._remove(name)
                return
            if self._requested(name) >= self.settings.idle_below or not self._fits_elsewhere(name):
                self._idle_since.pop(name, None)
            elif now - self._idle_since.setdefault(name, now) >= self.settings.idle_after:
                self._draining.add(name)
                self.lifecycle.drain(name)
                return

    def _remove(self, name: str) -> None:
        self._own.discard(name)
        self._draining.discard(name)
        self._idle_since.pop(name, None)
        self.world.delete_node(name)

    def _requested(self, name: str) -> float:
        usage, row = self.world.usage, self.world.usage.rows[name]
        allocatable = dict(self.world.nodes[name].node.allocatable)
        shares = (usage.requested[at, row] / max(allocatable.get(each, 0), 1) for at, each in enumerate(RESOURCES))
        return float(max(shares))

    def _fits_elsewhere(self, name: str) -> bool:
        """Whether other nodes have room for the pods of this one by their requests, the largest pod first."""
        others = [
            each.node for each in self.world.nodes.values() if self._takes_pods(each.node) and each.node.name != name
        ]
        free = {each.name: self._free(each) for each in others}
        pods = [[pod.requests.of(each) for each in RESOURCES] for pod in drainable(self.lifecycle.pods_on(name))]
        for amounts in sorted(pods, reverse=True):
            room = next(
                (each for each in free.values() if all(a <= f for a, f in zip(amounts, each, strict=True))), None
            )
            if room is None:
                return False
            room[:] = [left - amount for left, amount in zip(room, amounts, strict=True)]
        return True

    def _takes_pods(self, node: Node) -> bool:
        return node.name not in self._draining and tolerates((), node)

    def _free(self, node: Node) -> list[float]:
        row, allocatable = self.world.usage.rows[node.name], dict(node.allocatable)
        requested = self.world.usage.requested[:, row]
        return [allocatable.get(each, 0) - float(requested[at]) for at, each in enumerate(RESOURCES)]
