"""What a decision comes to, as values that can be shown to people; how it is reached is left to `placing`."""

from __future__ import annotations

from msgspec import Struct


class Rejection(Struct, frozen=True):
    """So many nodes were refused by this plugin for these reasons; `final` means no eviction there could help."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    unresolvable: bool


class NodeScore(Struct, frozen=True):
    """A node that would do, and its total score."""

    node: str
    total: float


class Placement(Struct, frozen=True):
    """The node that was chosen, among how many, and the best few."""

    node: str
    total: float
    feasible: int
    nodes: int
    best: tuple[NodeScore, ...] = ()
    rejections: tuple[Rejection, ...] = ()


class Unschedulable(Struct, frozen=True):
    """No node will do. `note` says why before any node was looked at; else the refusals do.

    `remedy` says why no room could be made, where that was tried.
    """

    nodes: int
    rejections: tuple[Rejection, ...] = ()
    note: str = ""
    plugins: tuple[str, ...] = ()
    preemption_message: str = ""

    def message(self) -> str:
        """What kube-scheduler would write."""
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
        for refusal in self.rejections:
            for reason in refusal.reasons:
                counts[reason] = counts.get(reason, 0) + refusal.nodes
        if not counts:
            return f"{head}."
        return f"{head}: {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."


class Decision(Struct, frozen=True):
    """What a scheduling attempt came to: for which pod, when, and by which profile."""

    uid: str
    pod: str
    profile: str
    at: float
    attempt: int
    verdict: Placement | Unschedulable
