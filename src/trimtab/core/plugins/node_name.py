"""NodeName: a pod whose spec names a node fits only that node."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Rows, filter_codes
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod


@dataclass(frozen=True, slots=True)
class NodeName:
    """Passes every node unless the pod's spec names one."""

    name: ClassVar[str] = "NodeName"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED
    depends_on: ClassVar[Change] = Change.NOTHING

    def signature(self, pod: Pod) -> Hashable:
        return pod.node

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        passes = view.rows_named((pod.node,)) if pod.node else np.ones(view.count, dtype=np.bool_)
        return filter_codes(passes[rows], -1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("node(s) didn't match the requested node name",)
