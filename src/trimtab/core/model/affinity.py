"""What a pod asks of nodes and of other pods, with the names of the API."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm


class PreferredSchedulingTerm(Struct, frozen=True, gc=False):
    """Matching nodes score the weight."""

    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, gc=False):
    """`required` None matches every node, an empty tuple none; `preferred` None is an absent field."""

    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] | None = None


class PodAffinityTerm(Struct, frozen=True, gc=False):
    """Pods that should, or should not, be in the same topology domain."""

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True, gc=False):
    """A term that adds (or subtracts) the weight."""

    weight: int
    term: PodAffinityTerm


class PodAffinity(Struct, frozen=True, gc=False):
    """Required and preferred terms."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True, gc=False):
    """A pod's affinity."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TopologySpreadConstraint(Struct, frozen=True, gc=False):
    """`hard` is whenUnsatisfiable: True is DoNotSchedule, False ScheduleAnyway, None an unknown value, which is ignored."""

    topology_key: str
    max_skew: int = 1
    hard: bool | None = True
    selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
