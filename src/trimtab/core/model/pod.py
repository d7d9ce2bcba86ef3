"""Pods; parts that pods of one template share are single values, made by `wire`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.affinity import Affinity, TopologySpreadConstraint
from trimtab.core.model.resources import PodRequests
from trimtab.core.model.selectors import Pairs
from trimtab.core.model.taints import Toleration

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
NODE_BOUND = ("DaemonSet", "Node")  # owners of pods that belong to their node; "Node" owns static pods

# The annotations that are decoded.
MIRROR = "kubernetes.io/config.mirror"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
EVICT_ANYWAY = "descheduler.alpha.kubernetes.io/evict"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
EVICT = "trimtab.dev/evict"  # an annotation or a label
RESIZE = "trimtab.dev/resize"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
RESCHEDULING = "scheduler.alpha.kubernetes.io/rescheduling"  # a label


class HostPort(Struct, frozen=True, gc=False):
    """A port on the node; ip 0.0.0.0 means every address."""

    protocol: str
    ip: str
    port: int


class Volume(Struct, frozen=True, gc=False):
    """A volume that may restrict the nodes: its kind as the API names it, and its source."""

    kind: str
    name: str = ""
    source: Pairs = ()
    read_only: bool = False


class Owner(Struct, frozen=True, gc=False):
    """The controller that owns the pod."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


class PodSpec(Struct, frozen=True, weakref=True):
    """What pods of one template share; equal specs are one object, so they can be compared by identity."""

    node_selector: Pairs | None = None  # None and empty differ: only with None may NodeAffinity be skipped
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    images: tuple[str, ...] = ()
    ports: tuple[HostPort, ...] = ()
    volumes: tuple[Volume, ...] = ()
    local_volumes: tuple[str, ...] = ()  # names of emptyDir volumes on disk, and of hostPath volumes
    resource_claims: tuple[str, ...] = ()
    scheduling_group: str = ""
    host_network: bool = False
    error: str = ""  # the first field that can be decoded but is invalid


class Pod(Struct, frozen=True, gc=False):
    """One pod. `node` is empty until it is bound; `spec_error` names a spec field that cannot be decoded."""

    uid: str
    namespace: str
    name: str
    version: int = 0
    labels: Mapping[str, str] = {}
    owner: Owner | None = None
    created: float = 0.0
    terminating: bool = False
    node: str = ""
    nominated_node: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    may_preempt: bool = True
    scheduling_gates: tuple[str, ...] = ()
    spec: PodSpec = PodSpec()
    requests: PodRequests = PodRequests()
    phase: str = "Pending"
    started: float | None = None
    ready: bool = False
    unschedulable_condition: tuple[str, str] | None = None
    spec_error: str = ""
    preempted: bool = False  # a preemption victim, of any scheduler
    annotations: Mapping[str, str] = {}  # only those about eviction, and only values with a meaning
    ready_since: float | None = None
    restarts: int = 0  # of all containers

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in TERMINAL_PHASES

    @property
    def pending(self) -> bool:
        """Whether the pod waits for a node: it has none, is not terminating and not in a terminal phase."""
        return not (self.node or self.terminating or self.phase in TERMINAL_PHASES)

    @property
    def holds_resources(self) -> bool:
        """Whether the pod uses resources of a node: it has one and is not in a terminal phase."""
        return bool(self.node) and self.phase not in TERMINAL_PHASES


def replacement_of(pod: Pod) -> Pod:
    """The pod that its owner will create in its place, as far as that can be told before."""
    waiting = {"node": "", "nominated_node": "", "phase": "Pending", "ready": False, "terminating": False}
    return replace(pod, uid=f"{pod.uid}/replacement", **waiting)
