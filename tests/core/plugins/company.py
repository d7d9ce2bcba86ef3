"""Short forms for tests of plugins that look at other pods: selectors, terms, constraints; proves nothing itself."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests import build
from trimtab.core.model.affinity import Affinity, PodAffinity, PodTerm, PreferredPods, Spread
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import LabelSelector, pairs

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def host(name: str, zone: str = "", **more: Any) -> Node:
    """A node with the label of its name and, if given, that of its zone."""
    labels = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **more.pop("labels", {})}
    return build.node(name, labels=labels, **more)


def lines(*wanted: str, **labels: str) -> LabelSelector:
    """`lines("app In a,b", tier="x")`; with nothing it matches everything."""
    return LabelSelector(pairs(labels), tuple(map(build.requirement, wanted)))


def with_spread(pod: Pod, *constraints: Spread) -> Pod:
    return replace(pod, spec=replace(pod.spec, spread=constraints))


def near(pod: Pod, *terms: PodTerm, prefers: tuple[tuple[int, PodTerm], ...] = ()) -> Pod:
    return _with(pod, "pods", terms, prefers)


def far(pod: Pod, *terms: PodTerm, prefers: tuple[tuple[int, PodTerm], ...] = ()) -> Pod:
    return _with(pod, "anti_pods", terms, prefers)


def _with(pod: Pod, side: str, terms: tuple[PodTerm, ...], prefers: tuple[tuple[int, PodTerm], ...]) -> Pod:
    made = PodAffinity(terms, tuple(PreferredPods(weight, term) for weight, term in prefers))
    held = pod.spec.affinity or Affinity()
    return replace(pod, spec=replace(pod.spec, affinity=replace(held, **{side: made})))
