"""NodePorts: refuses nodes where a host port that the pod asks for is taken; who took it is counted in the columns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import Ahead, Ints, Prefiltered, Rows, codes


@dataclass(frozen=True, slots=True)
class NodePorts:
    """A port on 0.0.0.0 clashes with the same port on every address."""

    name: ClassVar[str] = "NodePorts"
    woken_by: ClassVar[Change] = Change.NODE_ADDED | Change.POD_LEFT
    reads: ClassVar[Change] = Change.PODS

    def signs(self, pod: Pod) -> Hashable:
        return pod.spec.ports

    def prefilter(self, view: View, pod: Pod) -> Prefiltered:
        return Ahead.GO if pod.spec.ports else Ahead.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        clash = np.zeros(view.count, dtype=np.bool_)
        for port in pod.spec.ports:
            clash |= view.port_clashes(port)
        return codes(~clash[rows], 1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("node(s) didn't have free ports for the requested pod ports",)
