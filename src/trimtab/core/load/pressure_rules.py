"""Pressure rules: when a node is under pressure, and the label or soft taint that shows it.

Only labels and PreferNoSchedule taints exist here: one that is wrong, or was left behind, never keeps a pod from running.
What may be written is narrow on purpose: keys under one prefix of ours, and dynamic-Scheduler's `status=presure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import Requirement

PREFIX = "pressure.trimtab.dev/"
LEGACY_KEY, LEGACY_VALUE = "status", "presure"  # dynamic-Scheduler spells it so
VALUE = "high"
MEMORY_AVAILABLE = "memory.available"
OWN_METRICS = (CPU, MEMORY, MEMORY_AVAILABLE)
RULE_QUERY_PREFIX = "rule/"  # begins the metric name of a rule's own query
MAX_AVERAGE_SECONDS = 1800.0  # seconds of samples that are kept


class Direction(StrEnum):
    """On which side of the threshold a node is under pressure."""

    ABOVE = "above"
    BELOW = "below"


class Denominator(StrEnum):
    """What a measured amount is divided by; NONE leaves it as it is."""

    CAPACITY = "capacity"
    ALLOCATABLE = "allocatable"
    NONE = "itself"


@dataclass(frozen=True, slots=True)
class Rule:
    """A node is under pressure once `metric` has been beyond `threshold` for `for_seconds`, until it was within `clear` for
    `clear_for_seconds`; a label, a soft taint, or both show it.

    metric: cpu, memory (shares), memory.available (a share, or bytes), or `query` under the name `rule/<name>`.
    average_seconds: the window that samples are averaged over, 0 for the latest one. source: where the query goes.
    """

    name: str
    metric: str
    threshold: float
    clear: float
    direction: Direction = Direction.ABOVE
    denominator: Denominator = Denominator.CAPACITY
    average_seconds: float = 0.0
    for_seconds: float = 30.0
    clear_for_seconds: float = 60.0
    label: tuple[str, str] | None = None
    taint: str = ""
    query: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        beyond = self.threshold < self.clear if self.direction is Direction.ABOVE else self.clear < self.threshold
        if beyond:
            side = "at most" if self.direction is Direction.ABOVE else "at least"
            raise ValueError(f"clear ({self.clear:g}) must be {side} the threshold ({self.threshold:g})")
        if self.for_seconds < 0 or self.clear_for_seconds < 0:
            raise ValueError("for and clearFor must not be negative")
        if not 0 <= self.average_seconds <= MAX_AVERAGE_SECONDS:
            raise ValueError(f"over ({self.average_seconds:g} s) must be at most {MAX_AVERAGE_SECONDS:g} s")
        if self.label is None and not self.taint:
            raise ValueError("a rule needs a label, a taint, or both")
        if self.label is not None and not is_own_label(*self.label):
            raise ValueError(f"the label's key must begin with {PREFIX}, or be {LEGACY_KEY}={LEGACY_VALUE}")
        if self.taint and not is_own_key(self.taint):
            raise ValueError(f"the taint's key must begin with {PREFIX}")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it can be computed from, each sufficient alone: memory.available follows from memory, too."""
        return (MEMORY_AVAILABLE, MEMORY) if self.metric == MEMORY_AVAILABLE else (self.metric,)


@dataclass(frozen=True, slots=True)
class LabellingSettings:
    """All rules; nodes that match every line of `exclude` are never labelled, nor are control planes.

    expire_after: seconds without trusted data after which a label is removed. apply: whether nodes are patched at all.
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
            raise ValueError(f"two rules are named {twice}")


def is_own_key(key: str) -> bool:
    """Whether a key is ours by its prefix, whatever its value."""
    return key.startswith(PREFIX) and len(key) > len(PREFIX) and Requirement(key, "Exists").valid


def is_own_label(key: str, value: str) -> bool:
    return (key, value) == (LEGACY_KEY, LEGACY_VALUE) or (is_own_key(key) and Requirement(key, "In", (value,)).valid)
