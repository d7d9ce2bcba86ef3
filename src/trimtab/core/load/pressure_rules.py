"""When a node counts as pressed and how that is shown on it, as plain values; whether one is now is left to `pressure`.

Only soft means are known here, labels and taints of the effect PreferNoSchedule: a mark that is wrong, or was left
behind, never keeps a pod from running. What may be written is narrow on purpose: keys under one prefix of ours, and the
one pair that labelled nodes before us, `status=presure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import Requirement

PREFIX = "pressure.trimtab.dev/"
LEGACY_KEY, LEGACY_VALUE = "status", "presure"  # so spelt where it comes from
VALUE = "high"
AVAILABLE = "memory.available"
OWN_METRICS = (CPU, MEMORY, AVAILABLE)
OF_A_RULE = "rule/"  # begins the name under which a rule's own query is asked
LONGEST_AVERAGE = 1800.0  # seconds of samples that are kept


class Direction(StrEnum):
    """On which side of the threshold the trouble is."""

    ABOVE = "above"
    BELOW = "below"


class Of(StrEnum):
    """What a measured amount is divided by; ITSELF leaves it as it is."""

    CAPACITY = "capacity"
    ALLOCATABLE = "allocatable"
    ITSELF = "itself"


@dataclass(frozen=True, slots=True)
class Rule:
    """A node is pressed once `metric` has been beyond `threshold` for `hold` seconds, until it was within `clear` for
    `clear_for`; that is shown by a label, by a soft taint, or by both.

    metric: cpu, memory (shares), memory.available (a share, or bytes), or `query` asked under the name `rule/<name>`.
    over: seconds of samples that are averaged first, 0 for the latest one. source: who is asked the query.
    """

    name: str
    metric: str
    threshold: float
    clear: float
    direction: Direction = Direction.ABOVE
    of: Of = Of.CAPACITY
    over: float = 0.0
    hold: float = 30.0
    clear_for: float = 60.0
    label: tuple[str, str] | None = None
    taint: str = ""
    query: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        beyond = self.threshold < self.clear if self.direction is Direction.ABOVE else self.clear < self.threshold
        if beyond:
            side = "at most" if self.direction is Direction.ABOVE else "at least"
            raise ValueError(f"clear ({self.clear:g}) must be {side} the threshold ({self.threshold:g})")
        if self.hold < 0 or self.clear_for < 0:
            raise ValueError("for and clearFor must not be negative")
        if not 0 <= self.over <= LONGEST_AVERAGE:
            raise ValueError(f"over ({self.over:g} s) must be at most {LONGEST_AVERAGE:g} s")
        if self.label is None and not self.taint:
            raise ValueError("a rule needs a label, a taint, or both: else nobody sees what it found")
        if self.label is not None and not is_own_label(*self.label):
            raise ValueError(f"the label's key must begin with {PREFIX}, or be {LEGACY_KEY}={LEGACY_VALUE}")
        if self.taint and not is_own_key(self.taint):
            raise ValueError(f"the taint's key must begin with {PREFIX}")

    @property
    def measured_as(self) -> tuple[str, ...]:
        """What it can be told by, each enough alone: memory.available is reckoned from memory where nobody tells it."""
        return (AVAILABLE, MEMORY) if self.metric == AVAILABLE else (self.metric,)


@dataclass(frozen=True, slots=True)
class Labelling:
    """All rules; nodes that `exclude` picks (every line must hold) are never marked, nor are control planes.

    expire_after: seconds without trusted data after which a mark is taken off. apply: whether nodes are written at all.
    """

    rules: tuple[Rule, ...] = ()
    apply: bool = False
    exclude: tuple[Requirement, ...] = ()
    expire_after: float = 300.0

    def __post_init__(self) -> None:
        if self.expire_after <= 0:
            raise ValueError(f"expireAfter ({self.expire_after:g} s) must be above 0")
        names = [rule.name for rule in self.rules]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"two rules are called {twice}")


def is_own_key(key: str) -> bool:
    """Whether a key is ours by its prefix, whatever its value."""
    return key.startswith(PREFIX) and len(key) > len(PREFIX) and Requirement(key, "Exists").valid


def is_own_label(key: str, value: str) -> bool:
    return (key, value) == (LEGACY_KEY, LEGACY_VALUE) or (is_own_key(key) and Requirement(key, "In", (value,)).valid)
