"""What earlier moves forbid: budgets of moves within a sliding window, and holds of owners whose pods were moved.

A budget counts the moves of the cluster, or those of a node, namespace, workload or zone. A move that is charged is sent soon
after or not at all (`SEND_WITHIN`), and counts for so much longer: so no window has more evictions than its budget, whenever
each of them was sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from trimtab.core.model.duration import format_duration
from trimtab.core.model.ledger import MoveRecord, MoveState, OwnerSlot

SEND_WITHIN = 20.0  # seconds after its charge
MAX_DOUBLINGS = 6


class Scope(StrEnum):
    """What the moves of a budget have in common; of a node and a zone those count that leave it."""

    CLUSTER = "cluster"
    NODE = "node"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"
    ZONE = "zone"


def scope_key(scope: Scope, record: MoveRecord) -> str:
    """Records with the same key share a budget of this scope."""
    match scope:
        case Scope.CLUSTER:
            return "the cluster"
        case Scope.NODE:
            return f"node {record.source}"
        case Scope.NAMESPACE:
            return f"namespace {record.namespace}"
        case Scope.WORKLOAD:
            return f"{record.workload} of namespace {record.namespace}"
        case Scope.ZONE:
            return f"zone {record.zone}" if record.zone else ""


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many moves in every window of so many seconds."""

    moves: int
    within: float

    def __str__(self) -> str:
        return f"{self.moves} moves within {format_duration(self.within)}"


Budgets = Mapping[Scope, Budget]
HOUR = 3600.0
DEFAULT_BUDGETS: Budgets = MappingProxyType(
    {
        Scope.CLUSTER: Budget(100, HOUR),
        Scope.ZONE: Budget(60, HOUR),
        Scope.NAMESPACE: Budget(50, HOUR),
        Scope.NODE: Budget(20, HOUR),
        Scope.WORKLOAD: Budget(6, HOUR),
    }
)


def spent_budget(budgets: Budgets, records: Iterable[MoveRecord], wanted: MoveRecord) -> str:
    """The budget that allows no further move like the wanted one, in words; empty if all do.

    Records with a time after the wanted one's, from a clock that was ahead, count as well.
    """
    counting = [each for each in records if each.counts]
    for scope, budget in budgets.items():
        key, since = scope_key(scope, wanted), wanted.at - budget.within - SEND_WITHIN
        if key and sum(each.at > since and scope_key(scope, each) == key for each in counting) >= budget.moves:
            return f"the budget of {key} is spent: {budget}"
    return ""


def budgets_left(budgets: Budgets, records: Iterable[MoveRecord], now: float) -> dict[Scope, tuple[int, str]]:
    """By scope, where the fewest moves are left: how many, and of what; nothing is named where none was spent."""
    counting = [each for each in records if each.counts]
    left: dict[Scope, tuple[int, str]] = {}
    for scope, budget in budgets.items():
        spent = Counter(scope_key(scope, each) for each in counting if each.at > now - budget.within)
        spent.pop("", None)
        key, number = max(spent.items(), key=lambda item: item[1], default=("", 0))
        left[scope] = max(budget.moves - number, 0), key
    return left


def holds(records: Iterable[MoveRecord], cooldown: float) -> dict[OwnerSlot, float]:
    """Until when each owner's pods stay where they are, by records from the oldest on: for the cool-down after a move, and
    after each failure in a row twice as long."""
    until: dict[OwnerSlot, float] = {}
    failures: dict[OwnerSlot, int] = {}
    for each in records:
        if each.state is MoveState.CANCELLED:
            continue
        failed = each.state in (MoveState.FAILED, MoveState.REFUSED)
        failures[each.slot] = failures.get(each.slot, 0) + 1 if failed else 0
        doubled = 2 ** min(failures[each.slot], MAX_DOUBLINGS)
        until[each.slot] = max(until.get(each.slot, 0.0), each.at + cooldown * doubled)
    return until


def needed(records: Iterable[MoveRecord], budgets: Budgets, cooldown: float, now: float) -> list[bool]:
    """For each record whether a move is under way, or a budget or a hold still depends on it."""
    found = list(records)
    held = holds(found, cooldown)
    since = now - longest_window(budgets) - SEND_WITHIN
    return [
        each.under_way
        or (each.counts and each.at > since)
        or (each.state is not MoveState.CANCELLED and held[each.slot] > now)
        for each in found
    ]


def longest_window(budgets: Budgets) -> float:
    return max((each.within for each in budgets.values()), default=0.0)
