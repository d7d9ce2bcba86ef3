"""What a decision comes to, as values that can be shown to people; how it is reached is left to `placing`."""

from __future__ import annotations

from msgspec import Struct


class Refusal(Struct, frozen=True):
    """So many nodes were refused by this plugin for these reasons; `final` means no eviction there could help."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    final: bool


class Ranked(Struct, frozen=True):
    """A node that would do, and its total score."""

    node: str
    total: float


class Placement(Struct, frozen=True):
    """The node that was chosen, among how many, and the best few."""

    node: str
    total: float
    feasible: int
    nodes: int
    best: tuple[Ranked, ...] = ()
    refusals: tuple[Refusal, ...] = ()


class Unplaceable(Struct, frozen=True):
    """No node will do. `note` says why before any node was looked at; else the refusals do.

    `remedy` says why no room could be made, where that was tried.
    """

    nodes: int
    refusals: tuple[Refusal, ...] = ()
    note: str = ""
    plugins: tuple[str, ...] = ()
    remedy: str = ""

    def message(self) -> str:
        """What kube-scheduler would write."""
        return f"{self._refused()} {self.remedy}" if self.remedy else self._refused()

    def _refused(self) -> str:
        head = f"0/{self.nodes} nodes are available"
        if self.note:
            return f"{head}: {self.note}."
        counts: dict[str, int] = {}
        for refusal in self.refusals:
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
    verdict: Placement | Unplaceable
