"""What happens to nodes: cordon, drain, failure, removal; and what the node lifecycle controller makes of it.

fail ──40 s──▶ NotReady, taint unreachable ──300 s──▶ its pods are deleted     recover: ready again, pods start again
drain: cordon, then every pod is evicted, and tried again every 5 s while a disruption budget forbids it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from trimtab.core.model.pod import NODE_BOUND, Pod
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, UNREACHABLE_TAINT, UNSCHEDULABLE_TAINT, Taint, tolerated
from trimtab.sim.budgets import Budgets
from trimtab.sim.kubelets import Kubelets
from trimtab.sim.scenario import NodeAction, NodeEvent
from trimtab.sim.world import World

MONITOR_GRACE, TOLERATION_SECONDS = 40.0, 300.0  # kube-controller-manager's, and the default toleration of pods
DRAIN_RETRY = 5.0
UNREACHABLE = Taint(UNREACHABLE_TAINT, "", NO_EXECUTE)
UNREACHABLE_SOON = Taint(UNREACHABLE_TAINT, "", NO_SCHEDULE)
CORDONED = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)


class NodeLifecycle:
    """Carries out node events on a world."""

    def __init__(self, world: World, kubelets: Kubelets, budgets: Budgets) -> None:
        self.world, self.kubelets, self.budgets = world, kubelets, budgets
        self._actions: Mapping[NodeAction, Callable[[str], None]] = {
            NodeAction.CORDON: self.cordon,
            NodeAction.UNCORDON: self.uncordon,
            NodeAction.DRAIN: self.drain,
            NodeAction.FAIL: self.fail,
            NodeAction.RECOVER: self.recover,
            NodeAction.REMOVE: world.delete_node,
        }

    def schedule(self, event: NodeEvent) -> None:
        self.world.clock.call_at(event.at, lambda: self._carry_out(event))

    def _carry_out(self, event: NodeEvent) -> None:
        if event.node in self.world.nodes:
            self._actions[event.action](event.node)

    def cordon(self, name: str) -> None:
        """Like `kubectl cordon` and the node controller: set the field and its taint."""
        self._change(name, unschedulable=True, add=(CORDONED,))

    def uncordon(self, name: str) -> None:
        self._change(name, unschedulable=False, remove=(CORDONED,))

    def drain(self, name: str) -> None:
        """Pods of DaemonSets and static pods stay, as with `kubectl drain --ignore-daemonsets`."""
        self.cordon(name)
        self._evict(drainable(self.pods_on(name)))

    def _evict(self, pods: list[Pod]) -> None:
        left = (self.world.pods[pod.uid] for pod in pods if pod.uid in self.world.pods)
        refused = [pod for pod in drainable(left) if not self.budgets.evict(pod.uid, "drained")]
        if refused:
            self.world.clock.call_later(DRAIN_RETRY, lambda: self._evict(refused))

    def fail(self, name: str) -> None:
        """The kubelet and all containers stop; the API server does not know yet."""
        if name in self.world.silent_nodes:
            return
        since = self.world.silent_nodes[name] = self.world.clock.now
        for pod in self.pods_on(name):
            self.world.usage.stop(pod.uid)
        self._change(name)
        self.world.clock.call_later(MONITOR_GRACE, lambda: self._notice(name, since))

    def _notice(self, name: str, since: float) -> None:
        """Unless the node has recovered meanwhile, even if it has failed again."""
        if self.world.silent_nodes.get(name) != since:
            return
        self._change(name, ready=False, add=(UNREACHABLE_SOON, UNREACHABLE))
        for pod in self.pods_on(name):
            self.kubelets.stop(pod.uid)
        self.world.clock.call_later(TOLERATION_SECONDS, lambda: self._give_up(name, since))

    def _give_up(self, name: str, since: float) -> None:
        """Pods that do not tolerate the taint for ever are deleted."""
        if self.world.silent_nodes.get(name) != since:
            return
        for pod in self.pods_on(name):
            if not tolerated(UNREACHABLE, pod.spec.tolerations):
                self.world.remove_pod(pod.uid, "node failed")

    def recover(self, name: str) -> None:
        if self.world.silent_nodes.pop(name, None) is None:
            return
        self._change(name, ready=True, remove=(UNREACHABLE_SOON, UNREACHABLE))
        for pod in self.pods_on(name):
            self.kubelets.start(pod.uid)

    def pods_on(self, name: str) -> list[Pod]:
        return [pod for pod in self.world.pods.values() if pod.node == name]

    def _change(self, name: str, add: tuple[Taint, ...] = (), remove: tuple[Taint, ...] = (), **fields: bool) -> None:
        simulated = self.world.nodes[name]
        taints = (*(each for each in simulated.node.taints if each not in (*add, *remove)), *add)
        self.world.put_node(replace(simulated, node=replace(simulated.node, taints=taints, **fields)))


def drainable(pods: Iterable[Pod]) -> list[Pod]:
    """Those that a drain evicts: not those that belong to their node, and none that has finished or is terminating."""
    return [
        pod
        for pod in pods
        if not (pod.terminating or pod.finished or (pod.owner is not None and pod.owner.kind in NODE_BOUND))
    ]
