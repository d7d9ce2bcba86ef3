"""A scenario: everything that happens in a simulated cluster, except what Trimtab decides.

Times are in seconds; time 0 is midnight of the first day, so a time is also a time of day. Files (`scenario_file/`),
traces (`traces/`) and snapshots of live clusters become these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.resources import PodRequests
from trimtab.sim.usage_patterns import Steady, UsagePattern

NAMESPACE = "default"
IDLE = Steady(0.0)


class OwnerKind(StrEnum):
    """Who creates a workload's pods, and creates them again: Kubernetes' kinds, or a user (`POD`)."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    JOB = "Job"
    DAEMON_SET = "DaemonSet"
    POD = "Pod"


class PodTemplate(Struct, frozen=True):
    """What the pods of a workload have in common, and how they behave.

    scheduler_name: "" is the first profile of the policy. start_delay: from the bind until the containers run, shortest and
    longest. ready_delay: from then until the pod is ready. lifetime: how long it runs before it finishes; None is for ever.
    may_preempt: whether its preemptionPolicy is another than Never.
    """

    requests: PodRequests = PodRequests()
    cpu: UsagePattern = IDLE
    memory: UsagePattern = IDLE
    spec: PodSpec = PodSpec()
    labels: Mapping[str, str] = {}
    priority: int = 0
    scheduler_name: str = ""
    start_delay: tuple[float, float] = (1.0, 4.0)
    ready_delay: float = 0.0
    grace_period: float = 30.0
    lifetime: float | None = None
    may_preempt: bool = True


class Rollout(Struct, frozen=True):
    """At this time a workload gets a new revision; `template` None: the same one again."""

    at: float
    template: PodTemplate | None = None


class Scale(Struct, frozen=True):
    """At this time a workload is scaled."""

    at: float
    replicas: int


class HorizontalAutoscaling(Struct, frozen=True):
    """A HorizontalPodAutoscaler on CPU: `target` is the mean use of the pods relative to their requests."""

    min_replicas: int
    max_replicas: int
    target: float
    interval: float = 15.0
    tolerance: float = 0.1
    scale_down_after: float = 300.0


class DisruptionBudget(Struct, frozen=True):
    """A PodDisruptionBudget of the workload's pods; one of the two is set, as a number of pods."""

    min_available: int | None = None
    max_unavailable: int | None = None


class Workload(Struct, frozen=True):
    """Pods of one kind, and what becomes of them.

    created: when. deleted: when all of it is deleted, if ever. stagger: the time between two of its first pods.
    """

    name: str
    template: PodTemplate
    kind: OwnerKind = OwnerKind.DEPLOYMENT
    namespace: str = NAMESPACE
    replicas: int = 1
    created: float = 0.0
    deleted: float | None = None
    stagger: float = 0.0
    max_surge: int = 1
    max_unavailable: int = 0
    rollouts: tuple[Rollout, ...] = ()
    scales: tuple[Scale, ...] = ()
    autoscaling: HorizontalAutoscaling | None = None
    budget: DisruptionBudget | None = None


class TracedPod(Struct, frozen=True):
    """A pod that was recorded: it arrives within `arrival` (earliest and latest, drawn by the seed) and leaves.

    owner: the workload that it belonged to; such a pod is replaced if it is lost, unless it belongs to a node.
    node: where it ran, if it did before the start. uid: that of the live pod. node_name: that of its spec, which no
    scheduler chooses.
    """

    name: str
    template: PodTemplate
    arrival: tuple[float, float]
    departure: float | None = None
    owner: str = ""
    owner_kind: str = "ReplicaSet"
    namespace: str = NAMESPACE
    node: str = ""
    uid: str = ""
    node_name: str = ""


class SimulatedNode(Struct, frozen=True):
    """A node, when it joins, and what is used on it outside of pods."""

    node: Node
    joins: float = 0.0
    system_cpu: UsagePattern = IDLE
    system_memory: UsagePattern = IDLE


class NodeAction(StrEnum):
    """What may happen to a node. A failed node's kubelet is silent; a removed one is deleted from the API."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    FAIL = "fail"
    RECOVER = "recover"
    REMOVE = "remove"


class NodeEvent(Struct, frozen=True):
    """An action on one node."""

    at: float
    node: str
    action: NodeAction


class Failover(Struct, frozen=True):
    """The leader is killed and another replica, which knows only what the API server has, takes over after `seconds`."""

    at: float
    seconds: float = 15.0


class OutageKind(StrEnum):
    """How the metrics pipeline fails: no answer, zeros with a new timestamp, or the last samples over and over."""

    SILENT = "silent"
    ZEROS = "zeros"
    STALE = "stale"


class Outage(Struct, frozen=True):
    """Metrics fail from `begins` to `ends`, for these nodes or, if none are named, for all."""

    begins: float
    ends: float
    kind: OutageKind = OutageKind.SILENT
    nodes: tuple[str, ...] = ()


class MetricsPipeline(Struct, frozen=True):
    """Between usage and the scheduler: every `interval` a scrape, seen `delay` later.

    loss: the share of node samples that are missing. gaps: the same for pods. noise: the largest relative error of a sample.
    """

    interval: float = 30.0
    delay: float = 0.0
    loss: float = 0.0
    gaps: float = 0.0
    noise: float = 0.0
    outages: tuple[Outage, ...] = ()


class ClusterAutoscaling(Struct, frozen=True):
    """A cluster autoscaler: adds nodes like `node` for pods that stay unschedulable, and removes idle ones it added."""

    node: Node
    max_nodes: int
    provision_delay: float = 120.0
    idle_below: float = 0.5
    idle_after: float = 600.0


class Scenario(Struct, frozen=True):
    """A cluster and what happens to it.

    step: how often usage changes and is measured. begins, duration: when it starts and how long it lasts. warm_up: how
    much of it is left out of the measures. objects: further objects of the API, such as Services. oom_kills: whether pods
    are killed where memory runs out; a trace's memory is often a demand that nobody was killed for. missing_kinds: those of
    which nothing is known; for the scheduler they are forbidden to list. notes: what else is not known, for whoever runs it.
    """

    name: str
    duration: float
    nodes: tuple[SimulatedNode, ...]
    workloads: tuple[Workload, ...] = ()
    pods: tuple[TracedPod, ...] = ()
    objects: tuple[Object, ...] = ()
    description: str = ""
    begins: float = 0.0
    step: float = 60.0
    warm_up: float = 0.0
    metrics: MetricsPipeline = MetricsPipeline()
    node_events: tuple[NodeEvent, ...] = ()
    failovers: tuple[Failover, ...] = ()
    autoscaling: ClusterAutoscaling | None = None
    oom_kills: bool = True
    missing_kinds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ends(self) -> float:
        return self.begins + self.duration
