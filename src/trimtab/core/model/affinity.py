"""What a pod asks of nodes and of other pods, as values; whether it holds is decided by the plugins."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm


class PreferredSchedulingTerm(Struct, frozen=True, gc=False):
    """Nodes that match earn the weight."""

    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, gc=False):
    """`required` None asks for nothing, while an empty tuple matches no node; `preferred` None has no opinion."""

    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] | None = None


class PodAffinityTerm(Struct, frozen=True, gc=False):
    """Pods to be near to or far from, within one topology domain."""

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True, gc=False):
    """A pod term that earns (or costs) the weight."""

    weight: int
    term: PodAffinityTerm


class PodAffinity(Struct, frozen=True, gc=False):
    """Terms that must hold and terms that should."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True, gc=False):
    """All three kinds together, as a pod carries them."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TopologySpreadConstraint(Struct, frozen=True, gc=False):
    """One topology spread constraint; `hard` None is an action that Kubernetes does not know, and then nothing is done."""

    topology_key: str
    max_skew: int = 1
    hard: bool | None = True
    selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
