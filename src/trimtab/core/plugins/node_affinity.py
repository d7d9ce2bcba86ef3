"""NodeAffinity: the pod's node selector and node affinity, and what the profile adds to them, on node labels and names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.selecting import NAME_FIELD, matching, matching_any, required_nodes
from trimtab.core.cluster.view import View
from trimtab.core.model.affinity import NodeAffinity as Wishes
from trimtab.core.model.affinity import PreferredNodes
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import NodeSelectorTerm
from trimtab.core.placing.contract import Ahead, Ints, Normalise, Only, Prefiltered, Refuse, Rows

POD, ENFORCED = -1, -2


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """`added_affinity` is laid on every pod of the profile, beside the pod's own."""

    name: ClassVar[str] = "NodeAffinity"
    woken_by: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS
    reads: ClassVar[Change] = Change.LABELS
    normalise: ClassVar[Normalise] = Normalise.HIGHER

    added_affinity: Wishes | None = None

    def __post_init__(self) -> None:
        for term in self._added_terms():
            if not all(line.sound for line in term.match_expressions):
                raise ValueError("addedAffinity: a requirement that Kubernetes would refuse")

    def signs(self, pod: Pod) -> Hashable:
        return (pod.spec.node_selector, pod.spec.affinity.node if pod.spec.affinity else None)

    def prefilter(self, view: View, pod: Pod) -> Prefiltered:
        required = pod.spec.affinity.node.required if pod.spec.affinity else None
        added = self.added_affinity.required if self.added_affinity else None
        if required is None and added is None and pod.spec.node_selector is None:
            return Ahead.SKIP
        names = named_nodes(required or ())
        if names is None:
            return Ahead.GO
        return Only(names) if names else Refuse("pod affinity terms conflict")

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        answer = np.where(required_nodes(view, pod.spec), 0, POD)
        if self.added_affinity is not None and self.added_affinity.required is not None:
            answer[~matching_any(view, self.added_affinity.required)] = ENFORCED
        return answer[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        if code == ENFORCED:
            return ("node(s) didn't match scheduler-enforced node affinity",)
        return ("node(s) didn't match Pod's node affinity/selector",)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        own = pod.spec.affinity.node.preferred if pod.spec.affinity else None
        added = self.added_affinity.preferred if self.added_affinity else None
        if own is None and not added:
            return None
        return _weights(view, (*(added or ()), *(own or ())))[rows]

    def _added_terms(self) -> Iterable[NodeSelectorTerm]:
        if self.added_affinity is not None:
            yield from self.added_affinity.required or ()
            yield from (each.preference for each in self.added_affinity.preferred or ())


def named_nodes(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """The only nodes that could match, when every term names some; None when a term leaves the name open."""
    names: frozenset[str] = frozenset()
    for term in terms:
        asked = [
            frozenset(line.values) for line in term.match_fields if (line.key, line.operator) == (NAME_FIELD, "In")
        ]
        if not asked:
            return None
        names |= frozenset.intersection(*asked)
    return names if terms else None


def _weights(view: View, wishes: Iterable[PreferredNodes]) -> Ints:
    total = np.zeros(view.count, dtype=np.int64)
    for wish in wishes:
        if wish.weight:
            total += matching(view, wish.preference) * wish.weight
    return total
