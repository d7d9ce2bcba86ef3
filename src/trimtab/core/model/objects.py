"""Objects other than pods, nodes and storage, with only the fields that scheduling needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import PodRequests
from trimtab.core.model.selectors import LabelSelector

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
LEGACY_POD_GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"


class Object(Struct, frozen=True, kw_only=True, tag=True):
    """Common fields; `kind` is the API's plural name, and `change` what an update of one amounts to."""

    kind: ClassVar[str]
    change: ClassVar[Change]

    name: str
    uid: str
    namespace: str = ""
    version: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Namespace(Object, frozen=True, kw_only=True):
    """Its labels are what a namespaceSelector matches."""

    kind: ClassVar[str] = "namespaces"
    change: ClassVar[Change] = Change.NAMESPACES

    labels: Mapping[str, str] = {}


class PodSelectorOwner(Object, frozen=True, kw_only=True):
    """A controller or Service, whose pods are spread by default. `selector` None selects nothing."""

    change: ClassVar[Change] = Change.SELECTORS

    selector: LabelSelector | None = None


class Service(PodSelectorOwner, frozen=True, kw_only=True):  # named as Kubernetes names it
    kind: ClassVar[str] = "services"


class ReplicaSet(PodSelectorOwner, frozen=True, kw_only=True):
    kind: ClassVar[str] = "replicasets"


class ReplicationController(PodSelectorOwner, frozen=True, kw_only=True):
    kind: ClassVar[str] = "replicationcontrollers"


class StatefulSet(PodSelectorOwner, frozen=True, kw_only=True):
    kind: ClassVar[str] = "statefulsets"

    replicas: int | None = None


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    """`disrupted_pods` are those whose eviction is already counted.

    `desired_healthy` is how many pods must stay ready, None until the disruption controller has said so; `observed` is
    whether that was said of the present spec.
    """

    kind: ClassVar[str] = "poddisruptionbudgets"
    change: ClassVar[Change] = Change.DISRUPTION_BUDGETS

    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    disrupted_pods: tuple[str, ...] = ()
    desired_healthy: int | None = None
    observed: bool = True

    def covers(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and self.selector is not None and self.selector.matches(pod.labels)


class PodGroup(Object, frozen=True, kw_only=True):
    """A gang: `min_member` pods or none, within `timeout` seconds (None: the plugin's default)."""

    kind: ClassVar[str] = "podgroups"
    change: ClassVar[Change] = Change.POD_GROUPS

    min_member: int = 1
    min_resources: PodRequests | None = None
    timeout: int | None = None
    created: float = 0.0


def pod_group_key(pod: Pod) -> str:
    """The key of the pod's PodGroup, "" for none; the legacy label counts only without the other."""
    name = pod.labels.get(POD_GROUP_LABEL) or pod.labels.get(LEGACY_POD_GROUP_LABEL)
    return f"{pod.namespace}/{name}" if name else ""
