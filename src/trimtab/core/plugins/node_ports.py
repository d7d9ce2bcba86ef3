"""NodePorts: rejects nodes where a host port of the pod is in use."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, PreFilterResult, PreFilterStatus, Rows, filter_codes
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod


@dataclass(frozen=True, slots=True)
class NodePorts:
    """A port on 0.0.0.0 conflicts with the same port on every address."""

    name: ClassVar[str] = "NodePorts"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.POD_DELETED
    depends_on: ClassVar[Change] = Change.PODS

    def signature(self, pod: Pod) -> Hashable:
        return pod.spec.ports

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        return PreFilterStatus.SUCCESS if pod.spec.ports else PreFilterStatus.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return filter_codes(~view.port_conflicts(pod.spec.ports, np.arange(view.count)[rows]), 1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("node(s) didn't have free ports for the requested pod ports",)
