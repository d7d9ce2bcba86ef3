"""TaintToleration: rejects nodes with untolerated hard taints, and prefers those with fewer untolerated soft ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Normalise, Rows
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Tolerations


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """Evaluates each distinct set of taints once instead of each node."""

    name: ClassVar[str] = "TaintToleration"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.TAINTS | Change.OWN_POD_UPDATED
    depends_on: ClassVar[Change] = Change.TAINTS
    normalise: ClassVar[Normalise] = Normalise.LOWER

    def signature(self, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        tolerations = Tolerations(pod.spec.tolerations)

        def code(taints: tuple[Taint, ...]) -> int:
            hard = (taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE))
            return -1 if any(not tolerations.tolerate(taint) for taint in hard) else 0

        return _per_taint_set(view, code, rows)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("node(s) had untolerated taint(s)",)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        soft = Tolerations(each for each in pod.spec.tolerations if each.effect in ("", PREFER_NO_SCHEDULE))
        return _per_taint_set(view, lambda taints: _intolerable_soft_taints(taints, soft), rows)


def _intolerable_soft_taints(taints: tuple[Taint, ...], tolerations: Tolerations) -> int:
    return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerations.tolerate(taint) for taint in taints)


def _per_taint_set(view: View, evaluate: Callable[[tuple[Taint, ...]], int], rows: Rows) -> Ints:
    """Only sets that some of the rows have: those of nodes that are gone may be large."""
    numbers, sets = view.taint_set[rows], view.taint_sets
    table = np.zeros(len(sets), dtype=np.int64)
    for number in np.flatnonzero(np.bincount(numbers, minlength=len(sets))).tolist():
        table[number] = evaluate(sets[number])
    return table[numbers]
