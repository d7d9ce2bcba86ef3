"""Which pods an overlay adds and takes away; what that alters is for those who count.

Each node is looked at as if only its own pods had come or gone, as kube-scheduler tries nominated pods and victims node
by node: what is taken from one node of a zone is not missed when another node of that zone is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.model.pod import Pod

NO_SLOTS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class PodDelta:
    """`slots` are residents taken away; `others` have no slot: their row, the pod, and 1 or -1."""

    __slots__ = ("slots", "untracked")

    def __init__(self, slots: NDArray[np.intp] = NO_SLOTS, others: tuple[tuple[int, Pod, int], ...] = ()) -> None:
        self.slots = slots
        self.untracked = others

    def merged(self, more: PodDelta) -> PodDelta:
        return PodDelta(np.concatenate([self.slots, more.slots]), self.untracked + more.untracked)


def pod_delta(
    residents: PodTable,
    rows: Mapping[str, int],
    added: Mapping[str, Iterable[Pod]],
    removed: Mapping[str, Iterable[Pod]],
) -> PodDelta:
    """By the names of nodes; pods on nodes that nobody has seen change nothing."""
    others = [(rows[node], pod, 1) for node, pods in added.items() if node in rows for pod in pods]
    slots = []
    for node, pods in removed.items():
        for pod in pods if node in rows else ():
            slot = residents.slot.get(pod.uid)
            if slot is not None:
                slots.append(slot)
            else:
                others.append((rows[node], pod, -1))
    for _, pod, _ in others:
        residents.affinity_terms.id_of(pod)  # so that whoever looks for terms that a pod meets finds theirs, too
    return PodDelta(np.array(slots, dtype=np.intp), tuple(others))
