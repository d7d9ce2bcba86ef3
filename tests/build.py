"""Builders for tests: one line makes a node, a pod or a whole cluster, with harmless defaults.

    cluster(node("a", cpu="8", taints=["gpu=yes:NoSchedule"]), pod("web", cpu="500m", on="a"))

Amounts are written as in Kubernetes. Short forms: a taint is `key=value:Effect`, a toleration the same or `key:Effect` for
any value (`""` tolerates everything), a selector requirement is `zone In a,b`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.affinity import Affinity, NodeAffinity, PreferredSchedulingTerm
from trimtab.core.model.node import Image, Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import HostPort, Pod, PodSpec, Volume
from trimtab.core.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    ContainerRequests,
    PodRequests,
    amounts,
    pod_requests,
)
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement, label_pairs
from trimtab.core.model.taints import Taint, Toleration
from trimtab.wire.quantity import nanos

Labels = Mapping[str, str]

MIB = 1024 * 1024


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    storage: str = "100Gi",
    extra: Labels | None = None,
    labels: Labels | None = None,
    taints: Iterable[str] = (),
    images: Mapping[str, int] | None = None,
    unschedulable: bool = False,
    version: int = 0,
    uid: str = "",
) -> Node:
    """A node; `extra` are other resources, `images` names and sizes in MiB."""
    allocatable = {CPU: cpu, MEMORY: memory, PODS: pods, EPHEMERAL_STORAGE: storage, **(extra or {})}
    return Node(
        name,
        uid=uid,
        version=version,
        labels=labels or {},
        taints=tuple(map(taint, taints)),
        unschedulable=unschedulable,
        allocatable=amounts({resource: nanos(amount) for resource, amount in allocatable.items()}),
        images=tuple(Image((image,), size * MIB) for image, size in (images or {}).items()),
    )


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    extra: Labels | None = None,
    on: str = "",
    priority: int = 0,
    namespace: str = "default",
    labels: Labels | None = None,
    selector: Labels | None = None,
    required: Iterable[NodeSelectorTerm] | None = None,
    preferred: Iterable[PreferredSchedulingTerm] | None = None,
    tolerations: Iterable[str] = (),
    ports: Iterable[int | HostPort] = (),
    images: Iterable[str] = ("app",),
    volumes: Iterable[Volume] = (),
    gates: Iterable[str] = (),
    nominated: str = "",
    requests: PodRequests | None = None,
    scheduler: str = "default-scheduler",
    phase: str = "",
    version: int = 0,
    uid: str = "",
) -> Pod:
    """A pod with one container; `extra` are other requests, `on` is its node."""
    return Pod(
        uid=uid or f"uid-{name}",
        namespace=namespace,
        name=name,
        version=version,
        labels=labels or {},
        node=on,
        nominated_node=nominated,
        scheduler_name=scheduler,
        priority=priority,
        scheduling_gates=tuple(gates),
        spec=PodSpec(
            node_selector=None if selector is None else label_pairs(dict(selector)),
            affinity=_affinity(required, preferred),
            tolerations=tuple(map(toleration, tolerations)),
            images=tuple(images),
            volumes=tuple(volumes),
            ports=tuple(each if isinstance(each, HostPort) else HostPort("TCP", "0.0.0.0", each) for each in ports),
        ),
        requests=requests if requests is not None else asks(cpu=cpu, memory=memory, extra=extra),
        phase=phase or ("Running" if on else "Pending"),
    )


def asks(cpu: str = "", memory: str = "", extra: Labels | None = None) -> PodRequests:
    """The requests of a pod with one container; an empty amount is no request."""
    amounts_by_name = {CPU: cpu, MEMORY: memory, **(extra or {})}
    return pod_requests(
        [ContainerRequests({name: nanos(amount) for name, amount in amounts_by_name.items() if amount})]
    )


def cluster(*objects: Node | Pod | Object) -> Cluster:
    """A cluster with these objects, added in this order."""
    cluster = Cluster()
    for each in objects:
        if isinstance(each, Node):
            cluster.upsert_node(each)
        elif isinstance(each, Object):
            cluster.upsert_object(each)
        else:
            cluster.upsert_pod(each)
    return cluster


def taint(text: str) -> Taint:
    """`key=value:Effect`."""
    mark, _, effect = text.rpartition(":")
    key, _, value = mark.partition("=")
    return Taint(key, value, effect)


def toleration(text: str) -> Toleration:
    """`key=value:Effect` for one value, `key:Effect` for any, `:Effect` for any key; without effect, all effects."""
    mark, _, effect = text.rpartition(":") if ":" in text else (text, "", "")
    key, equals, value = mark.partition("=")
    return Toleration(key, "Equal" if equals else "Exists", value, effect)


def term(*lines: str, fields: Iterable[str] = ()) -> NodeSelectorTerm:
    """Requirements such as `zone In a,b` or `gpu Exists`; `fields` are those on fields: `metadata.name In a`."""
    return NodeSelectorTerm(tuple(map(requirement, lines)), tuple(map(requirement, fields)))


def requirement(line: str) -> Requirement:
    key, operator, *values = line.split(" ", 2)
    return Requirement(key, operator, tuple(values[0].split(",")) if values else ())


def prefers(weight: int, *lines: str) -> PreferredSchedulingTerm:
    return PreferredSchedulingTerm(weight, term(*lines))


def _affinity(
    required: Iterable[NodeSelectorTerm] | None, preferred: Iterable[PreferredSchedulingTerm] | None
) -> Affinity | None:
    if required is None and preferred is None:
        return None
    return Affinity(
        NodeAffinity(
            None if required is None else tuple(required),
            None if preferred is None else tuple(preferred),
        )
    )


def assumed_on(cluster: Cluster, uid: str) -> str | None:
    """The node that a pod is assumed on, None if it is not."""
    placement = cluster.placements.get(uid)
    return placement.node if placement is not None and placement.assumed else None
