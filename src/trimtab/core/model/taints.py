"""Taints, tolerations, and whether one meets the other; which taints matter for what is left to the plugins."""

from __future__ import annotations

from msgspec import Struct

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"


class Taint(Struct, frozen=True, gc=False):
    """A mark on a node that keeps away pods which do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class Toleration(Struct, frozen=True, gc=False):
    """A pod's leave to ignore some taints; an empty key with `Exists` means all, an empty effect means any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)
