"""The result of one scheduling cycle, with kube-scheduler's message.

Thousands are kept for explanations: `gc=False`, for Python's garbage collector would stop the process to look at each.
"""

from __future__ import annotations

from msgspec import Struct


class Rejection(Struct, frozen=True, gc=False):
    """How many nodes a plugin rejected for these reasons; `unresolvable` means that preemption cannot help."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    unresolvable: bool


class NodeScore(Struct, frozen=True, gc=False):
    """A feasible node and its total score."""

    node: str
    total: float


class Placement(Struct, frozen=True, tag=True, gc=False):
    """The chosen node, the number of feasible and of all nodes, and the best few."""

    node: str
    total: float
    feasible: int
    nodes: int
    best: tuple[NodeScore, ...] = ()
    rejections: tuple[Rejection, ...] = ()


class Unschedulable(Struct, frozen=True, tag=True, gc=False):
    """No node is feasible. `note` says why if no node was evaluated; else `rejections` do.

    `preemption_message` says why preemption did not help, if it was tried.
    """

    nodes: int
    rejections: tuple[Rejection, ...] = ()
    note: str = ""
    plugins: tuple[str, ...] = ()
    preemption_message: str = ""

    def message(self) -> str:
        """kube-scheduler's FailedScheduling message."""
        return (
            f"{self._rejection_message()} {self.preemption_message}"
            if self.preemption_message
            else self._rejection_message()
        )

    def _rejection_message(self) -> str:
        head = f"0/{self.nodes} nodes are available"
        if self.note:
            return f"{head}: {self.note}."
        counts: dict[str, int] = {}
        for rejection in self.rejections:
            for reason in rejection.reasons:
                counts[reason] = counts.get(reason, 0) + rejection.nodes
        if not counts:
            return f"{head}."
        return f"{head}: {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."


class Decision(Struct, frozen=True, tag=True, gc=False):
    """What a scheduling attempt came to: for which pod, when, and by which profile."""

    uid: str
    pod: str
    profile: str
    at: float
    attempt: int
    verdict: Placement | Unschedulable
