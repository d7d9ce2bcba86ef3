"""A pod as the core sees it; parts that pods of one template share are single values, made by `wire`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trimtab.core.model.affinity import Affinity, TopologySpreadConstraint
from trimtab.core.model.resources import PodRequests
from trimtab.core.model.selectors import Pairs
from trimtab.core.model.taints import Toleration

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


class HostPort(Struct, frozen=True, gc=False):
    """A port taken on the node itself; ip 0.0.0.0 takes it on every address."""

    protocol: str
    ip: str
    port: int


class Volume(Struct, frozen=True, gc=False):
    """A volume that may tie the pod to nodes: its kind as the API names it, and what it points at."""

    kind: str
    name: str = ""
    source: Pairs = ()
    read_only: bool = False


class Owner(Struct, frozen=True, gc=False):
    """The controller that will replace the pod."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


class PodSpec(Struct, frozen=True, weakref=True):
    """What pods of one template have in common; equal specs are one object, so identity stands for equality."""

    node_selector: Pairs | None = None  # None and empty differ: only the first lets NodeAffinity stand aside
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    images: tuple[str, ...] = ()
    ports: tuple[HostPort, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[str, ...] = ()
    scheduling_group: str = ""
    host_network: bool = False
    error: str = ""  # the first field that can be read and makes no sense


class Pod(Struct, frozen=True, gc=False):
    """One pod. `node` is empty until it is bound; `spec_error` names the field of a spec that cannot be read."""

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
    preempted: bool = False  # marked as the victim of a preemption, by whichever scheduler

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in TERMINAL_PHASES

    @property
    def holds_resources(self) -> bool:
        """Whether the pod takes room on its node: it has one and has not ended."""
        return bool(self.node) and self.phase not in TERMINAL_PHASES
