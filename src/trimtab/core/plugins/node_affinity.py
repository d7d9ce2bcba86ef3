"""NodeAffinity: the pod's node selector and node affinity, and the affinity that the profile adds to them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.node_selection import NAME_FIELD, matching, matching_any, required_nodes
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import (
    Ints,
    NodeSubset,
    Normalise,
    PreFilterResult,
    PreFilterStatus,
    Reject,
    Rows,
)
from trimtab.core.model.affinity import NodeAffinity as NodeAffinitySpec
from trimtab.core.model.affinity import PreferredSchedulingTerm
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.selectors import NodeSelectorTerm
from trimtab.core.model.setting import setting

POD_AFFINITY, ADDED_AFFINITY = -1, -2


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """`added_affinity` applies to every pod of the profile, in addition to the pod's own."""

    name: ClassVar[str] = "NodeAffinity"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS
    depends_on: ClassVar[Change] = Change.LABELS
    normalise: ClassVar[Normalise] = Normalise.HIGHER

    added_affinity: NodeAffinitySpec | None = setting(
        None, "applies to every pod of the profile in addition to its own node affinity"
    )

    def __post_init__(self) -> None:
        for term in self._added_terms():
            if not all(requirement.valid for requirement in term.match_expressions):
                raise ValueError("addedAffinity has an invalid requirement")

    def signature(self, pod: Pod) -> Hashable:
        return (pod.spec.node_selector, pod.spec.affinity.node_affinity if pod.spec.affinity else None)

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        required = pod.spec.affinity.node_affinity.required if pod.spec.affinity else None
        added = self.added_affinity.required if self.added_affinity else None
        if required is None and added is None and pod.spec.node_selector is None:
            return PreFilterStatus.SKIP
        names = candidate_names(required or ())
        if names is None:
            return PreFilterStatus.SUCCESS
        return NodeSubset(names) if names else Reject("pod affinity terms conflict")

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        codes = np.where(required_nodes(view, pod.spec, rows), 0, POD_AFFINITY)
        if self.added_affinity is not None and self.added_affinity.required is not None:
            codes[~matching_any(view, self.added_affinity.required, rows)] = ADDED_AFFINITY
        return codes

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        if code == ADDED_AFFINITY:
            return ("node(s) didn't match scheduler-enforced node affinity",)
        return ("node(s) didn't match Pod's node affinity/selector",)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        own = pod.spec.affinity.node_affinity.preferred if pod.spec.affinity else None
        added = self.added_affinity.preferred if self.added_affinity else None
        if own is None and not added:
            return None
        return _preference_weights(view, (*(added or ()), *(own or ())), rows)

    def _added_terms(self) -> Iterable[NodeSelectorTerm]:
        if self.added_affinity is not None:
            yield from self.added_affinity.required or ()
            yield from (each.preference for each in self.added_affinity.preferred or ())


def candidate_names(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """The only nodes that could match, when every term selects by name; None when one does not."""
    names: set[str] = set()
    for term in terms:
        by_name = (each for each in term.match_fields if (each.key, each.operator) == (NAME_FIELD, "In"))
        selected = [frozenset(each.values) for each in by_name]
        if not selected:
            return None
        names |= frozenset.intersection(*selected)
    return frozenset(names) if terms else None


def _preference_weights(view: View, preferred: Iterable[PreferredSchedulingTerm], rows: Rows) -> Ints:
    total = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
    for each in preferred:
        if each.weight:
            total += matching(view, each.preference, rows) * each.weight
    return total
