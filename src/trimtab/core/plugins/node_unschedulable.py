"""NodeUnschedulable: rejects cordoned nodes unless the pod tolerates their taint."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Rows, filter_codes
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.taints import NO_SCHEDULE, UNSCHEDULABLE_TAINT, Taint, tolerated

CORDON = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class NodeUnschedulable:
    """`spec.unschedulable` counts like the taint that comes with it."""

    name: ClassVar[str] = "NodeUnschedulable"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.TAINTS | Change.OWN_POD_UPDATED
    depends_on: ClassVar[Change] = Change.TAINTS

    def signature(self, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        cordoned = view.unschedulable[rows]
        if tolerated(CORDON, pod.spec.tolerations):
            cordoned = np.zeros_like(cordoned)
        return filter_codes(~cordoned, -1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("node(s) were unschedulable",)
