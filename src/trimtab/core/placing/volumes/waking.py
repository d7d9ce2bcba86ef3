"""Whether a plugin about volumes would let a parked pod pass somewhere now; what else stands in its way is left to others."""

from __future__ import annotations

from typing import Protocol

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import ALL, Ahead, Ints, Prefiltered, Refuse, Rows


class Judge(Protocol):
    def prefilter(self, view: View, pod: Pod) -> Prefiltered: ...

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints: ...


def passes_somewhere(judge: Judge, view: View, pod: Pod) -> bool:
    """Most changes of storage concern other pods' claims: to look at all nodes once is cheaper than to try for a node."""
    ahead = judge.prefilter(view, pod)
    if isinstance(ahead, Refuse):
        return False
    return ahead is Ahead.SKIP or bool((judge.filter(view, pod, ALL) == 0).any())
