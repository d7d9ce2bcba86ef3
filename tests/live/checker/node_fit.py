"""Rules about a pod and its node: node affinity, taints, resources, ports."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from tests.live.checker.cluster_objects import ClusterObjects, full_name
from tests.live.checker.selectors import CORDON, node_affinity_matches, tolerates, untolerated
from tests.live.node_accounting import node_allocatable, pod_host_ports, pod_requests, ports_conflict


def strays(cluster: ClusterObjects) -> Iterator[str]:
    """A pod on a node that does not exist."""
    return (
        f"{full_name(pod)} is on {pod['spec']['nodeName']}, which does not exist" for pod in cluster.on_missing_nodes
    )


def choice(cluster: ClusterObjects) -> Iterator[str]:
    """A pod on a node that its node selector or required node affinity does not match."""
    found = ((pod, cluster.node_of(pod)) for pod in cluster.bound)
    return (
        f"{full_name(pod)} did not want {full_name(node)}"
        for pod, node in found
        if not node_affinity_matches(pod, node)
    )


def taints(cluster: ClusterObjects) -> Iterator[str]:
    """A pod on a node with a taint that it does not tolerate."""
    for pod in cluster.bound:
        for taint in untolerated(pod, cluster.node_of(pod)):
            yield f"{full_name(pod)} does not tolerate {taint['key']} of {pod['spec']['nodeName']}"


def cordons(cluster: ClusterObjects) -> Iterator[str]:
    """A pod on an unschedulable node without a toleration."""
    for pod in cluster.bound:
        if cluster.node_of(pod)["spec"].get("unschedulable") and not tolerates(pod, CORDON):
            yield f"{full_name(pod)} is on {pod['spec']['nodeName']}, which is unschedulable"


def room(cluster: ClusterObjects) -> Iterator[str]:
    """A node whose pods request more than its allocatable."""
    for node, pods in cluster.pods_by_node.items():
        taken: Counter[str] = Counter()
        for pod in pods:
            taken.update(pod_requests(pod))
        offered = node_allocatable(cluster.nodes_by_name[node])
        over = sorted(kind for kind in taken if taken[kind] > offered.get(kind, 0))
        yield from (f"{node} is over: {kind} {taken[kind]} of {offered.get(kind, 0)}" for kind in over)


def host_ports(cluster: ClusterObjects) -> Iterator[str]:
    """Two pods on one node with the same host port."""
    for node, pods in cluster.pods_by_node.items():
        held = [(pod, port) for pod in pods for port in pod_host_ports(pod)]
        for (one, its), (other, theirs) in combinations(held, 2):
            if one is not other and ports_conflict(its, theirs):
                yield f"{full_name(one)} and {full_name(other)} both hold {its[2]}/{its[1]} of {node}"
