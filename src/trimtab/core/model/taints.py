"""Taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"


class Taint(Struct, frozen=True, gc=False):
    """Keeps pods without a matching toleration off a node."""

    key: str
    value: str = ""
    effect: str = ""


def is_soft(taint: Taint, key: str) -> bool:
    return taint.key == key and taint.effect == PREFER_NO_SCHEDULE


class Toleration(Struct, frozen=True, gc=False):
    """Matches taints; an empty key with `Exists` matches all, an empty effect any."""

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


class Tolerations:
    """Tolerations by key: of thousands only those of the taint's key are compared."""

    __slots__ = ("_by_key",)

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._by_key: dict[str, list[Toleration]] = {}
        for each in tolerations:
            self._by_key.setdefault(each.key, []).append(each)

    def tolerate(self, taint: Taint) -> bool:
        candidates = (*self._by_key.get(taint.key, ()), *self._by_key.get("", ()))
        return any(each.tolerates(taint) for each in candidates)


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)
