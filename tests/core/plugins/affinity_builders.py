"""Builders of selectors, affinity terms and spread constraints for tests."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests import build
from trimtab.core.model.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector, label_pairs

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def host(name: str, zone: str = "", **more: Any) -> Node:
    """A node with the label of its name and, if given, that of its zone."""
    labels = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **more.pop("labels", {})}
    return build.node(name, labels=labels, **more)


def label_selector(*wanted: str, **labels: str) -> LabelSelector:
    """`label_selector("app In a,b", tier="x")`; with nothing it matches everything."""
    return LabelSelector(label_pairs(labels), tuple(map(build.requirement, wanted)))


def with_spread(pod: Pod, *constraints: TopologySpreadConstraint) -> Pod:
    return replace(pod, spec=replace(pod.spec, topology_spread=constraints))


def near(pod: Pod, *terms: PodAffinityTerm, prefers: tuple[tuple[int, PodAffinityTerm], ...] = ()) -> Pod:
    return _with(pod, "pod_affinity", terms, prefers)


def far(pod: Pod, *terms: PodAffinityTerm, prefers: tuple[tuple[int, PodAffinityTerm], ...] = ()) -> Pod:
    return _with(pod, "pod_anti_affinity", terms, prefers)


def _with(
    pod: Pod, side: str, terms: tuple[PodAffinityTerm, ...], prefers: tuple[tuple[int, PodAffinityTerm], ...]
) -> Pod:
    affinity = PodAffinity(terms, tuple(WeightedPodAffinityTerm(weight, term) for weight, term in prefers))
    existing = pod.spec.affinity or Affinity()
    return replace(pod, spec=replace(pod.spec, affinity=replace(existing, **{side: affinity})))
