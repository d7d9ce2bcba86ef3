"""Topology keys that a pod must be placed by and no node carries: most likely misspelt, so a refusal names the field."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod, PodSpec
from trimtab.core.model.selectors import Requirement

AFFINITY = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def hint(view: View, pod: Pod) -> str:
    """A sentence to go behind the message of a refusal; empty when every key is known."""
    unknown = [
        f"{field}: no node has the label {key!r}"
        for field, key in _keys(pod.spec)
        if not view.matching_label(Requirement(key, "Exists")).any()
    ]
    return f" ({'; '.join(unknown)})" if unknown else ""


def _keys(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Hard ones only: anti-affinity by a key that nobody has is simply kept."""
    for index, spread in enumerate(spec.topology_spread):
        if spread.hard:
            yield f"spec.topologySpreadConstraints[{index}].topologyKey", spread.topology_key
    for index, term in enumerate(spec.affinity.pod_affinity.required if spec.affinity is not None else ()):
        yield f"{AFFINITY}[{index}].topologyKey", term.topology_key
